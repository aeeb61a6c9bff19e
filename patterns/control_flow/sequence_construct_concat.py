from xoptim.match import (
    EasyPatternOptimization,
    Example,
    GraphView,
    Match,
    PatternBuilder,
    PatternRewriter,
    Symbol,
    Variadic,
)

from .._nodes import agree_elsewhere


class SequenceConstructConcatPattern(EasyPatternOptimization):
    """ConcatFromSequence(SequenceConstruct(a, b)) → Concat(a, b)

    What: concatenates the tensors without a sequence.
    Why: a sequence copies its tensors, and no pattern fuses through it.
    Refuses when:
    1. the tensors are stacked along a new axis: each would need an Unsqueeze.
    2. the shapes of the tensors are unknown, or differ along other axes.
    """

    min_opset = 11
    interior = "keep"  # other nodes may read the sequence, which is removed with the last one

    def match_pattern(self, g: PatternBuilder, parts: Variadic) -> Symbol:
        # (1)
        return g.op.ConcatFromSequence(
            g.op.SequenceConstruct(parts), axis=g.capture("axis"), new_axis=0
        )

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        rank = g.info(m.parts[0]).rank
        if not rank or not agree_elsewhere(g, m.parts, m.axis % rank):  # (2)
            return self.none(m.nodes[0], msg="the shapes are unknown or differ")
        return True

    def apply_pattern(self, g: PatternRewriter, parts: tuple[str, ...], axis: int) -> str:
        return g.op.Concat(*parts, axis=axis)

    examples = Example.only(
        "agraph (float[a,2] x, float[a,3] z) => (float[a,5] y) "
        "{ s = SequenceConstruct(x, z) y = ConcatFromSequence <axis = 1> (s) }",
        "{ y = Concat <axis = 1> (x, z) }",
    )
