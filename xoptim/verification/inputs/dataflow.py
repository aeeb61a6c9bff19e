"""Producers, readers and shapes of the values of a model, through subgraphs and functions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import onnx
from onnx import AttributeProto, NodeProto, TensorProto, numpy_helper

from xoptim.facts.protos import is_external
from xoptim.verification.runs.protos import inferred_graph

Shape: TypeAlias = "tuple[int | str | None, ...]"
"""One entry per axis: its size, the expression that names it, or ``None``."""

_SMALL: Final = 1024  # elements; larger constants are never read
# The node's first input that its body reads, the body's input for it, and the body's first output
# that the node returns.
_BODIES: Final = {"Loop": (2, 2, 1), "Scan": (0, 0, 0), "SequenceMap": (0, 0, 0), "If": (0, 0, 0)}
_SAME_SHAPE: Final = frozenset(
    {"Cast", "Identity", "DequantizeLinear", "QuantizeLinear", "CastLike"}
)


class Use(NamedTuple):
    """A place where a value is read: the node, the position among its inputs, and the scope of its
    names.
    """

    node: NodeProto
    slot: int
    scope: str

    def operand(self, slot: int) -> str:
        """Scoped name of an input of the same node, ``""`` when it is absent."""
        return (
            self.scope + self.node.input[slot]
            if slot < len(self.node.input) and self.node.input[slot]
            else ""
        )


class Dataflow:
    """Uses, producers, constants and shapes by value name.

    Names inside a function are prefixed with its scope.
    """

    def __init__(self, model: onnx.ModelProto) -> None:
        self._model = model
        self._functions = {(f.domain, f.name): f for f in model.functions}
        self._entered: set[tuple[str, str]] = set()
        self._uses: defaultdict[str, list[Use]] = defaultdict(list)
        self._aliases: defaultdict[str, list[str]] = defaultdict(list)
        self._origins: dict[str, str] = {}
        self._producers: dict[str, tuple[NodeProto, str]] = {}
        self._shapes: dict[str, Shape] = {}
        self._constants: dict[str, TensorProto] = {}
        self._inferred = False
        self._add_graph(model.graph, "")

    def uses(self, name: str) -> Iterator[Use]:
        """The nodes that read a value, but not those that only pass it to a body or a function."""
        return iter(self._uses.get(name, ()))

    def aliases(self, name: str) -> Sequence[str]:
        """Other names of the same value: inside the bodies and functions that it is passed to, or
        outside them.
        """
        return self._aliases.get(name, ())

    def constant(self, name: str) -> np.ndarray | None:
        """The numbers of a small constant, ``None`` for every other value."""
        tensor = self._constants.get(name)
        if tensor is None:
            origin = self._origins.get(name)
            return None if origin is None else self.constant(origin)
        return numpy_helper.to_array(tensor)

    def shape(self, name: str) -> Shape | None:
        """The shape of a value, ``None`` when its rank is unknown.

        Infers the shapes of the model if necessary.
        """
        shape = self._known_shape(name)
        if shape is None and not self._inferred:
            self._inferred = True
            self._infer()
            shape = self._known_shape(name)
        return shape

    def _known_shape(self, name: str) -> Shape | None:
        while name not in self._shapes:
            node, scope = self._producers.get(name, (None, ""))
            if name in self._origins:
                name = self._origins[name]
            elif node is not None and node.op_type in _SAME_SHAPE:
                name = scope + node.input[0]
            else:
                return None
        return self._shapes[name]

    def _infer(self) -> None:
        inferred = inferred_graph(self._model, _SMALL * 8, data_prop=True)
        if inferred is not None:
            self._add_value_infos(inferred.value_info, "")

    def _add_graph(self, graph: onnx.GraphProto, scope: str) -> None:
        for tensor in graph.initializer:
            self._add_constant(scope + tensor.name, tensor)
        for values in (graph.input, graph.output, graph.value_info):
            self._add_value_infos(values, scope)
        self._add_nodes(graph.node, scope)

    def _add_value_infos(self, values: Sequence[onnx.ValueInfoProto], scope: str) -> None:
        for value in values:
            if value.type.WhichOneof("value") == "tensor_type" and value.type.tensor_type.HasField(
                "shape"
            ):
                self._shapes.setdefault(scope + value.name, shape_of(value.type.tensor_type.shape))

    def _add_constant(self, name: str, tensor: TensorProto) -> None:
        self._shapes[name] = tuple(tensor.dims)
        if not is_external(tensor) and np.prod(tensor.dims, dtype=np.int64) <= _SMALL:
            self._constants[name] = tensor

    def _add_nodes(self, nodes: Sequence[NodeProto], scope: str) -> None:
        for node in nodes:
            for slot, name in enumerate(node.input):
                if name:
                    self._uses[scope + name].append(Use(node, slot, scope))
            for name in node.output:
                self._producers[scope + name] = (node, scope)
            if (node.domain, node.op_type) in self._functions:
                self._add_call(node, scope)
            for attribute in node.attribute:
                if attribute.type == AttributeProto.GRAPH:
                    self._add_body(node, attribute.g, scope)
                elif attribute.name == "value" and attribute.type == AttributeProto.TENSOR:
                    self._add_constant(scope + node.output[0], attribute.t)

    def _add_body(self, node: NodeProto, body: onnx.GraphProto, scope: str) -> None:
        self._add_graph(body, scope)
        start, first_input, first_output = _BODIES.get(node.op_type, (0, 0, 0))
        self._link(
            [scope + name for name in node.input[start:]],
            [scope + value.name for value in body.input[first_input:]],
        )
        self._link(
            [scope + v.name for v in body.output[first_output:]],
            [scope + name for name in node.output],
        )

    def _add_call(self, node: NodeProto, scope: str) -> None:
        key = (node.domain, node.op_type)
        function = self._functions[key]
        inner_scope = f"{node.domain}::{node.op_type}::"
        self._link(
            [scope + name for name in node.input], [inner_scope + name for name in function.input]
        )
        self._link(
            [inner_scope + name for name in function.output], [scope + name for name in node.output]
        )
        if key not in self._entered:
            self._entered.add(key)
            self._add_nodes(function.node, inner_scope)

    def _link(self, sources: Sequence[str], targets: Sequence[str]) -> None:
        for source, target in zip(sources, targets, strict=False):
            self._aliases[source].append(target)
            self._origins.setdefault(target, source)


def shape_of(shape: onnx.TensorShapeProto) -> Shape:
    """The declared shape; names that mean "unknown" and sizes below 1 become ``None``."""
    return tuple(_dimension(dim) for dim in shape.dim)


def _dimension(dim: onnx.TensorShapeProto.Dimension) -> int | str | None:
    if dim.dim_value > 0:
        return int(dim.dim_value)
    return None if dim.dim_param in ("", "?", "None", "-1") else str(dim.dim_param)


def attribute(node: NodeProto, name: str, default: int) -> int:
    """An integer attribute, or its default."""
    return next((int(a.i) for a in node.attribute if a.name == name), default)
