from collections.abc import Sequence
from functools import partial

from xoptim.match import Example, GraphView, MatchResult, Node, PatternOptimization, PatternRewriter

from .._grids import columns_of, counted_column, grid_of


class GatherNDBatchPattern(PatternOptimization):
    """GatherND(x, Concat(0, 1, 2, ..., i)) → GatherND(x, i, batch_dims=1)

    What: drops the first columns of the indices, which enumerate the first axes of x.
    Why: torch exports ``x[torch.arange(n), i]`` this way, with four to six nodes for the first
    column.
    Refuses when:
    1. the indices are not a Concat of columns, batch_dims is set already, or a shape is unknown.
    2. the first column does not enumerate the first axis of x, or there is no other column.
    3. all columns enumerate an axis: `GatherNDGrid` slices x as soon as its dimensions are known.
    """

    anchors = ("GatherND",)
    near = ("Concat",)
    priority = 1  # after the patterns that simplify the columns
    min_opset = 12

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        columns, indices_shape, source = (
            columns_of(g, node.input[1]),
            g.try_infer_shape(node.input[1]),
            g.try_infer_shape(node.input[0]),
        )
        # (1)
        if (
            len(columns) < 2
            or indices_shape is None
            or source is None
            or node.attribute.get("batch_dims", 0)
        ):
            return self.none(
                node, msg="the indices are not a Concat of columns, or a shape is unknown"
            )
        grid = indices_shape[:-1]
        count = 0
        while count < len(columns) - 1 and source[count : count + 1] == grid[count : count + 1]:
            if counted_column(g, columns[count], grid) != count:
                break
            count += 1
        if not count:  # (2)
            return self.none(node, msg="the first column does not enumerate the first axis")
        if grid_of(g, node.input[1]) is not None:  # (3)
            return self.none(node, msg="every column enumerates an axis (see GatherNDGrid)")
        return MatchResult(self, [node], partial(self._write, columns[count:], count))

    def _write(
        self, columns: Sequence[str], count: int, g: PatternRewriter, node: Node
    ) -> list[Node]:
        """A GatherND by the columns that remain, with ``count`` batch dimensions."""
        indices = g.op.Concat(*columns, axis=-1) if len(columns) > 1 else columns[0]
        return [
            *g.created,
            g.make_node("GatherND", [node.input[0], indices], node.output, batch_dims=count),
        ]

    examples = Example.only(
        "agraph (float[b,3,4] x, int64[b,1] i) "
        "=> (float[b,4] y) <int64 z = {0}, int64 j = {1}, int64[1] k = {-1}> { s = Shape(x) "
        "n = Gather(s, z) r = Range(z, n, j) u = Unsqueeze(r, k) t = Concat <axis = -1> (u, i) "
        "y = GatherND(x, t) }",
        "{ y = GatherND <batch_dims = 1> (x, i) }",
        ranges=(("i", 0, 2),),
    )
