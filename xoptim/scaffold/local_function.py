"""A local function with the body of selected nodes, and an example that calls it."""

import math
import textwrap
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from xoptim.facts.errors import ModelError
from xoptim.graph.constants import constant_array
from xoptim.graph.graph import Graph
from xoptim.graph.node import Node
from xoptim.match.create import DOMAIN
from xoptim.scaffold.calls import Calls
from xoptim.scaffold.source_text import SHOWN

_WIDTH = 96
"""Length of a line of ONNX text, which is indented by four columns."""


class LocalFunction:
    """A function with the same body as selected nodes, in ONNX text."""

    def __init__(self, name: str, calls: Calls) -> None:
        self._calls = calls
        self._inside: dict[str, np.ndarray] = {}
        """Constants that the function and the example hold, by their names there."""
        nodes = [self._proto(node) for node in calls.nodes]
        stored = [
            numpy_helper.from_array(array, constant) for constant, array in self._inside.items()
        ]
        constants = [
            helper.make_node("Constant", [], [tensor.name], value=tensor) for tensor in stored
        ]
        body = _lines("\n".join(map(str.strip, _text_of((*constants, *nodes)))))
        head = f"{name} ({', '.join(calls.parameters)}) => ({', '.join(calls.results)})"
        # its definition without a header
        self.lines = [head, "{", *(f"    {line}" for line in body), "}"]
        call = helper.make_node(name, list(calls.parameters), calls.results, domain=DOMAIN)
        self.before = self._graph(nodes, stored)  # a graph of the nodes
        # a graph of a call of the function, and the function with its header
        self.after = "\n".join((self._graph([call], []), self._header(), *self.lines))

    def _proto(self, node: Node) -> onnx.NodeProto:
        """A node with the names of the pattern."""
        proto, variables = node.to_proto(), self._calls.variables
        inputs = [variables.get(name) or self._stored(name) if name else "" for name in node.input]
        proto.ClearField("name")
        proto.ClearField("doc_string")
        proto.ClearField("metadata_props")
        del proto.input[:], proto.output[:]
        proto.input.extend(inputs)
        proto.output.extend(
            variables.get(name, f"unread{place}" if name else "")
            for place, name in enumerate(node.output)
        )
        return proto

    def _stored(self, name: str) -> str:
        """The name of a constant that is not a parameter."""
        array = constant_array(self._calls.graph, name)
        assert array is not None
        for known, other in self._inside.items():
            if other.dtype == array.dtype and np.array_equal(other, array):
                return known
        known = f"k{len(self._inside) + 1}"
        self._inside[known] = array
        return known

    def _header(self) -> str:
        used = dict.fromkeys(
            [*([""] if self._inside else []), *(node.domain for node in self._calls.nodes)]
        )
        imports = ", ".join(
            f'"{domain}" : {self._calls.graph.opsets.get(domain, 1)}' for domain in used
        )
        return f'<domain: "{DOMAIN}", opset_import: [{imports}]>'

    def _graph(self, nodes: Sequence[onnx.NodeProto], stored: Sequence[TensorProto]) -> str:
        """The text of a graph of some nodes."""
        calls, dims = self._calls, dict[str, str]()
        by_name = {variable: result for result, variable in calls.variables.items()}
        graph = onnx.GraphProto(name="agraph")
        for name, constant in calls.parameters.items():
            if constant:
                graph.node.extend(_constant_nodes(name, calls.graph, by_name[name]))
            else:
                graph.input.append(_declared(name, calls.graph, by_name[name], dims))
        graph.initializer.extend(stored)
        graph.node.extend(nodes)
        graph.output.extend(
            _declared(name, calls.graph, by_name[name], dims) for name in calls.results
        )
        return "\n".join(_lines(onnx.printer.to_text(graph)))


def _declared(name: str, graph: Graph, result: str, dims: dict[str, str]) -> onnx.ValueInfoProto:
    """The declaration of a result under another name."""
    info = graph.info_of(result)
    if info.shape is None:
        return helper.make_tensor_value_info(name, info.dtype, None)
    shape = [d if isinstance(d, int) else _dim(str(d), dims) for d in info.shape]
    return helper.make_tensor_value_info(name, info.dtype, shape)


def _dim(text: str, dims: dict[str, str]) -> str:
    """A dimension as a word."""
    return (
        text if text.isidentifier() and text.isascii() else dims.setdefault(text, f"d{len(dims)}")
    )


def _constant_nodes(name: str, graph: Graph, result: str) -> list[onnx.NodeProto]:
    """Nodes that make a constant: itself when it is small, else one of its type and shape."""
    info, tensor = graph.info_of(result), graph.tensor(result)
    shape = info.static_shape if tensor is None else tensor.shape
    assert shape is not None
    if math.prod(shape) <= SHOWN:
        array = constant_array(graph, result)
        assert array is not None
        return [helper.make_node("Constant", [], [name], value=numpy_helper.from_array(array))]
    if info.dtype == TensorProto.STRING:
        raise ModelError(f"operand {result!r} holds too many texts for an example")
    value = np.array([0.5 if info.dtype in (TensorProto.FLOAT, TensorProto.DOUBLE) else 0])
    filled = numpy_helper.from_array(value.astype(helper.tensor_dtype_to_np_dtype(info.dtype)))
    return [
        helper.make_node(
            "Constant",
            [],
            [f"{name}_shape"],
            value=numpy_helper.from_array(np.array(shape, np.int64)),
        ),
        helper.make_node("ConstantOfShape", [f"{name}_shape"], [name], value=filled),
    ]


def _text_of(nodes: Iterable[onnx.NodeProto]) -> list[str]:
    """The lines of nodes in ONNX text, as a graph has them: onnx 1.19 does not print a single
    node.
    """
    return onnx.printer.to_text(onnx.GraphProto(name="g", node=nodes)).strip().splitlines()[1:-1]


def _lines(text: str) -> Iterator[str]:
    """Lines of ONNX text, the long ones broken where the syntax allows it."""
    for line in text.strip().splitlines():
        yield from textwrap.wrap(
            line, _WIDTH, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False
        )
