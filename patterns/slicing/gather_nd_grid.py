"""A corner of a tensor taken element by element."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from xoptim.facts.dims import is_nonzero
from xoptim.facts.info import Shape
from xoptim.match import Example, GraphView, MatchResult, Node, PatternOptimization, PatternRewriter

from .._axes import axis_of
from .._nodes import is_op
from .._shapes import inserted_ones, is_given_size, results_above


class GatherNDGridPattern(PatternOptimization):
    """GatherND(x, all positions (i, j) with i < n and j < m) → Slice(x, 0:n, 0:m)

    What: recognizes positions that Range, Expand and Concat make, and takes the corner of x at once.
    Why: eight nodes and a large tensor of indices, in the masks of all decoders that torch exports.
    Refuses when:
    1. the indices are not a Concat along the last axis of one number each, or there are batch axes.
    2. a part of them is not known to count along its own axis from 0, by Range, Unsqueeze, Reshape, Expand.
    3. no node above computes the sizes of the grid (the target of an Expand, usually).
    4. the rank of x is unknown, or an axis of x has a size that is a number other than that of the grid. (For other sizes,
       positions outside of x are an error in the original, unless there are none.)
    5. the grid may have no positions, and then more columns than x.
    """

    anchors = ("GatherND",)
    near = ("Concat",)
    min_opset = 11
    radius = 8

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        """Each part of the indices counts along the axis of its own number."""
        concat, grid = g.node_before(node.input[1]), g.try_infer_shape(node.input[1])
        if not is_op(concat, "Concat") or grid is None or node.attribute.get("batch_dims", 0):  # (1)
            return self.none(node, msg="the indices are not made by Concat")
        sizes, parts, source = grid[:-1], concat.input, g.try_infer_shape(node.input[0])
        # A symbolic size that is too small makes the original fail, so its results cannot differ.
        if source is None or any(isinstance(a, int) and a != b for a, b in zip(source, sizes, strict=False)):  # (4)
            return self.none(node, msg="the tensor may be smaller than the grid")
        equal = all(a == b for a, b in zip(source, sizes, strict=False))
        if not equal and not all(is_nonzero(size) or is_given_size(g, size) for size in sizes):  # (5)
            return self.none(node, msg="the grid may be empty, and larger than the tensor")
        if axis_of(g, concat) != len(sizes) or len(parts) != len(sizes):  # (1)
            return self.none(concat, msg="not one number for each axis of the grid")
        for axis, part in enumerate(parts):
            shape = g.try_infer_shape(part)
            if shape is None or shape != (*sizes, 1) or counted_axis(g, part, shape) != axis:  # (2)
                return self.none(concat, msg="a part does not count along its own axis")
        for name in results_above(g, node):
            if g.info(name).data == sizes and g.info(name).rank == 1:
                return MatchResult(self, [node], partial(self._slice, name, len(sizes)))
        return self.none(node, msg="the sizes of the grid are not computed")  # (3)

    def _slice(self, ends: str, count: int, g: PatternRewriter, node: Node) -> list[Node]:
        zeros, axes = (g.make_initializer("", values, source="places") for values in ([0] * count, list(range(count))))
        return [g.make_node("Slice", [node.input[0], zeros, ends, axes], node.output)]

    @classmethod
    def examples(cls) -> Sequence[Example]:
        """A matrix indexed by ``torch.arange(n)[:, None], torch.arange(m)``."""
        return (
            Example(
                "agraph (int64[b,c] ids, float[b,c] x, bool[b] p, bool[c] q) => (float[b,c] y) "
                "<int64 i = {0}, int64 j = {1}, int64[1] k = {-1}> "
                "{ s = Shape(ids) n = Size(p) m = Size(q) r = Range(i, n, j) c = Range(i, m, j) "
                "u = Unsqueeze(r, k) v = Expand(u, s) w = Expand(c, s) f = Unsqueeze(v, k) h = Unsqueeze(w, k) "
                "t = Concat <axis = -1> (f, h) y = GatherND(x, t) }",
                "agraph (int64[b,c] ids, float[b,c] x, bool[b] p, bool[c] q) => (float[b,c] y) "
                "<int64[2] z = {0, 0}, int64[2] k = {0, 1}> "
                "{ s = Shape(ids) y = Slice(x, z, s, k) }",
            ),
        )


def counted_axis(g: GraphView, name: str, shape: Shape, depth: int = 8) -> int | None:
    """The axis along which the elements of a result are 0, 1, 2, ...; ``None`` when there is none such."""
    node = g.node_before(name)
    if is_op(node, "Range"):
        first, step = (g.get_constant_scalar(node.input[place]) for place in (0, 2))
        return 0 if first == 0 and step == 1 else None
    source = g.try_infer_shape(node.input[0]) if is_op(node, "Unsqueeze", "Reshape", "Expand") and depth else None
    if node is None or source is None:
        return None
    axis = counted_axis(g, node.input[0], source, depth - 1)
    if axis is None:
        return None
    if node.op_type == "Expand":
        there = axis + len(shape) - len(source)
        return there if shape[there] == source[axis] else None
    ones = inserted_ones(source, shape)
    return None if ones is None else [i for i in range(len(shape)) if i not in ones][axis]
