from functools import partial
from typing import NamedTuple

from xoptim.facts.shapes import Shape
from xoptim.match import Example, GraphView, MatchResult, Node, PatternOptimization, PatternRewriter

from ._lowering import WIDE


class _Source(NamedTuple):
    """A tensor, the axes to slice to size 1, and the number of axes to read (``None`` for all)."""

    name: str
    axes: list[int]
    read: int | None


class LowerSizesWithOnesPattern(PatternOptimization):
    """Concat(Shape(x, start=0, end=1), [1, 1]) → Shape(x[:, 0:1, 0:1])

    What: slices x to size 1 along the axes for which the Concat has a 1, and reads all sizes at
    once.
    Why: the Concat of integers of 64 bits stays on the CPU, for which other nodes then wait. WebGPU
    runs the Slice.
    Refuses when:
    1. the operands of the Concat are not ones and sizes that a Shape reads, each at its position.
    2. the tensor has elements of 64 bits, or fewer axes than the result has numbers. Or an axis to
       slice may be empty.
    """

    phase = "lower"
    exactness = "exact"
    min_opset = 15
    anchors = ("Concat",)
    near = ("Shape",)

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        shapes = [g.node_before(name) for name in node.input]
        shape = next(
            (
                producer
                for producer in shapes
                if producer is not None and producer.op_type == "Shape" and not producer.domain
            ),
            None,
        )
        if shape is None:  # (1)
            return self.none(node, msg="no operand is a dimension of a tensor")
        source = _source(g, node, shape)
        if source is None:  # (1) (2)
            return self.none(
                node, msg="the operands are not dimensions of one tensor and ones, or cannot be cut"
            )
        return MatchResult(self, [node], partial(self._cut, source))

    def _cut(self, source: _Source, g: PatternRewriter, node: Node) -> list[Node]:
        count = len(source.axes)
        cut = g.op.Slice(source.name, starts=[0] * count, ends=[1] * count, axes=source.axes)
        return [*g.created, g.make_node("Shape", [cut], node.output, end=source.read)]

    examples = Example.pairs(
        "agraph (float[a,3,4] x) => (int64[3] y) <int64[2] i = {1, 1}> "
        "{ s = Shape <start = 0, end = 1> (x) y = Concat <axis = 0> (s, i) }",
        "<int64[2] z = {0, 0}, int64[2] e = {1, 1}, int64[2] k = {1, 2}> { t = Slice(x, z, e, k) "
        "y = Shape(t) }",
        "agraph (float[a,3,4,5] x) => (int64[2] y) <int64[1] i = {1}> "
        "{ s = Shape <start = 0, end = 1> (x) y = Concat <axis = 0> (s, i) }",
        "<int64[1] z = {0}, int64[1] e = {1}, int64[1] k = {1}> { t = Slice(x, z, e, k) "
        "y = Shape <end = 2> (t) }",
    )


def _source(g: GraphView, node: Node, shape: Node) -> _Source | None:
    """The tensor whose Shape a Concat reads, ``None`` if slicing it does not give the result."""
    x = shape.input[0]
    info = g.info(x)
    sizes = _sizes(g, node, shape, info.shape)
    if sizes is None or info.shape is None or info.dtype in WIDE:
        return None
    axes = [axis for axis, size in enumerate(sizes) if size == 1]
    lengths = [info.shape[axis] for axis in axes]
    if not axes or not all(isinstance(length, int) and length > 0 for length in lengths):
        return None
    return _Source(x, axes, len(sizes) if len(sizes) < len(info.shape) else None)


def _sizes(g: GraphView, node: Node, shape: Node, dims: Shape | None) -> list[int] | None:
    """For each element of the result: 1 if it is the constant 1, 0 if it is the size of its axis.

    ``None`` if the result has another element.
    """
    sizes: list[int] = []
    for name in node.input:
        if name == shape.output[0]:
            begin = shape.get_attribute("start") or 0
            end = shape.get_attribute("end")
            if dims is None or end is None or begin != len(sizes) or not begin < end <= len(dims):
                return None
            sizes += [0] * (end - begin)
            continue
        constant = g.get_computed_constant(name)
        if constant is None or constant.ndim != 1 or not (constant == 1).all():
            return None
        sizes += [1] * len(constant)
    return sizes if dims is not None and len(sizes) <= len(dims) else None
