import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import ClassVar, Final, NamedTuple

import numpy as np
from onnx import TensorProto

from xoptim.facts.dtypes import Exactness
from xoptim.match import Example, GraphView, MatchResult, Node, PatternOptimization, PatternRewriter

from .._folding import constant
from .._nodes import is_op

_ARITHMETIC: Final = ("Add", "Sub", "Mul", "Neg", "Abs")
_MOVEMENT: Final = ("Expand", "Flatten", "Reshape", "Slice", "Squeeze", "Transpose", "Unsqueeze")
_INTEGERS: Final = frozenset(
    (TensorProto.INT64, TensorProto.INT32, TensorProto.INT8, TensorProto.UINT8, TensorProto.INT16)
)
_ENDS: Final = (TensorProto.FLOAT16, TensorProto.BOOL)
_MAX_MAGNITUDES: Final[Mapping[int, float]] = {
    TensorProto.BOOL: 1.0,
    TensorProto.INT8: 128.0,
    TensorProto.UINT8: 255.0,
    TensorProto.INT16: 32768.0,
    TensorProto.FLOAT16: 65504.0,
}
"""The largest magnitude of a type, where float16 holds it."""
_MAX_NODES: Final = 24
"""Maximum number of nodes between the casts."""
_EXACT: Final = 2048
"""The largest integer up to which all integers are exact in float16."""
_SMALLEST: Final = 2.0**-14
"""The smallest normal number of float16: smaller numbers have fewer digits."""
_HALF_STEP: Final = 16
"""Half of the distance between the largest numbers of float16."""


class _Island(NamedTuple):
    """Float32 operators between casts.

    Attributes:
        nodes: the operators, in order.
        ends: the casts that read results of the operators.
    """

    nodes: list[Node]
    ends: list[Node]


class LowerToFloat16Pattern(PatternOptimization):
    """Cast(Sub(1, Cast(x, to=FLOAT)), to=FLOAT16) → Sub(1, Cast(x, to=FLOAT16)). The same for other
    arithmetic and movement.

    What: computes masks in float16: numbers that are cast from integers, Booleans or float16, and
    then cast to Booleans or float16. A cast to Booleans becomes a comparison with 0.
    Why: some NPUs compute in float16 only, and have no comparisons or casts to Booleans in float32.
    Refuses when:
    1. a result is an output, or a node reads it that is not arithmetic, a movement, or a Cast to
       Booleans or float16.
    2. an operand is neither a Cast from integers, Booleans or float16 nor a constant that is exact
       in float16.
    3. two operands of an operator come from integers. (The difference of large integers would be
       lost.)
    4. a result is cast to Booleans, and depends on more than one Add, Sub or Mul in a row, or a
       constant is beyond 2048.
    5. an operand may be infinite in float16, and the result finite in float32: the operator
       multiplies it by anything but constants of at least 1, or adds numbers beyond 16.
    6. a product of numbers between -1 and 1 is cast to Booleans or computed with: float16 may lose
       the product, or digits of it.
    """

    phase = "lower"
    priority = -1  # before other patterns match the casts
    exactness: ClassVar[Exactness] = "rounding"
    min_opset = 13
    anchors = _ARITHMETIC

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        island = _island(g, node)
        if island is None:  # (1)
            return self.none(
                node,
                msg="a connected float32 operator is not supported, or its result is an output",
            )
        inside = {inner.output[0] for inner in island.nodes}
        # (2)
        if not all(
            _is_held(g, name, inner)
            for inner in island.nodes
            for name in _floats(g, inner)
            if name not in inside
        ):
            return self.none(node, msg="an operand does not fit into float16")
        from_integers = _from_integers(g, island.nodes)
        if any(
            len(from_integers.intersection(_floats(g, inner))) > 1 for inner in island.nodes
        ):  # (3)
            return self.none(
                node, msg="two operands are integers, whose difference float16 may lose"
            )
        steps = _steps(island.nodes)
        deciding = {
            cast.input[0] for cast in island.ends if cast.get_attribute("to") == TensorProto.BOOL
        }
        # (4)
        if any(steps[name] > 1 for name in deciding) or (
            deciding and not _are_small(g, island.nodes)
        ):
            return self.none(
                node, msg="a comparison depends on several operations, or a value beyond 2048"
            )
        magnitudes = _magnitudes(g, island.nodes)
        if any(_may_be_finite(g, inner, magnitudes) for inner in island.nodes):  # (5)
            return self.none(
                node, msg="an operand may be infinite in float16 where the result is finite"
            )
        if any(_may_vanish(g, inner, island) for inner in island.nodes):  # (6)
            return self.none(node, msg="a product may be too small for float16")
        return MatchResult(
            self, [*island.nodes, *island.ends], partial(self._replace, len(island.nodes))
        )

    def _replace(self, count: int, g: PatternRewriter, *matched: Node) -> list[Node]:
        halves: dict[str, str] = {}
        for node in matched[:count]:
            operands = [
                _half(g, name, halves) if g.try_infer_type(name) == TensorProto.FLOAT else name
                for name in node.input
            ]
            result = getattr(g.op, node.op_type)(*operands, **node.attribute)
            halves[node.output[0]] = result
        nodes = list[Node]()
        for end in matched[count:]:
            half = halves[end.input[0]]
            if end.get_attribute("to") == TensorProto.BOOL:
                is_zero = g.op.Equal(half, np.float16(0))
                nodes.append(g.make_node("Not", [is_zero], end.output))
            else:
                nodes.append(g.make_node("Identity", [half], end.output))
        return [*g.created, *nodes]

    _mask = "agraph (int64[n,4] m) => (float16[n,4] y)"
    examples = Example.pairs(
        f"{_mask} <float one = {{1}}> {{ a = Cast <to = 1> (m) b = Sub(one, a) "
        "y = Cast <to = 10> (b) }",
        "<float16 one = {15360}> { a = Cast <to = 10> (m) y = Sub(one, a) }",
        "agraph (int64[n,4] m) => (float16[n,1,4] y, bool[n,4] z) <float one = {1}, "
        "int64[1] k = {1}> { a = Cast <to = 1> (m) b = Sub(one, a) c = Unsqueeze(b, k) "
        "y = Cast <to = 10> (c) z = Cast <to = 9> (b) }",
        "<float16 one = {15360}, float16 zero = {0}, int64[1] k = {1}> { a = Cast <to = 10> (m) "
        "b = Sub(one, a) y = Unsqueeze(b, k) e = Equal(b, zero) z = Not(e) }",
        opset=13,
    )


def _floats(g: GraphView, node: Node) -> list[str]:
    """The float32 operands."""
    return [name for name in node.input if name and g.try_infer_type(name) == TensorProto.FLOAT]


def _island(g: GraphView, start: Node) -> _Island | None:
    """All operators that float32 tensors connect with a node.

    ``None`` unless the tensors end in casts to Booleans or float16.
    """
    nodes, ends, waiting = list[Node](), list[Node](), [start]
    while waiting:
        node = waiting.pop()
        if node in nodes:
            continue
        if (
            not is_op(node, *_ARITHMETIC, *_MOVEMENT)
            or not _is_inner(g, node.output[0])
            or len(nodes) == _MAX_NODES
        ):
            return None
        nodes.append(node)
        consumers = g.next_nodes(node.output[0])
        casts = [consumer for consumer in consumers if is_op(consumer, "Cast")]
        if any(cast.get_attribute("to") not in _ENDS for cast in casts):
            return None
        ends += casts
        waiting += [consumer for consumer in consumers if consumer not in casts]
        producers = (g.node_before(name) for name in _floats(g, node))
        waiting += [
            producer
            for producer in producers
            if producer is not None and not is_op(producer, "Cast")
        ]
    return _Island(sorted(nodes, key=lambda node: node.label), ends)


def _is_inner(g: GraphView, name: str) -> bool:
    is_float = g.try_infer_type(name) == TensorProto.FLOAT
    return (
        is_float
        and bool(g.next_nodes(name))
        and not g.is_output(name)
        and not g.is_used_by_subgraph(name)
    )


def _is_held(g: GraphView, name: str, reader: Node) -> bool:
    """Whether float16 represents an operand from outside of the island.

    Any integer passes: a large one becomes infinite.
    """
    if g.is_constant(name):
        sizes = np.abs(constant(g, name))
        with np.errstate(over="ignore"):
            is_same = np.array_equal(sizes.astype(np.float16).astype(np.float32), sizes)
        is_normal = bool(np.isfinite(sizes).all() and ((sizes == 0) | (sizes >= _SMALLEST)).all())
        is_zero = is_op(reader, "Mul") and not sizes.all()  # an infinite number times 0 is NaN
        return is_same and is_normal and not is_zero
    node = g.node_before(name)
    return is_op(node, "Cast") and g.try_infer_type(node.input[0]) in (*_INTEGERS, *_ENDS)


def _from_integers(g: GraphView, nodes: Sequence[Node]) -> set[str]:
    """The tensors that depend on integers, which may have any size."""
    names: set[str] = set()
    for node in nodes:
        for name in _floats(g, node):
            before = g.node_before(name)
            if is_op(before, "Cast") and g.try_infer_type(before.input[0]) in _INTEGERS:
                names.add(name)
        if not names.isdisjoint(node.input):
            names.add(node.output[0])
    return names


def _steps(nodes: Sequence[Node]) -> dict[str, int]:
    """The number of Add, Sub and Mul in a row on the longest way to each result."""
    counts: dict[str, int] = {}
    for node in nodes:
        before = max((counts.get(name, 0) for name in node.input), default=0)
        counts[node.output[0]] = before + is_op(node, "Add", "Sub", "Mul")
    return counts


def _magnitudes(g: GraphView, nodes: Sequence[Node]) -> dict[str, float]:
    """The largest magnitude of each float32 tensor; infinity for integers of 32 or 64 bits."""
    magnitudes: dict[str, float] = {}
    for node in nodes:
        for name in _floats(g, node):
            before = g.node_before(name)
            if g.is_constant(name):
                magnitudes[name] = float(np.abs(constant(g, name)).max(initial=0))
            elif is_op(before, "Cast"):
                dtype = g.try_infer_type(before.input[0])
                magnitudes[name] = _MAX_MAGNITUDES.get(dtype, math.inf)
        operands = [magnitudes[name] for name in _floats(g, node)]
        if is_op(node, "Add", "Sub"):
            magnitudes[node.output[0]] = sum(operands)
        elif is_op(node, "Mul"):
            magnitudes[node.output[0]] = math.prod(operands)
        else:
            magnitudes[node.output[0]] = operands[0]
    return magnitudes


def _may_be_finite(g: GraphView, node: Node, magnitudes: Mapping[str, float]) -> bool:
    """Whether a result may be finite in float32 where an operand is infinite in float16."""
    if not is_op(node, "Add", "Mul", "Sub"):
        return False
    left, right = node.input
    pairs = [(left, right), (right, left)]
    partners = [
        partner
        for operand, partner in pairs
        if magnitudes[operand] > _MAX_MAGNITUDES[TensorProto.FLOAT16]
    ]
    if is_op(node, "Mul"):
        return not all(_is_at_least_1(g, partner) for partner in partners)
    return any(magnitudes[partner] > _HALF_STEP for partner in partners)


def _may_vanish(g: GraphView, node: Node, island: _Island) -> bool:
    """Whether a product may be 0 or lose digits in float16 only, before other operators read it."""
    if not is_op(node, "Mul"):
        return False
    to_bool = [end for end in island.ends if end.get_attribute("to") == TensorProto.BOOL]
    readers = (*island.nodes, *to_bool)
    if not any(node.output[0] in reader.input for reader in readers):
        return False
    return not any(_is_integral(g, name) or _is_at_least_1(g, name) for name in node.input)


def _is_integral(g: GraphView, name: str) -> bool:
    """Whether numbers are integers: constants, Casts, and results of arithmetic and movements."""
    if g.is_constant(name):
        array = constant(g, name)
        return bool((array == np.floor(array)).all())
    node = g.node_before(name)
    if is_op(node, "Cast"):
        return g.try_infer_type(node.input[0]) != TensorProto.FLOAT16
    return is_op(node, *_ARITHMETIC, *_MOVEMENT) and all(
        _is_integral(g, operand) for operand in _floats(g, node)
    )


def _is_at_least_1(g: GraphView, name: str) -> bool:
    return g.is_constant(name) and bool((np.abs(constant(g, name)) >= 1).all())


def _are_small(g: GraphView, nodes: Sequence[Node]) -> bool:
    """Whether no constant is beyond 2048, up to which float16 holds all integers."""
    names = (name for node in nodes for name in _floats(g, node) if g.is_constant(name))
    return all(np.abs(constant(g, name)).max(initial=0) <= _EXACT for name in names)


def _half(g: PatternRewriter, name: str, halves: dict[str, str]) -> str:
    """An operand in float16: the entry of ``halves``, or a new one."""
    if name in halves:
        return halves[name]
    if g.is_constant(name):
        half = g.make_initializer("", constant(g, name).astype(np.float16), source=name)
    else:
        cast = g.node_before(name)
        assert cast is not None
        source = cast.input[0]
        is_half = g.try_infer_type(source) == TensorProto.FLOAT16
        half = source if is_half else g.op.Cast(source, to=TensorProto.FLOAT16)
    halves[name] = half
    return half
