"""GatherND as Gather."""

from collections.abc import Sequence
from functools import partial

from xoptim.facts.dims import is_nonzero
from xoptim.match import Example, GraphView, MatchResult, Node, PatternOptimization, PatternRewriter

from .._grids import columns_of, counted_column, grid_of
from .._nodes import is_op, replaced_by


class _GatherND(PatternOptimization):
    """A GatherND whose indices are known."""


class GatherNDBatchPattern(_GatherND):
    """GatherND(x, Concat(0, 1, 2, ..., i)) → GatherND(x, i, batch_dims=1)

    What: leaves out the first columns of the indices, which count through the first axes of x.
    Why: ``x[torch.arange(n), i]`` exports this way, with four to six nodes for the first column.
    Refuses when:
    1. the indices are not concatenated from columns, there are batch axes already, or a shape is
       unknown.
    2. the first column does not count along the first axis from 0 to the size of x, or no other
       column is left.
    3. all columns count so: `GatherNDGridPattern` takes a corner of x, as soon as its sizes are
       known.
    """

    anchors = ("GatherND",)
    near = ("Concat",)
    priority = 1  # after the patterns that shorten how columns count
    min_opset = 12

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        columns, grid, source = (
            columns_of(g, node.input[1]),
            g.try_infer_shape(node.input[1]),
            g.try_infer_shape(node.input[0]),
        )
        # (1)
        if (
            len(columns) < 2
            or grid is None
            or source is None
            or node.attribute.get("batch_dims", 0)
        ):
            return self.none(
                node, msg="the indices are not a Concat of columns, or a shape is unknown"
            )
        count = 0
        while (
            count < len(columns) - 1 and source[count : count + 1] == grid[:-1][count : count + 1]
        ):
            if counted_column(g, columns[count], grid[:-1]) != count:
                break
            count += 1
        if not count:  # (2)
            return self.none(node, msg="the first column does not enumerate the first axis")
        if grid_of(g, node.input[1]) is not None:  # (3)
            return self.none(node, msg="every column enumerates an axis (see GatherNDGrid)")
        return MatchResult(self, [node], partial(self._shortened, columns[count:], count))

    def _shortened(
        self, columns: Sequence[str], count: int, g: PatternRewriter, node: Node
    ) -> list[Node]:
        left = g.op.Concat(*columns, axis=-1) if len(columns) > 1 else columns[0]
        return [
            *g.created,
            g.make_node("GatherND", [node.input[0], left], node.output, batch_dims=count),
        ]

    examples = Example.only(
        "agraph (float[b,3,4] x, int64[b,1] i) "
        "=> (float[b,4] y) <int64 z = {0}, int64 j = {1}, int64[1] k = {-1}> { s = Shape(x) "
        "n = Gather(s, z) r = Range(z, n, j) u = Unsqueeze(r, k) t = Concat <axis = -1> (u, i) "
        "y = GatherND(x, t) }",
        "{ y = GatherND <batch_dims = 1> (x, i) }",
        ranges=(("i", 0, 2),),
    )


class GatherNDRowsPattern(_GatherND):
    """GatherND(x, Unsqueeze(i, -1)) → Gather(x, i)

    What: takes the same positions of the first axis by the simpler operator; the same where the
    indices are a constant column.
    Why: a node less, and Gather is known to more patterns.
    Refuses when:
    1. there are batch axes, or the indices are neither constant nor the result of an Unsqueeze that
       adds their last axis.
    2. the indices are not known to be a column: more than the first axis may be indexed.
    3. rows may be empty: onnxruntime's GatherND does not check the indices then.
    """

    anchors = ("GatherND",)
    min_opset = 11

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        shape, above = g.try_infer_shape(node.input[1]), g.node_before(node.input[1])
        if not shape or shape[-1] != 1 or node.attribute.get("batch_dims", 0):  # (1) (2)
            return self.none(
                node, msg="the last dimension of the indices is not 1, or batch_dims is set"
            )
        places, source = g.get_computed_constant(node.input[1]), g.try_infer_shape(node.input[0])
        if not source or not all(map(is_nonzero, source[1:])):  # (3)
            return self.none(node, msg="the rows may be empty")
        if places is not None:
            return MatchResult(self, [node], replaced_by("Gather", node.input[0], places[..., 0]))
        axes = g.get_argument(above, "axes") if is_op(above, "Unsqueeze") else None
        if above is None or axes not in ([-1], [len(shape) - 1]):  # (1)
            return self.none(node, msg="no Unsqueeze adds the last axis")
        return MatchResult(self, [node], replaced_by("Gather", node.input[0], above.input[0]))

    examples = Example.pairs(
        "agraph (float[9,4] x, int64[b] i) => (float[b,4] y) <int64[1] k = {-1}> { "
        "u = Unsqueeze(i, k) y = GatherND(x, u) }",
        "{ y = Gather(x, i) }",
        "agraph (float[9,4] x) => (float[2,4] y) <int64[2,1] i = {3, -1}> { y = GatherND(x, i) }",
        "<int64[2] i = {3, -1}> { y = Gather(x, i) }",
        ranges=(("i", 0, 8),),
    )
