from typing import ClassVar

import numpy as np

from xoptim.facts.dtypes import Exactness
from xoptim.facts.shapes import Shape
from xoptim.match import Example, GraphView, Match, PatternBuilder, PatternRewriter, Scalar, Symbol

from .._shapes import broadcasts_to
from ._mask import ABSORBING, is_below_infinity
from .attention import AttentionPattern


class MaskedAttentionPattern(AttentionPattern):
    """Softmax(Where(c, q · kᵀ · scale, low) + mask) · v → Attention(q, k, v, Where(c, 0, low) +
    mask)

    What: as `Attention`, for a Where that replaces the scores of masked keys instead of an Add that
    lowers them.
    Why: as for `Attention`. The pattern is not in the default preset, because it assumes that
    queries and keys are finite: Where also replaces NaN scores of masked keys. If -infinity masks
    all keys of a query, the separate nodes give NaN, and the operator 0.
    Refuses when:
    1. `Attention` refuses, or the mask may be NaN or +infinity.
    2. the number that replaces scores is above -1e30, or has more axes than the scores.
    """

    exactness: ClassVar[Exactness] = "finite"
    before = {"Attention": "it would add nodes that mark fully masked queries with NaN"}

    def scores(self, g: PatternBuilder, q: Symbol, k: Symbol, factor: Scalar, s: Scalar) -> Symbol:
        scores = super().scores(g, q, k, factor, s)
        # Where replaces the scores either where c is false, or where c is true.
        if hidden := g.choice("hidden", "", "where false", "where true"):
            c, low = g.symbol("c"), g.constant("low", scalar=True)
            return (
                g.op.Where(c, scores, low)
                if hidden == "where false"
                else g.op.Where(c, low, scores)
            )
        return scores

    def _can_mask(self, g: GraphView, m: Match, scores: Shape) -> bool:
        if m.hidden:
            number = g.get_constant_scalar(m.low)
            # (2)
            if number is None or not number <= ABSORBING or not broadcasts_to(g, m.low, m.q):
                return False
        # (1)
        return super()._can_mask(g, m, scores) and all(
            is_below_infinity(g, name) for name in self.masks(m)
        )

    def masks(self, m: Match) -> list[str]:
        """The tensors that are added to the scores, and the condition of the Where."""
        return [*super().masks(m), *([m.c] if m.hidden else [])]

    def marked(self, g: GraphView, m: Match) -> bool:
        """False: the pattern assumes that -infinity never masks all keys of a query."""
        return False

    def replacement(self, g: PatternRewriter, match: Match) -> str:
        # The mask of Attention is the sum of bias, mask and Where(c, 0, low).
        if match.get("two_terms"):
            match.derive(mask=g.op.Add(match.bias, match.mask), two_terms=False)
        if match.hidden:
            zero = np.zeros((), dtype=np.float32)
            branches = (zero, match.low) if match.hidden == "where false" else (match.low, zero)
            where_mask = g.op.Where(match.c, *branches)
            match.derive(mask=g.op.Add(where_mask, match.mask) if match.masked else where_mask)
        y: str = super().replacement(g, match)
        return y

    _operands = "float[b,2,3,4] q, float[b,2,5,4] k, float[b,2,5,6] v"
    _start = f"agraph ({_operands}, bool[b,1,3,5] c) => (float[b,2,3,6] y)"
    _masked = f"agraph ({_operands}, float[b,1,3,5] m) => (float[b,2,3,6] y)"
    _step = "float step = {0.99999994}"
    examples = Example.pairs(
        f"{_masked} {{ p = Transpose <perm = [0, 1, 3, 2]> (k) a = MatMul(q, p) e = Add(a, m) "
        "w = Softmax <axis = -1> (e) y = MatMul(w, v) }",
        f"<{_step}> {{ l = Mul(m, step) y = Attention <scale = 1.0> (q, k, v, l) }}",
        f"{_start} <float low = {{-3.4028235e38}}, float two = {{2}}> {{ "
        "p = Transpose <perm = [0, 1, 3, 2]> (k) a = MatMul(q, p) d = Div(a, two) "
        "e = Where(c, low, d) w = Softmax <axis = -1> (e) y = MatMul(w, v) }",
        f"<float low = {{-3.4028235e38}}, float zero = {{0}}, {_step}> "
        "{ m = Where(c, low, zero) l = Mul(m, step) y = Attention <scale = 0.5> (q, k, v, l) }",
        opset=23,
    )
