import numpy as np

from xoptim.match import Constant, EasyPatternOptimization, Example, GraphView, Match, PatternBuilder, PatternRewriter, Symbol


class IdentityGatherPattern(EasyPatternOptimization):
    """Gather(x, 0, 1, ..., n - 1) → x

    What: drops a Gather that takes every position of an axis in its place.
    Why: it copies the whole tensor, one slice at a time.
    Refuses when:
    1. the size of the axis is not known to be the number of indices, or these are not a vector.
    2. the indices are not 0, 1, 2, ...
    """

    def match_pattern(self, g: PatternBuilder, x: Symbol, indices: Constant) -> Symbol:
        return g.op.Gather(x, indices, axis=g.capture("axis"))

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        # The sizes first, because they cost nothing; then the indices.
        shape, places = g.try_infer_shape(m.x), g.try_infer_shape(m.indices)
        inside = shape is not None and -len(shape) <= m.axis < len(shape)
        if shape is None or not inside or places != (shape[m.axis],):  # (1)
            return self.none(m.nodes[0], msg="not as many indices as positions")
        array = g.get_computed_constant(m.indices)
        if array is None or not np.array_equal(array, np.arange(len(array))):  # (2)
            return self.none(m.nodes[0], msg="the indices are not 0, 1, 2, ...")
        return True

    def apply_pattern(self, g: PatternRewriter, x: str) -> str:
        return x

    examples = (
        Example(
            "agraph (float[a,3] x) => (float[a,3] y) <int64[3] i = {0, 1, 2}> { t = Gather <axis = -1> (x, i) y = Relu(t) }",
            "agraph (float[a,3] x) => (float[a,3] y) { y = Relu(x) }",
        ),
    )
