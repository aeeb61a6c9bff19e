"""Models from text, functions that inspect and optimize them, variants of a model, and the edits
that make them.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import onnx
from onnx import ModelProto, TensorProto, numpy_helper

from xoptim.api.optimizing import optimize
from xoptim.diagnose.report import OptimizationReport
from xoptim.engine.events import Event
from xoptim.engine.options import OptimizationOptions
from xoptim.facts.attributes import constant_value, decode_attribute
from xoptim.facts.protos import inner_graphs, opset_versions, replace_items, standard_domain
from xoptim.match.rewrite import Example, Rewrite
from xoptim.optimizing.examples import parse as parse, provider_of as provider_of
from xoptim.testing.feeds import Feeds, Values, make_all_feeds
from xoptim.testing.runtime import RUNTIME

INFERENCE_ERRORS = (
    onnx.checker.ValidationError,
    onnx.shape_inference.InferenceError,
    ValueError,
    RuntimeError,
)
"""Errors of the onnx package for wrong models; the latter two come from its C++ side."""


def all_graphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    """A graph and its subgraphs at every depth."""
    yield graph
    yield from inner_graphs(graph.node)


def all_nodes(model: ModelProto) -> Iterator[onnx.NodeProto]:
    """The nodes of a model, also in subgraphs and local functions."""
    for nodes in (model.graph.node, *(function.node for function in model.functions)):
        yield from nodes
        for graph in inner_graphs(nodes):
            yield from graph.node


def opset_of(model: ModelProto, domain: str = "") -> int:
    """Version of an operator set that a model imports, 0 when it does not."""
    return opset_versions(model.opset_import).get(standard_domain(domain), 0)


def serialized(model: ModelProto) -> bytes:
    """Bytes that are equal for equal models."""
    return model.SerializeToString(deterministic=True)


class OptimizedAlone(NamedTuple):
    """The result of an optimization: how often the pattern was applied, and the operators of the
    new nodes, in order.
    """

    model: ModelProto
    applied: int
    created: tuple[str, ...]


def optimize_alone(pattern: type[Rewrite] | None, model: ModelProto) -> OptimizedAlone:
    """Optimize with one pattern (or none) and the default cleaning.

    Errors in the pattern are fatal.
    """
    created: list[str] = []
    reports: list[OptimizationReport] = []

    def listen(event: Event) -> None:
        if event.kind == "applied":
            created.extend(node.op_type for node in event.added)

    options = OptimizationOptions(
        patterns=None if pattern is None else [pattern],
        provider=provider_of(pattern) if pattern is not None else "cpu",
        assume_from_model=True,
        strict=True,
        on_event=listen,
    )
    result = optimize(model, options, report=reports.append)
    applied = 0 if pattern is None else reports[0].applied.get(pattern.name(), 0)
    return OptimizedAlone(result, applied, tuple(created))


class Variant(NamedTuple):
    """A model that differs from an example in one respect."""

    name: str  # the change, ``family: detail``
    model: ModelProto  # the variant
    given: Mapping[str, np.ndarray] = {}  # values of inputs that the example lacks
    # values for initializers that are also inputs, fed in some of the runs
    overrides: Mapping[str, np.ndarray] = {}
    # Operator of a node in the domain `FOREIGN` that every rewrite must leave unchanged, empty when
    # there is none
    kept: str = ""
    values: Sequence[Values] = ()  # numbers to feed in turn, in place of moderate ones

    @property
    def family(self) -> str:
        """The kind of change."""
        return self.name.partition(":")[0]


FOREIGN = "custom"
"""A domain in which operators have familiar names and unknown meanings."""


@dataclass(frozen=True)
class Case:
    """An example, its pattern if known, and data for making variants."""

    example: Example
    pattern: type[Rewrite] | None = None

    @cached_property
    def model(self) -> ModelProto:
        """The example's model before the pattern. Copy it before a change."""
        return parse(self.example.before, self.example.opset, self.example.domains)

    def copy(self) -> ModelProto:
        """A copy of the model."""
        return deepcopy(self.model)

    @cached_property
    def optimized(self) -> dict[tuple[str, bytes], OptimizedAlone]:
        """Optimized models so far, by preset ("" for the pattern alone) and bytes of the model."""
        return {}

    @cached_property
    def types(self) -> dict[str, onnx.TypeProto]:
        """Types of results of the main graph that onnx infers."""
        return inferred_types(self.model)

    @cached_property
    def feeds(self) -> list[Feeds]:
        """Feeds on which the model runs."""
        session = RUNTIME.load(self.model)
        if isinstance(session, str):
            return []
        grade = None if self.pattern is None else self.pattern.exactness
        candidates = list(make_all_feeds(self.model, self.example.ranges, special=grade))
        return [
            feeds
            for feeds, (results,) in RUNTIME.run_all([session], candidates, len(candidates))
            if isinstance(results, list)
        ]

    def rank(self, name: str) -> int | None:
        """Rank of a result, when it is known."""
        type_proto = self.types.get(name)
        if type_proto is None or not type_proto.tensor_type.HasField("shape"):
            return None
        return len(type_proto.tensor_type.shape.dim)

    def dtype(self, name: str) -> int:
        """Element type of a tensor, 0 when unknown."""
        type_proto = self.types.get(name)
        return 0 if type_proto is None else type_proto.tensor_type.elem_type

    @property
    def interior(self) -> list[str]:
        """Results of nodes that are neither constants nor outputs of the main graph."""
        graph = self.model.graph
        outputs = {v.name for v in graph.output}
        nodes = [n for n in graph.node if n.op_type != "Constant"]
        return [name for node in nodes for name in node.output if name and name not in outputs]


def inferred_types(model: ModelProto) -> dict[str, onnx.TypeProto]:
    """Types by result of the main graph, where onnx infers them."""
    try:
        graph = onnx.shape_inference.infer_shapes(model, data_prop=True).graph
    except INFERENCE_ERRORS:
        graph = model.graph
    types = {v.name: v.type for v in (*graph.input, *graph.value_info, *graph.output)}
    for tensor in graph.initializer:
        types.setdefault(
            tensor.name, onnx.helper.make_tensor_type_proto(tensor.data_type, tensor.dims)
        )
    return types


def loosen(model: ModelProto) -> ModelProto:
    """Drop the shapes of outputs and infer their types again; returns the model.

    A variant may compute other shapes and types than the example declares.
    """
    del model.graph.value_info[:]
    declared_types = {output.name: deepcopy(output.type) for output in model.graph.output}
    for output in model.graph.output:
        output.ClearField("type")
    types = inferred_types(model)
    for output in model.graph.output:
        type_proto = types.get(output.name)
        output.type.CopyFrom(
            declared_types[output.name]
            if type_proto is None or type_proto.WhichOneof("value") is None
            else type_proto
        )
        if output.type.HasField("tensor_type"):
            output.type.tensor_type.ClearField("shape")
    return model


class Stored(NamedTuple):
    """A constant of the main graph."""

    name: str
    array: np.ndarray


def constants(model: ModelProto) -> list[Stored]:
    """Initializers and Constant nodes of the main graph."""
    result = [Stored(t.name, numpy_helper.to_array(t)) for t in model.graph.initializer]
    for node in model.graph.node:
        if node.op_type == "Constant" and not node.domain and len(node.attribute) == 1:
            value = constant_value({node.attribute[0].name: decode_attribute(node.attribute[0])})
            if value is not None:
                result.append(
                    Stored(
                        node.output[0],
                        numpy_helper.to_array(value) if isinstance(value, TensorProto) else value,
                    )
                )
    return result


def remove_constant(model: ModelProto, name: str) -> None:
    """Remove a constant of the main graph."""
    graph = model.graph
    replace_items(
        graph.initializer, [tensor for tensor in graph.initializer if tensor.name != name]
    )
    replace_items(graph.node, [node for node in graph.node if name not in node.output])


def set_constant(model: ModelProto, name: str, array: np.ndarray) -> None:
    """Give a constant of the main graph another value; it becomes an initializer."""
    remove_constant(model, name)
    model.graph.initializer.append(numpy_helper.from_array(np.asarray(array), name))


def with_constants(model: ModelProto, changed: Mapping[str, np.ndarray]) -> ModelProto:
    """A copy with other values of some constants."""
    model = deepcopy(model)
    for name, array in changed.items():
        set_constant(model, name, array)
    return loosen(model)


def nodes_of(text: str) -> list[onnx.NodeProto]:
    """Nodes from ONNX text, ``y = Neg(x)``."""
    nodes = list(onnx.parser.parse_graph(f"nodes () => () {{ {text} }}").node)
    for node in nodes:
        node.ClearField("domain")  # as written by `onnx.helper`
    return nodes


def insert(
    model: ModelProto,
    position: int,
    nodes: Iterable[onnx.NodeProto],
    stored: Mapping[str, np.ndarray],
) -> None:
    """Put nodes before the one at a position, and constants after the others."""
    existing_nodes = list(model.graph.node)
    replace_items(
        model.graph.node, (*existing_nodes[:position], *nodes, *existing_nodes[position:])
    )
    model.graph.initializer.extend(
        numpy_helper.from_array(np.asarray(array), name) for name, array in stored.items()
    )


def rename(graphs: Iterable[onnx.GraphProto], new_name: Callable[[str], str]) -> None:
    """Rename results, initializers, inputs and outputs of some graphs, subgraphs included."""
    for root in graphs:
        for graph in all_graphs(root):
            for value in (*graph.input, *graph.output, *graph.value_info):
                value.name = new_name(value.name)
            for tensor in graph.initializer:
                tensor.name = new_name(tensor.name)
            for node in graph.node:
                for names in (node.input, node.output):
                    names[:] = [new_name(name) if name else "" for name in names]


def defined_names(graph: onnx.GraphProto) -> Iterator[str]:
    """Names that a graph and its subgraphs define, except for inputs of the graph itself."""
    for inner in all_graphs(graph):
        yield from (t.name for t in inner.initializer)
        yield from (name for node in inner.node for name in node.output if name)
        if inner is not graph:
            yield from (v.name for v in inner.input)


def tensor_input(name: str, array: np.ndarray) -> onnx.ValueInfoProto:
    """The declaration of an input for an array."""
    element = onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
    return onnx.helper.make_tensor_value_info(name, element, array.shape)
