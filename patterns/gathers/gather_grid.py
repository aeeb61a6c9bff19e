"""Gathers of all elements of a tensor in order, or of a corner of it."""

from functools import partial

from xoptim.facts.dims import is_nonzero
from xoptim.match import Example, GraphView, MatchResult, Node, PatternOptimization, PatternRewriter

from .._grids import Sizes, computed_sizes, counted_from_end, grid_of, write_sizes
from .._nodes import is_op
from .._shapes import is_given_size


class _GatherGrid(PatternOptimization):
    """A Gather or GatherND whose indices enumerate a grid in order."""

    min_opset = 11
    radius = 8

    def corner(
        self,
        source: str,
        ones: list[int],
        ends: Sizes,
        cut: list[int],
        g: PatternRewriter,
        node: Node,
    ) -> list[Node]:
        """Add the axes ``ones`` of size 1 to a tensor, and slice the axes ``cut`` to ``ends``."""
        # The last node writes the output of the Gather, whose shape is known.
        new_nodes = []
        if ones:
            outputs = g.unique_name("unsqueezed") if ends else node.output
            new_nodes.append(g.make_node_check_opset("Unsqueeze", [source], outputs, axes=ones))
            source = new_nodes[-1].output[0]
        if ends:
            end, size_nodes = write_sizes(g, ends)
            zeros, axes = (
                g.make_initializer("", values, source="places") for values in ([0] * len(cut), cut)
            )
            new_nodes += [
                *size_nodes,
                g.make_node("Slice", [source, zeros, end, axes], node.output),
            ]
        return new_nodes or [g.make_node("Identity", [source], node.output)]


class GatherGridPattern(_GatherGrid):
    """Gather(Flatten(x), i · m + j) → Unsqueeze(x), for all indices (i, j) of a matrix x with m
    columns

    What: recognizes indices that Range, Mul and Add compute in order, and reads the matrix or its
    first columns without a Gather.
    Why: torch's tracing exporter writes ``x[rows, columns]`` with eleven nodes in the masks of
    transformers.
    Refuses when:
    1. x is not a matrix, or not flattened to one axis (axes of size 1 may follow). Or the Gather is
       along another axis.
    2. the indices are not known to be i · m + j. Here i and j count from 0, i along an earlier axis
       than j.
    3. the number of rows may differ from the rows of x, or another axis may be longer than 1. Or
       the number of columns may differ from a static number of columns of x. (If x is dynamic, too
       many columns are an error in the original: the last index is out of range.)
    4. there may be no indices, or no node computes the number of columns.
    """

    anchors = ("Gather",)
    near = ("Flatten", "Reshape")

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        flatten = g.node_before(node.input[0])
        source = (
            g.try_infer_shape(flatten.input[0]) if is_op(flatten, "Flatten", "Reshape") else None
        )
        flat_shape, shape = (g.try_infer_shape(name) for name in node.input)
        if (
            flatten is None
            or source is None
            or len(source) != 2
            or flat_shape is None
            or node.attribute.get("axis", 0)
        ):
            return self.none(node, msg="the operand is not a flattened matrix")  # (1)
        if flat_shape != (source[0] * source[1], *[1] * (len(flat_shape) - 1)):  # (1)
            return self.none(node, msg="the operand is not flattened to one axis")
        axes = self._counted(g, node.input[1], source[1])
        if axes is None or shape is None:  # (2)
            return self.none(node, msg="the indices are not known to count the elements row by row")
        ones = [axis for axis in range(len(shape)) if axis not in axes]
        rows, columns = (shape[axis] for axis in axes)
        is_part = columns != source[1]
        if (
            rows != source[0]
            or any(shape[axis] != 1 for axis in ones)
            or (is_part and isinstance(source[1], int))
        ):
            return self.none(node, msg="the indices may not cover all rows and columns")  # (3)
        ends = computed_sizes(g, node, (columns,)) if is_part else ()
        if ends is None or (
            is_part
            and not all(is_nonzero(size) or is_given_size(g, size) for size in (rows, columns))
        ):
            # (4)
            return self.none(
                node, msg="there may be no indices, or the number of columns is not computed"
            )
        ones = [*ones, *range(len(shape), len(shape) + len(flat_shape) - 1)]
        apply = partial(self.corner, flatten.input[0], ones, ends, [axes[1]])
        return MatchResult(self, [node], apply)

    @staticmethod
    def _counted(g: GraphView, name: str, columns: object) -> tuple[int, int] | None:
        """The axes along which the row and the column index count."""
        total, rank = g.node_before(name), g.info(name).rank
        if rank is None or not is_op(total, "Add"):
            return None
        for rows, column in (total.input, total.input[::-1]):
            mul = g.node_before(rows)
            for row, factor in (mul.input, mul.input[::-1]) if is_op(mul, "Mul") else ():
                width = g.info(factor).data or g.get_ints(factor)
                row_axis, column_axis = (counted_from_end(g, part, name) for part in (row, column))
                if row_axis is None or column_axis is None or width is None:
                    continue
                if row_axis < column_axis and tuple(width) == (columns,):
                    return rank + row_axis, rank + column_axis
        return None

    examples = Example.only(
        "agraph (bool[b,s] m) => (bool[b,1,s,1] y) <int64 o = {0}, int64 i = {1}, "
        "int64[2] j = {1, 2}, int64[1] k = {0}> { h = Shape(m) n = Gather(h, o) c = Gather(h, i) "
        "f = Flatten <axis = 2> (m) r = Range(o, n, i) u = Unsqueeze(r, j) q = Range(o, c, i) "
        "w = Unsqueeze(q, k) v = Unsqueeze(c, k) p = Mul(u, v) t = Add(p, w) y = Gather(f, t) }",
        "<int64[2] a = {1, 3}> { y = Unsqueeze(m, a) }",
    )


class GatherNDGridPattern(_GatherGrid):
    """GatherND(x, all indices (i, j) with i < n and j < m) → Slice(x, 0:n, 0:m)

    What: recognizes indices that Range, Expand and Concat compute, and slices the corner of x. A
    grid as large as x needs no Slice. Axes of size 1 of the indices are added to the result.
    Why: saves eight nodes and a large tensor of indices, in the masks of all decoders that torch
    exports.
    Refuses when:
    1. the indices are not known to enumerate a grid in order. In a grid, each component counts from
       0 along another axis, by Range, Unsqueeze, Reshape and Expand. Or batch_dims is set.
    2. the rank of x is unknown, or a static dimension of x may differ from that of the grid.
       (If x is dynamic, indices that are out of range are an error in the original.)
    3. no preceding node computes the dimensions of the grid, and no tensor has these dimensions.
    4. the grid is not known to be as large as x, and one of its dimensions is 1 or may be 0.
       (An empty grid may have more columns than x: no index is out of range.)
    """

    anchors = ("GatherND",)
    near = ("Concat",)

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        """Match indices whose component k counts along axis k of the grid."""
        grid, source = grid_of(g, node.input[1]), g.try_infer_shape(node.input[0])
        if grid is None or node.attribute.get("batch_dims", 0):  # (1)
            return self.none(
                node, msg="the indices do not enumerate a grid in order, or batch_dims is set"
            )
        sizes = grid.sizes
        # If a dynamic dimension is too small, the original fails: results cannot differ.
        # (2)
        if (
            source is None
            or len(source) < len(sizes)
            or any(isinstance(a, int) and a != b for a, b in zip(source, sizes, strict=False))
        ):
            return self.none(node, msg="the tensor may be smaller than the grid")
        cut = [axis for axis, size in enumerate(sizes) if size != source[axis]]
        # (4)
        if cut and not all(
            size != 1 and (is_nonzero(size) or is_given_size(g, size)) for size in sizes
        ):
            return self.none(
                node,
                msg="the grid may differ from the tensor in size, and a dimension is 1 or may be 0",
            )
        ends = computed_sizes(g, node, tuple(sizes[axis] for axis in cut)) if cut else ()
        if ends is None:  # (3)
            return self.none(node, msg="no tensor holds the dimensions of the grid")
        ones = [axis for axis in range(len(grid.shape)) if axis not in grid.axes]
        return MatchResult(
            self,
            [node],
            partial(self.corner, node.input[0], ones, ends, [grid.axes[axis] for axis in cut]),
        )

    examples = Example.pairs(
        "agraph (int64[b,c] ids, float[d,e] x, bool[b] p, bool[c] q) "
        "=> (float[b,c] y) <int64 i = {0}, int64 j = {1}, int64[1] k = {-1}> { s = Shape(ids) "
        "n = Size(p) m = Size(q) r = Range(i, n, j) c = Range(i, m, j) u = Unsqueeze(r, k) "
        "v = Expand(u, s) w = Expand(c, s) f = Unsqueeze(v, k) h = Unsqueeze(w, k) "
        "t = Concat <axis = -1> (f, h) y = GatherND(x, t) }",
        "<int64[2] z = {0, 0}, int64[2] k = {0, 1}> { s = Shape(ids) y = Slice(x, z, s, k) }",
        "agraph (bool[b] p, float[d,c] x) "
        "=> (float[b,1,c] y) <int64 i = {0}, int64 j = {1}, int64[2] k = {1, 2}, int64[2] o = {0, "
        "1}, int64[1] q = {-1}> { l = Shape(p) n = Gather(l, i) h = Shape(x) g = Gather(h, j) "
        "r = Range(i, n, j) c = Range(i, g, j) u = Unsqueeze(r, k) v = Unsqueeze(c, o) "
        "m = Max(u, v) s = Shape(m) w = Expand(u, s) z = Expand(v, s) f = Unsqueeze(w, q) "
        "a = Unsqueeze(z, q) t = Concat <axis = -1> (f, a) y = GatherND(x, t) }",
        "<int64[1] o = {0}, int64[1] e = {1}> { n = Shape(p) u = Unsqueeze(x, e) "
        "y = Slice(u, o, n, o) }",
    )
