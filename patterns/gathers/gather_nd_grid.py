from functools import partial

from xoptim.facts.dims import is_nonzero
from xoptim.match import Example, GraphView, MatchResult, Node, PatternOptimization, PatternRewriter

from .._grids import Sizes, computed_sizes, grid_of, write_sizes
from .._shapes import is_given_size


class GatherNDGridPattern(PatternOptimization):
    """GatherND(x, all positions (i, j) with i < n and j < m) → Slice(x, 0:n, 0:m)

    What: recognizes positions that Range, Expand and Concat make, and takes the corner of x at once, or x where that is all;
    axes of size 1 of the positions are put in before that.
    Why: eight nodes and a large tensor of indices, in the masks of all decoders that torch exports.
    Refuses when:
    1. the indices are not known to be all positions of a grid in order, each number counted from 0 along an axis of its own, by
       Range, Unsqueeze, Reshape, Expand; or there are batch axes.
    2. the rank of x is unknown, or the size of an axis of x is another number than the size of the grid. (For other sizes,
       positions outside of x are an error in the original, unless there are none.)
    3. no nodes above compute the sizes of the grid (the target of an Expand, or numbers), and no tensors have them.
    4. the grid may have no positions, and then more columns than x; or it takes one position of an axis.
    """

    anchors = ("GatherND",)
    near = ("Concat",)
    min_opset = 11
    radius = 8

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        """Each part of the indices counts along the axis of its own number."""
        grid, source = grid_of(g, node.input[1]), g.try_infer_shape(node.input[0])
        if grid is None or node.attribute.get("batch_dims", 0):  # (1)
            return self.none(node, msg="the indices are not all positions of a grid, in order")
        sizes = grid.sizes
        # A symbolic size that is too small makes the original fail, so its results cannot differ.
        if source is None or any(isinstance(a, int) and a != b for a, b in zip(source, sizes, strict=False)):  # (2)
            return self.none(node, msg="the tensor may be smaller than the grid")
        cut = [axis for axis, size in enumerate(sizes) if size != source[axis]]
        if cut and not all(size != 1 and (is_nonzero(size) or is_given_size(g, size)) for size in sizes):  # (4)
            return self.none(node, msg="the grid may be empty, and larger than the tensor")
        ends = computed_sizes(g, node, tuple(sizes[axis] for axis in cut)) if cut else ()
        if ends is None:  # (3)
            return self.none(node, msg="the sizes of the grid are not computed")
        ones = [axis for axis in range(len(grid.shape)) if axis not in grid.axes]
        return MatchResult(self, [node], partial(self._corner, ends, [grid.axes[axis] for axis in cut], ones))

    def _corner(self, ends: Sizes, cut: list[int], ones: list[int], g: PatternRewriter, node: Node) -> list[Node]:
        # The last node writes the result itself, whose shape is known; the shape of a Slice alone is not.
        source, made = node.input[0], []
        if ones:
            outputs = g.unique_name("unsqueezed") if cut else node.output
            made.append(g.make_node_check_opset("Unsqueeze", [source], outputs, axes=ones))
            source = made[-1].output[0]
        if cut:
            end, nodes = write_sizes(g, ends)
            zeros, axes = (g.make_initializer("", values, source="places") for values in ([0] * len(cut), cut))
            made += [*nodes, g.make_node("Slice", [source, zeros, end, axes], node.output)]
        return made or [g.make_node("Identity", [source], node.output)]

    examples = (
        Example(
            "agraph (int64[b,c] ids, float[d,e] x, bool[b] p, bool[c] q) => (float[b,c] y) "
            "<int64 i = {0}, int64 j = {1}, int64[1] k = {-1}> "
            "{ s = Shape(ids) n = Size(p) m = Size(q) r = Range(i, n, j) c = Range(i, m, j) "
            "u = Unsqueeze(r, k) v = Expand(u, s) w = Expand(c, s) f = Unsqueeze(v, k) h = Unsqueeze(w, k) "
            "t = Concat <axis = -1> (f, h) y = GatherND(x, t) }",
            "<int64[2] z = {0, 0}, int64[2] k = {0, 1}> { s = Shape(ids) y = Slice(x, z, s, k) }",
        ),
        Example(
            "agraph (bool[b] p, float[d,c] x) => (float[b,1,c] y) <int64 i = {0}, int64 j = {1}, int64[2] k = {1, 2}, "
            "int64[2] o = {0, 1}, int64[1] q = {-1}> { l = Shape(p) n = Gather(l, i) h = Shape(x) g = Gather(h, j) "
            "r = Range(i, n, j) c = Range(i, g, j) u = Unsqueeze(r, k) v = Unsqueeze(c, o) m = Max(u, v) s = Shape(m) "
            "w = Expand(u, s) z = Expand(v, s) f = Unsqueeze(w, q) a = Unsqueeze(z, q) "
            "t = Concat <axis = -1> (f, a) y = GatherND(x, t) }",
            "<int64[1] o = {0}, int64[1] e = {1}> { n = Shape(p) u = Unsqueeze(x, e) y = Slice(u, o, n, o) }",
        ),
    )
