"""Constants with equal elements along an axis, which become constants of size 1 there."""

import math
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

import numpy as np

from xoptim.facts.dims import Dim
from xoptim.facts.shapes import Shape, broadcast_all
from xoptim.match import (
    CONSTANT_OPERAND,
    Example,
    GraphView,
    MatchResult,
    Node,
    PatternOptimization,
    PatternRewriter,
)
from xoptim.match.regions import AxisRegion, region_below

from .._folding import Array
from .._nodes import renamed
from .._operators import BROADCASTING, is_exponent
from .._shapes import same_dims
from .expand_region import carried, obstacle

_MAX_NODES: Final = 32
_MAX_ELEMENTS: Final = 1 << 22
"""Maximum number of elements of a constant whose elements are compared."""
_SPAN_COST: Final = 64
"""Overhead of a span, in elements that onnxruntime computes in the same time (measured: 10 to 20
ns). A span covers the trailing axes along which each operand is either complete or broadcast.
"""


class _EqualAxis(PatternOptimization):
    """An operator with a constant that shrinks to size 1 along axes with equal elements."""

    anchors = BROADCASTING
    near = (CONSTANT_OPERAND,)
    radius = 8
    min_opset = 8

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        for index, name in enumerate(node.input):
            for small in _smaller_constants(g, name):  # (1)
                match = self.with_constant(g, node, index, small)
                if match is not None:
                    return match
        return self.none(node, msg="no constant that is equal along an axis can be smaller there")

    def with_constant(
        self, g: GraphView, node: Node, index: int, small: Array
    ) -> MatchResult | None:
        """The match that replaces one operand by a smaller constant."""
        raise NotImplementedError


class EqualAxisBroadcastPattern(_EqualAxis):
    """op(x, constant equal along an axis) → op(x, constant of size 1 there)

    What: shrinks a constant whose elements along an axis have the same bits. The elementwise
    operator broadcasts it.
    Why: reads less memory: measured 0.75 of the time of the operator. Many short spans are slower:
    a constant of 1000x64 that becomes 1000x1 would take 1.6 of the time.
    Refuses when:
    1. no constant of rank 2 or more, with up to 4 million elements, is equal along an axis.
    2. the other operands are not known to give the result its shape.
    3. the operator would compute too many short spans.
    4. the operator is Where, or the constant is the exponent of a Pow: in onnxruntime, the sign of
       a 0 that Where copies, and the last bits of a Pow, depend on the shapes.
    """

    anchors = tuple(sorted({*BROADCASTING} - {"Where"}))  # (4)
    providers = ("cpu",)

    def with_constant(
        self, g: GraphView, node: Node, index: int, small: Array
    ) -> MatchResult | None:
        """The match, if the result keeps its shape."""
        if is_exponent(node, index):  # (4)
            return self.none(node, msg="squares would be rounded in another way")
        before = [g.try_infer_shape(name) for name in node.input]
        after = [*before[:index], small.shape, *before[index + 1 :]]
        shape = broadcast_all(after)
        if not same_dims(shape, g.try_infer_shape(node.output[0])):  # (2)
            return self.none(node, msg="the other operands do not give the result its shape")
        if _cost(after) >= _cost(before):  # (3)
            return self.none(node, msg="the operator would compute too many short spans")
        return MatchResult(self, [node], partial(_with_constant, index, small, {}))

    examples = Example.pairs(
        "agraph (float[b,2,3] x) => (float[b,2,3] y) <float[2,3] c = {5, 5, 5, 5, 5, 5}> { "
        "y = Mul(x, c) }",
        "<float[1,1] c = {5}> { y = Mul(x, c) }",
        "agraph (int64[b,2,3] x) => (bool[b,2,3] y) <int64[1,2,3] c = {1, 1, 1, 1, 1, 1}> { "
        "y = Less(x, c) }",
        "<int64[1,1,1] c = {1}> { y = Less(x, c) }",
    )


class EqualAxisElementwisePattern(_EqualAxis):
    """g(... op(x, constant equal along an axis) ..., y) → g(... op(x, constant of size 1) ..., y)

    What: shrinks the results of elementwise operators after the constant as well, until an operator
    that broadcasts restores the shape.
    Why: measured 0.84 of the time of a decode step of Mamba 2, which stores a factor for each
    element of its state. Exp of these factors took most of the time.
    Refuses when:
    1. no constant of rank 2 or more, with up to 4 million elements, is equal along an axis.
    2. the result of the operator does not get smaller.
    3. a consumer is not an elementwise operator, or there are too many.
    4. a result that would shrink is a graph output, or a subgraph reads it.
    5. another node reads a result before all operands of the consumers are computed, so that they
       cannot be replaced together.
    6. the operators would compute too many short spans.
    """

    exactness = "rounding"

    def with_constant(
        self, g: GraphView, node: Node, index: int, small: Array
    ) -> MatchResult | None:
        """The match, if all consumers can read the smaller result."""
        shapes = [g.try_infer_shape(name) for name in node.input]
        shapes[index] = small.shape
        shape, result = broadcast_all(shapes), node.output[0]
        if shape is None or same_dims(shape, g.try_infer_shape(result)):  # (2)
            return self.none(node, msg="the result does not get smaller")
        shrunk: dict[str, Shape] = {result: shape}
        carry = partial(carried, g, shrunk, rounds=True)
        region = region_below(g, shrunk, carry, _MAX_NODES)
        reason = obstacle(g, node, region, shrunk)
        if reason is not None:  # (3) (4) (5)
            return self.none(reason[0], msg=reason[1])
        if not _is_faster(g, node, shapes, region, shrunk):  # (6)
            return self.none(node, msg="the operators would compute too many short spans")
        return MatchResult(
            self,
            [node, *region.nodes],
            partial(_with_constant, index, small, dict.fromkeys(shrunk)),
        )

    examples = Example.pairs(
        "agraph (float[b,2,1] x, float[b,2,3] z) => (float[b,2,3] y) "
        "<float[2,3] c = {1, 1, 1, 2, 2, 2}> { a = Mul(x, c) e = Exp(a) y = Mul(z, e) }",
        "<float[2,1] c = {1, 2}> { a = Mul(x, c) e = Exp(a) y = Mul(z, e) }",
    )


def _smaller_constants(g: GraphView, name: str) -> Iterator[Array]:
    """The constant with size 1 along all axes with equal elements, then along each axis alone."""
    shape = g.static_shape(name)
    if shape is None or len(shape) < 2 or not 1 < math.prod(shape) <= _MAX_ELEMENTS:
        return
    if not g.is_constant(name):
        return
    array = g.get_computed_constant(name)
    if array is None or array.dtype.kind in "Oc":
        return
    axes = _equal_axes(array)
    alternatives = [axes, *([axis] for axis in axes)] if len(axes) > 1 else [axes][: len(axes)]
    for alternative in alternatives:
        index = tuple(slice(1 if axis in alternative else None) for axis in range(array.ndim))
        yield np.ascontiguousarray(array[index])


def _equal_axes(array: Array) -> list[int]:
    """The axes, longer than 1, along which all elements have the same bits."""
    bits = array.view(f"u{array.dtype.itemsize}")
    return [axis for axis in range(array.ndim) if _is_equal(np.moveaxis(bits, axis, -1))]


def _is_equal(lines: Array) -> bool:
    """Whether all elements of each line along the last axis are equal (a few are tested first)."""
    size = lines.shape[-1]
    if size == 1 or lines.flat[0] != lines.flat[size - 1]:
        return False
    first = lines[..., :1]
    return bool((lines[..., -1:] == first).all()) and bool((lines == first).all())


def _cost(shapes: Sequence[Shape | None]) -> float:
    """Estimated time of an operator on broadcast operands, in elements; symbols count as 1."""
    result = broadcast_all(shapes)
    if result is None:
        return math.inf
    sizes = [[1] * (len(result) - len(shape or ())) + _numbers(shape or ()) for shape in shapes]
    total = _numbers(result)
    span, pattern = 1, None
    for axis in reversed(range(len(total))):
        presence = tuple(size[axis] > 1 for size in sizes)
        if total[axis] > 1 and pattern not in (None, presence):
            break
        if total[axis] > 1:
            pattern = presence
        span *= total[axis]
    elements = math.prod(total)
    reads = sum(math.prod(size) for size in sizes) / 2
    return elements + reads + _SPAN_COST * elements / span


def _numbers(shape: Sequence[Dim]) -> list[int]:
    return [dim if isinstance(dim, int) and dim else 1 for dim in shape]


def _is_faster(
    g: GraphView,
    node: Node,
    shapes: Sequence[Shape | None],
    region: AxisRegion,
    shrunk: dict[str, Shape],
) -> bool:
    """Whether a node and its region take less time with the smaller operands."""
    before = _cost([g.try_infer_shape(name) for name in node.input])
    after = _cost(shapes)
    for consumer in region.nodes:
        operands = [name for name in consumer.input if name]
        old = [g.try_infer_shape(name) for name in operands]
        new = [shrunk.get(name, shape) for name, shape in zip(operands, old, strict=True)]
        if consumer.op_type in BROADCASTING:
            before, after = before + _cost(old), after + _cost(new)
        else:
            before, after = before + _cost(old[:1]), after + _cost(new[:1])
    return after < before


def _with_constant(
    index: int,
    small: Array,
    shrunk: dict[str, None],
    g: PatternRewriter,
    node: Node,
    *region: Node,
) -> list[Node]:
    """The nodes, where the first one reads the smaller constant; shrunk results get new names."""
    inputs = [*node.input]
    inputs[index] = g.make_initializer("", small, source=inputs[index])
    names = {name: g.unique_name(name) for name in shrunk}
    outputs = [names.get(name, name) for name in node.output]
    first = g.make_node(node.op_type, inputs, outputs, **node.attribute)
    return [first, *renamed(g, region, names)]
