"""Helpers of the documentation: a small model for experiments, and models as text and as
pictures.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from math import prod
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, TensorProto, helper, numpy_helper

from xoptim.facts.attributes import AttributeReference, decode_attribute
from xoptim.facts.dtypes import type_name

_MAX_VALUES = 6
"""Maximum number of elements of a tensor whose values are shown."""


def demo_mlp_model(path: str | os.PathLike[str] | None = None) -> onnx.ModelProto:
    """A perceptron with one hidden layer, as torch exports it: the weights are transposed at run
    time.

    Shapes: ``x`` is (3, 10), the hidden layer (3, 32), the output (3, 1). The weights are random,
    always the same. Returns the model. ``path``: file to write, if any.
    """
    rng = np.random.default_rng(0)

    def uniform(name: str, fan_in: int, *shape: int) -> TensorProto:
        bound = fan_in**-0.5
        return numpy_helper.from_array(rng.uniform(-bound, bound, shape).astype(np.float32), name)

    def value(name: str, *shape: int) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)

    relu = helper.make_node("Relu", ["linear"], ["relu"], name="relu")
    nodes = [*_layer(0, "x", "linear"), relu, *_layer(2, "relu", "output")]
    weights = [uniform("layers.0.weight", 10, 32, 10), uniform("layers.0.bias", 10, 32)]
    weights += [uniform("layers.2.weight", 32, 1, 32), uniform("layers.2.bias", 32, 1)]
    inferred_values = [
        value("layers.0.weight.t", 10, 32),
        *(value(name, 3, 32) for name in ("linear.product", "linear", "relu")),
    ]
    inferred_values += [value("layers.2.weight.t", 32, 1), value("output.product", 3, 1)]
    graph = helper.make_graph(
        nodes,
        "mlp",
        [value("x", 3, 10)],
        [value("output", 3, 1)],
        weights,
        value_info=inferred_values,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    if path is not None:
        onnx.save(model, path)
    return model


def _layer(index: int, source: str, result: str) -> list[onnx.NodeProto]:
    weight = f"layers.{index}.weight"
    return [
        helper.make_node(
            "Transpose", [weight], [f"{weight}.t"], name=f"transpose_{index}", perm=[1, 0]
        ),
        helper.make_node(
            "MatMul", [source, f"{weight}.t"], [f"{result}.product"], name=f"matmul_{index}"
        ),
        helper.make_node(
            "Add", [f"{result}.product", f"layers.{index}.bias"], [result], name=f"add_{index}"
        ),
    ]


def pretty_onnx(
    model: onnx.ModelProto | onnx.GraphProto | onnx.FunctionProto | onnx.NodeProto,
) -> str:
    """A model as text: one line for each input, initializer, node and output, with attributes and
    types.

    Subgraphs and functions follow the line they belong to, indented. Large values are not shown,
    and weights in other files are not read.
    """
    if isinstance(model, onnx.NodeProto):
        return "\n".join(_node_lines(model, {}))
    if isinstance(model, onnx.GraphProto):
        return "\n".join(_graph_lines(model, {}))
    if isinstance(model, onnx.FunctionProto):
        return "\n".join(_function_lines(model))
    lines = [f"opset: {_imports(model.opset_import)}", *_graph_lines(model.graph, {})]
    for function in model.functions:
        lines += _function_lines(function)
    return "\n".join(lines)


def _imports(opsets: Iterable[onnx.OperatorSetIdProto]) -> str:
    return ", ".join(f"{opset.domain or 'ai.onnx'} {opset.version}" for opset in opsets)


def _function_lines(function: onnx.FunctionProto) -> Iterator[str]:
    attributes = [*function.attribute, *(attribute.name for attribute in function.attribute_proto)]
    parameters = ", ".join((*function.input, *(f"@{name}" for name in attributes)))
    name = f"{function.domain}.{function.name}" if function.domain else function.name
    yield f"function: {name}({parameters}) -> {', '.join(function.output)}"
    yield f"    opset: {_imports(function.opset_import)}"
    types = _types(function.value_info)
    for node in function.node:
        yield from (f"    {line}" for line in _node_lines(node, types))


def _graph_lines(graph: onnx.GraphProto, outer: Mapping[str, str]) -> Iterator[str]:
    types = {**outer, **_types((*graph.value_info, *graph.input, *graph.output))}
    for value in graph.input:
        yield f"input: {value.name} {_type(value.type)}"
    for name, text in _initializers(graph):
        yield f"init: {name} {text}"
    for node in graph.node:
        yield from _node_lines(node, types)
    for value in graph.output:
        yield f"output: {value.name} {_type(value.type)}"


def _initializers(graph: onnx.GraphProto) -> Iterator[tuple[str, str]]:
    """The names of initializers, each with its type and, if it is small, its values."""
    for tensor in graph.initializer:
        yield tensor.name, _tensor(tensor)
    for sparse in graph.sparse_initializer:
        text = f"sparse {_tensor(sparse.values)} of {_dims(sparse.dims)}"
        yield sparse.values.name, text


def _node_lines(node: onnx.NodeProto, types: Mapping[str, str]) -> Iterator[str]:
    graphs = [
        (a.name, graph)
        for a in node.attribute
        for graph in ([a.g] if a.type == AttributeProto.GRAPH else a.graphs)
    ]
    plain = [
        f"{a.name}={_attribute(a)}"
        for a in node.attribute
        if not a.graphs and a.type != AttributeProto.GRAPH
    ]
    operator = f"{node.domain}.{node.op_type}" if node.domain else node.op_type
    results = ", ".join(
        f"{name} {types[name]}" if name in types else name or "_" for name in node.output
    )
    yield f"{operator}({', '.join((*(name or '_' for name in node.input), *plain))}) -> {results}"
    for name, graph in graphs:
        yield f"    {name}:"
        yield from (f"        {line}" for line in _graph_lines(graph, types))


def _types(values: Iterable[onnx.ValueInfoProto]) -> dict[str, str]:
    return {
        value.name: _type(value.type)
        for value in values
        if value.type.WhichOneof("value") is not None
    }


def _type(proto: onnx.TypeProto) -> str:
    """``float[batch,3]``, ``seq(int64[?])``, ``?`` when unknown."""
    kind = proto.WhichOneof("value")
    if kind == "sequence_type":
        return f"seq({_type(proto.sequence_type.elem_type)})"
    if kind == "optional_type":
        return f"optional({_type(proto.optional_type.elem_type)})"
    if kind == "map_type":
        return f"map({type_name(proto.map_type.key_type)}, {_type(proto.map_type.value_type)})"
    if kind == "sparse_tensor_type":
        return f"sparse {_tensor_type(proto.sparse_tensor_type)}"
    return _tensor_type(proto.tensor_type) if kind == "tensor_type" else "?"


def _tensor_type(proto: onnx.TypeProto.Tensor | onnx.TypeProto.SparseTensor) -> str:
    name = type_name(proto.elem_type)
    if not proto.HasField("shape"):
        return name + "[...]"
    return name + _dims(
        d.dim_value if d.HasField("dim_value") else d.dim_param or "?" for d in proto.shape.dim
    )


def _dims(dims: Iterable[int | str]) -> str:
    return f"[{','.join(map(str, dims))}]"


def _tensor(tensor: TensorProto) -> str:
    text = type_name(tensor.data_type) + _dims(tensor.dims)
    if tensor.data_location == TensorProto.EXTERNAL:
        return text + " in another file"
    return f"{text} = {_values(tensor)}" if prod(tensor.dims) <= _MAX_VALUES else text


def _values(tensor: TensorProto) -> str:
    array = numpy_helper.to_array(tensor)
    items = array.ravel().tolist()
    shown = [
        f"{v:.6g}" if isinstance(v, float) else repr(v) if isinstance(v, (str, bytes)) else str(v)
        for v in items
    ]
    return shown[0] if array.ndim == 0 else f"[{', '.join(shown)}]"


def _attribute(attribute: AttributeProto) -> str:
    value: Any = decode_attribute(attribute)
    if isinstance(value, AttributeReference):
        return f"@{value.name}"
    if isinstance(value, TensorProto):
        return _tensor(value)
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, list) and value and isinstance(value[0], float):
        return f"[{', '.join(f'{v:.6g}' for v in value)}]"
    return repr(value) if isinstance(value, (str, bytes, int, list)) else type(value).__name__


def to_dot(model: onnx.ModelProto) -> str:
    """A model as a picture in Graphviz' language.

    Boxes are nodes, labelled with the operator and its attributes. Ovals are inputs and outputs,
    grey notes are initializers, and frames are subgraphs. The label of an edge is the name and the
    type of a result.
    """
    return "\n".join(
        (
            "digraph {",
            "  node [shape=box, fontsize=11]",
            "  edge [fontsize=8]",
            *_Dot().graph(model.graph),
            "}",
        )
    )


class _Dot:
    """Lines of a picture.

    Identifiers are numbers, because names of results may hold any character.
    """

    def __init__(self) -> None:
        self.count = 0

    def graph(
        self, graph: onnx.GraphProto, outer: Mapping[str, tuple[str, str]] | None = None
    ) -> Iterator[str]:
        """Lines of a graph.

        ``outer`` maps results of the surrounding graphs to their vertex and their label.
        """
        types = _types((*graph.value_info, *graph.input, *graph.output))
        sources = dict(outer or {})
        for value in graph.input:
            yield self._vertex(f"{value.name}\n{_type(value.type)}", "shape=oval")
            sources[value.name] = self._last(), ""
        for name, text in _initializers(graph):
            yield self._vertex(
                f"{name}\n{text}", "shape=note, color=grey, fontcolor=grey, fontsize=8"
            )
            sources[name] = self._last(), ""
        for node in graph.node:
            yield from self._node(node, sources, types)
        for value in graph.output:
            yield self._vertex(f"{value.name}\n{_type(value.type)}", "shape=oval")
            yield from self._edges([value.name], sources, self._last())

    def _node(
        self, node: onnx.NodeProto, sources: dict[str, tuple[str, str]], types: Mapping[str, str]
    ) -> Iterator[str]:
        graphs = [
            a for a in node.attribute if a.type in (AttributeProto.GRAPH, AttributeProto.GRAPHS)
        ]
        plain = "\n".join(f"{a.name}={_attribute(a)}" for a in node.attribute if a not in graphs)
        yield self._vertex(
            f"{node.domain}.{node.op_type}".lstrip(".") + ("\n" + plain if plain else "")
        )
        vertex = self._last()
        yield from self._edges(node.input, sources, vertex)
        for attribute in graphs:
            for graph in (
                [attribute.g] if attribute.type == AttributeProto.GRAPH else attribute.graphs
            ):
                self.count += 1
                yield f"  subgraph cluster_{self.count} {{"
                yield f"  label={_quoted(f'{node.op_type} {attribute.name}')}"
                yield from self.graph(graph, sources)
                yield "  }"
        for name in node.output:
            sources[name] = vertex, f"{name}\n{types.get(name, '')}".rstrip()

    def _vertex(self, label: str, style: str = "") -> str:
        self.count += 1
        return f"  {self._last()} [label={_quoted(label)}{', ' + style if style else ''}]"

    def _last(self) -> str:
        return f"v{self.count}"

    @staticmethod
    def _edges(
        names: Iterable[str], sources: Mapping[str, tuple[str, str]], target: str
    ) -> Iterator[str]:
        for name in names:
            if name in sources:
                vertex, label = sources[name]
                yield f"  {vertex} -> {target}" + (f" [label={_quoted(label)}]" if label else "")


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
