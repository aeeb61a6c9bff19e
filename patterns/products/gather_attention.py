"""Keys and values repeated for an attention that can share them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xoptim.match import (
    Constant,
    EasyPatternOptimization,
    Example,
    GraphView,
    Match,
    Optional,
    PatternBuilder,
    PatternRewriter,
    Symbol,
)


class GatherAttentionPattern(EasyPatternOptimization):
    """Attention(q, Gather(k, 0, 0, 1, 1), Gather(v, 0, 0, 1, 1)) → Attention(q, k, v)

    What: groups of queries share a head of the keys and values.
    Why: two copies of every key and value less; the operator supports groups.
    Refuses when:
    1. the heads are not repeated in groups of one size, as many in all as there are heads of queries.
    2. there are keys and values from earlier calls, or they are results too: these would have other heads.
    """

    min_opset = 23
    phase = "target"
    priority = 9

    def match_pattern(self, g: PatternBuilder, q: Symbol, k: Symbol, v: Symbol, heads: Constant, mask: Optional) -> Symbol:
        """Five operands and more would be earlier keys and values (2)."""
        keys, values = g.op.Gather(k, heads, axis=1), g.op.Gather(v, heads, axis=1)
        return g.op.Attention(q, keys, values, mask, attributes=g.capture("attributes"))

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        """Compare the heads; the replacement has no other results."""
        queries, keys, heads = g.try_infer_shape(m.q), g.try_infer_shape(m.k), g.get_computed_constant(m.heads)
        values = g.try_infer_shape(m.v)
        if queries is None or keys is None or values is None or heads is None or keys[1:2] != values[1:2]:  # (1)
            return self.none(m.nodes[2], msg="the heads are unknown")
        count = keys[1] if len(keys) == len(queries) == len(values) == 4 else None
        if not isinstance(count, int) or not count or heads.ndim != 1 or heads.size % count or queries[1] != heads.size:
            return self.none(m.nodes[2], msg="the heads do not come in groups")  # (1)
        if not np.array_equal(heads, np.arange(heads.size) // (heads.size // count)):  # (1)
            return self.none(m.nodes[0], msg="the heads are not repeated in groups")
        if any(m.nodes[2].output[1:]):  # (2)
            return self.none(m.nodes[2], msg="keys and values are results")
        return True

    def apply_pattern(self, g: PatternRewriter, q: str, k: str, v: str, mask: str, attributes: dict[str, object]) -> str:
        """Keys and values without the repetition."""
        return g.op.Attention(q, k, v, mask, **attributes)

    @classmethod
    def examples(cls) -> Sequence[Example]:
        """Six queries, two keys."""
        start = "agraph (float[b,6,s,4] q, float[b,2,t,4] k, float[b,2,t,4] v) => (float[b,6,s,4] y)"
        return (
            Example(
                f"{start} <int64[6] i = {{0, 0, 0, 1, 1, 1}}> "
                "{ p = Gather <axis = 1> (k, i) w = Gather <axis = 1> (v, i) y = Attention(q, p, w) }",
                f"{start} {{ y = Attention(q, k, v) }}",
                opset=23,
            ),
        )
