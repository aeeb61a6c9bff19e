from xoptim.match import (
    EasyPatternOptimization,
    Example,
    GraphView,
    Match,
    PatternBuilder,
    PatternRewriter,
    Symbol,
)


class TransposeTransposePattern(EasyPatternOptimization):
    """Transpose(Transpose(x)) → Transpose(x), or x when they cancel.

    What: composes the two permutations.
    Why: each Transpose copies the whole tensor.
    Refuses when:
    1. a permutation is not written and the rank is unknown, so that its default is unknown.
    2. a list of axes is not a permutation, as in an invalid model.
    """

    interior = "keep"

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        # (1)
        return g.op.Transpose(g.op.Transpose(x, perm=g.capture("first")), perm=g.capture("second"))

    def validate_attribute_mapping(self, g: GraphView, m: Match) -> bool | None:
        axes = list(range(len(m.first)))
        # (2)
        return (
            True
            if sorted(m.first) == sorted(m.second) == axes
            else self.none(msg="perm is not a permutation of the axes")
        )

    def apply_pattern(self, g: PatternRewriter, x: str, first: list[int], second: list[int]) -> str:
        """Axis i of the result is axis ``second[i]`` in between, hence ``first[second[i]]`` of
        x.
        """
        perm = [first[axis] for axis in second]
        return x if perm == sorted(perm) else g.op.Transpose(x, perm=perm)

    examples = Example.pairs(
        "agraph (float[a,b] x) => (float[a,b] y) { t = Transpose(x) "
        "u = Transpose <perm = [1, 0]> (t) y = Relu(u) }",
        "{ y = Relu(x) }",
        "agraph (float[a,b,c] x) => (float[c,a,b] y) "
        "{ t = Transpose <perm = [1, 2, 0]> (x) y = Transpose <perm = [1, 2, 0]> (t) }",
        "{ y = Transpose <perm = [2, 0, 1]> (x) }",
    )
