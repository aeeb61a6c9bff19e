from typing import Final

from xoptim.facts.advice import Advice
from xoptim.facts.assumptions import UNIT_ERROR
from xoptim.match import EasyPatternOptimization, Example, GraphView, Match, PatternBuilder, Symbol

_HEAD: Final = (
    '<metadata_props: ["xoptim.assumptions" : "unit(x)"]> agraph (float[n,4] x) => (float[n,4] y)'
)
"""The assumption about the input of the examples."""


def _has_no_effect(lower: float) -> bool:
    """Whether every vector that is assumed to have length 1 has a norm of at least ``lower``."""
    return lower <= 1 - UNIT_ERROR


class IdentityL2NormalizationPattern(EasyPatternOptimization):
    """x / max(‖x‖, ε) → x for vectors of length 1

    What: drops an L2 normalization, by Div or LpNormalization, of vectors of length 1.
    Why: embeddings are often stored normalized, and the model that compares them normalizes them
    again.
    Refuses when:
    1. x is not assumed to hold vectors of length 1 (``--assume 'unit(x)'``). The assumption allows
       an error of 1 %, so results may differ by 1 %.
    2. the norm is not the L2 norm along the last axis, or its lower bound is above 0.99.
    """

    exactness = "approximate"

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        if g.option("operator"):
            return g.op.LpNormalization(x, p=2, axis=g.capture("axis"))
        length = g.op.ReduceL2(x, axes=g.capture("axes"), keepdims=1)
        bound = g.choice("bound", "", "Max", "Clip")
        if bound == "Max":
            length = g.op.Max(length, g.constant("least", _has_no_effect, scalar=True))
        elif bound == "Clip":
            length = g.op.Clip(length, min=g.capture("least", _has_no_effect))
        return g.op.Div(x, length)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        axes, rank = (m.axis,) if m.operator else m.axes, g.info(m.x).rank
        if len(axes) != 1 or axes[0] not in (-1, (rank or 0) - 1):  # (2)
            return self.none(m.nodes[0], msg="the norm is not along the last axis")
        message = (
            "the vectors are not known to have length 1: assume it of an input with "
            f"{Advice('assume', f'unit({m.x})')}"
        )
        return g.assumes("unit", m.x) or self.none(m.nodes[0], msg=message)  # (1)

    def apply_pattern(self, g: object, x: str) -> str:
        return x

    examples = Example.pairs(
        f"{_HEAD} {{ u = LpNormalization(x) y = Neg(u) }}",
        "{ y = Neg(x) }",
        f"{_HEAD} <int64[1] a = {{-1}}, float e = {{0.000001}}> "
        "{ l = ReduceL2(x, a) b = Clip(l, e) u = Div(x, b) y = Neg(u) }",
        "{ y = Neg(x) }",
    )
