"""Loop and Scan: their states, operands and results, and nodes that may leave the body."""

import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from onnx import TensorProto

from xoptim.facts.dims import lower_bound
from xoptim.facts.dtypes import is_float
from xoptim.facts.errors import Declined
from xoptim.match import Graph, GraphView, Node
from xoptim.operators.registry import is_deterministic

from .._operators import BROADCASTING, ELEMENTWISE

_STAYING: Final = frozenset(("Identity", "QuantizeLinear", "DequantizeLinear"))
"""Operators that stay in a subgraph: Identity, which its outputs need, and quantization, which
runtimes fuse with adjacent operators.
"""

_NUMBERS: Final = frozenset(
    (
        TensorProto.FLOAT,
        TensorProto.DOUBLE,
        TensorProto.FLOAT16,
        TensorProto.INT32,
        TensorProto.INT64,
        TensorProto.BOOL,
    )
)
_UNARY: Final = ELEMENTWISE - {"Clip"}
"""Elementwise operators with one operand. Clip has bounds as well, which must be scalars."""
_FLOATS_ONLY: Final = frozenset(("Div", "Mod", "Pow", "BitShift"))
"""Operators that may fail for some integers, such as a divisor of 0, but not for floats."""
_MAX_ELEMENTS: Final = 1024
"""Maximum number of elements that are computed in about the time of launching an operator."""


def may_leave(node: Node) -> bool:
    """Whether a node of a subgraph may be moved out of it: it computes the same there."""
    return (
        not node.bodies
        and node.op_type not in _STAYING
        and is_deterministic(node.op_type, node.domain)
    )


def is_cheap_and_safe(g: GraphView, body: Graph, node: Node) -> bool:
    """Whether a node of a subgraph is cheap, and cannot fail for any values of its operands.

    These are Shape, Size, and elementwise operators on at most 1024 elements. Excluded are
    operators whose errors depend on values, such as integer division and Cast of strings, and
    operands whose shapes are not known to broadcast.
    """
    inside = g.inside(body)
    if node.domain or not all(node.input):
        return False
    if node.op_type in ("Shape", "Size"):
        return True
    dtypes = {inside.try_infer_type(name) for name in node.input}
    if not dtypes <= _NUMBERS or (node.op_type in _FLOATS_ONLY and not all(map(is_float, dtypes))):
        return False
    shapes = [inside.static_shape(name) for name in node.input]
    if node.op_type not in (_UNARY if len(shapes) == 1 else BROADCASTING) or None in shapes:
        return False
    try:
        return math.prod(np.broadcast_shapes(*filter(None, shapes))) <= _MAX_ELEMENTS
    except ValueError:
        return False


@dataclass(frozen=True, slots=True)
class LoopNode:
    """A Loop or a Scan.

    Attributes:
        node: the node.
        body: its subgraph.
        state_count: number of states.
        first_input: index of the first state in the inputs of the body and of the node.
        first_output: index of the first state in the outputs of the body.
    """

    node: Node
    body: Graph
    state_count: int
    first_input: int
    first_output: int

    @property
    def is_loop(self) -> bool:
        """Whether the node is a Loop. Its first inputs are the trip count and a condition."""
        return self.first_input > 0

    def scan_outputs(self) -> range:
        """The indices of the scan outputs of the node, which follow the states."""
        return range(self.state_count, len(self.node.output))

    def attributes(self, without: Collection[int] = ()) -> dict[str, Any]:
        """The attributes of the node except its body.

        ``without``: indices of scan outputs that are dropped from the attributes.
        """
        values = {
            name: value
            for name, value in self.node.attribute.items()
            if name not in self.node.bodies
        }
        places = [place - self.state_count for place in self.scan_outputs() if place not in without]
        for name in ("scan_output_axes", "scan_output_directions"):
            if name in values:
                values[name] = [values[name][place] for place in places]
                if not places:
                    del values[name]
        return values

    def iterations(self, g: GraphView) -> int | None:
        """The number of iterations; ``None`` if it is unknown or a symbol.

        For a Loop, it is the maximum: the condition that the body returns may end it earlier.
        """
        length = self._length(g)
        return length if isinstance(length, int) else None

    def runs_at_least_once(self, g: GraphView) -> bool:
        """Whether at least one iteration is known to run."""
        length = self._length(g)
        return length is not None and (lower_bound(length) or 0) >= 1

    def _length(self, g: GraphView) -> Any:
        if self.is_loop:
            return self._limit(g)
        axes = self.node.attribute.get("scan_input_axes") or [0] * (
            len(self.node.input) - self.state_count
        )
        lengths = []
        for name, axis in zip(self.node.input[self.state_count :], axes, strict=True):
            shape = g.try_infer_shape(name)
            if shape is not None and -len(shape) <= axis < len(shape):
                lengths.append(shape[axis])
        return next(
            (length for length in lengths if isinstance(length, int)),
            lengths[0] if lengths else None,
        )

    def _limit(self, g: GraphView) -> Any:
        """The maximum number of iterations of a Loop.

        ``None`` if it is unknown, or the initial condition may be false.
        """
        condition = self.node.input[1]
        if condition and not g.get_constant_scalar(condition):
            return None
        data = g.info(self.node.input[0]).data if self.node.input[0] else None
        return data[0] if data else g.get_constant_scalar(self.node.input[0])


def loop_node(g: GraphView, node: Node) -> LoopNode:
    """The parts of a Loop or a Scan.

    Raises:
        Declined: when body and node do not match, or the body cannot be changed because it has
            sparse or overridable initializers.
    """
    body = node.bodies.get("body")
    if body is None or not g.can_splice(body):
        raise Declined("the body has sparse or overridable initializers")
    is_loop = node.op_type == "Loop"
    state_count = len(node.input) - (2 if is_loop else node.attribute.get("num_scan_inputs", 0))
    first_input, first_output = (2, 1) if is_loop else (0, 0)
    outputs = first_output + len(node.output)
    fits = len(body.inputs) == len(node.input) and len(body.outputs) == outputs
    if not fits or not 0 <= state_count <= len(node.output):
        raise Declined("the operands and results do not match those of the body")
    return LoopNode(node, body, state_count, first_input, first_output)


def copy_source(body: Graph, name: str) -> str:
    """The value of a subgraph that Identity nodes copy to ``name``."""
    producer = body.producer(name)
    while producer is not None and producer.op_type == "Identity" and not producer.domain:
        name = producer.input[0]
        producer = body.producer(name)
    return name


def dependencies(g: GraphView, body: Graph, outputs: Collection[str]) -> set[str]:
    """The values on which ``outputs`` of a subgraph depend, inside and outside of it."""
    names: set[str] = set()
    pending = list(outputs)
    while pending:
        name = pending.pop()
        if name not in names:
            names.add(name)
            producer = body.producer(name)
            pending += [] if producer is None else g.reads(producer)
    return names


def inner_names(body: Graph) -> Iterator[str]:
    """All names that a subgraph and its nested subgraphs define."""
    for graph in body.all_graphs():
        yield from graph.inputs
        yield from graph.initializers
        yield from (name for node in graph.nodes for name in node.output)
