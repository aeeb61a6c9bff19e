from xoptim.facts.dims import is_nonzero
from xoptim.match import (
    EasyPatternOptimization,
    Example,
    GraphView,
    Match,
    PatternBuilder,
    PatternRewriter,
    Symbol,
)

from .._shapes import is_given_size, unstretched


class GatherElementsPattern(EasyPatternOptimization):
    """GatherElements(x, Expand(i), axis=k) → Gather(x, Squeeze(i), axis=k)

    What: gathers complete rows, since all elements of a row have the same index. The same for a
    Tile instead of the Expand.
    Why: Gather reads one index per row instead of one per element. Rotary embeddings look up sines
    and cosines this way.
    Refuses when:
    1. the indices are not expanded along axes of size 1, or a shape is unknown.
    2. the indices differ along an axis other than the axis of GatherElements.
    3. GatherElements does not read all elements along the other axes.
    4. another dimension may be 0: GatherElements then ignores indices that are out of range.
    """

    interior = "keep"
    min_opset = 11
    derives = ("gather_axis", "other_axes")

    def match_pattern(self, g: PatternBuilder, x: Symbol, index: Symbol, amounts: Symbol) -> Symbol:
        repeat = g.op.Tile if g.option("tiled") else g.op.Expand
        return g.op.GatherElements(x, repeat(index, amounts), axis=g.capture("axis"))

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        indices = m.nodes[-1].input[1]
        shape, expanded_shape, index_shape = (
            g.try_infer_shape(name) for name in (m.x, indices, m.index)
        )
        # (1)
        if (
            not shape
            or not expanded_shape
            or index_shape is None
            or len(index_shape) < len(shape)
            or unstretched(g, indices) is None
        ):
            return self.none(
                m.nodes[0],
                msg="the indices are not expanded along axes of size 1, or a shape is unknown",
            )
        axis = m.axis % len(shape)
        other_axes = [i for i in range(len(shape)) if i != axis]
        # (2) (3)
        if index_shape[axis] != expanded_shape[axis] or any(
            index_shape[i] != 1 or shape[i] != expanded_shape[i] for i in other_axes
        ):
            return self.none(
                m.nodes[0],
                msg="the indices differ along another axis, or do not cover it",
            )
        # (4)
        if not all(is_nonzero(shape[i]) or is_given_size(g, shape[i]) for i in other_axes):
            return self.none(m.nodes[-1], msg="another dimension may be 0")
        return m.derive(gather_axis=axis, other_axes=other_axes)

    def apply_pattern(
        self, g: PatternRewriter, x: str, index: str, gather_axis: int, other_axes: list[int]
    ) -> str:
        return g.op.Gather(
            x, g.op.Squeeze(index, axes=other_axes) if other_axes else index, axis=gather_axis
        )

    examples = Example.only(
        "agraph (float[9,3] x, int64[b,1] i) => (float[b,3] y) <int64[2] c = {1, 3}> "
        "{ t = Tile(i, c) y = GatherElements(x, t) }",
        "<int64[1] o = {1}> { v = Squeeze(i,o) y = Gather(x,v) }",
        ranges=(("i", 0, 8),),
    )
