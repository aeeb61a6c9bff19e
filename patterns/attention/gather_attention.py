from typing import Any

from xoptim.match import (
    EasyPatternOptimization,
    Example,
    GraphView,
    Match,
    Optional,
    PatternBuilder,
    PatternRewriter,
    Symbol,
)

from ._groups import SharedHeads, shared_heads


class GatherAttentionPattern(EasyPatternOptimization):
    """Attention(q, Gather(k, 0, 0, 1, 1), Gather(v, 0, 0, 1, 1)) → Attention(q, k, v)

    What: grouped-query attention without repeated heads. The model repeats the heads of keys and
    values by Gather, or by Unsqueeze, Expand (or Tile) and Reshape. It may repeat a single head by
    Expand (or Tile) alone.
    Why: saves the copies of keys and values; the operator supports groups.
    Refuses when:
    1. the heads are not repeated in equal groups, to as many heads as the queries have.
    2. past_key and past_value are operands, or present_key and present_value are results: they
       would have fewer heads.
    """

    min_opset = 23
    phase = "specialize"
    priority = 1
    derives = ("shared",)

    def match_pattern(
        self, g: PatternBuilder, q: Symbol, k: Symbol, v: Symbol, mask: Optional
    ) -> Symbol:
        # past_key and past_value would be the fifth and the sixth operand (2).
        return g.op.Attention(q, k, v, mask, attributes=g.capture("attributes"))

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        shared, shape = [shared_heads(g, name) for name in (m.k, m.v)], g.try_infer_shape(m.q)
        counts = {heads.shape[1] for heads in shared if heads is not None}
        # (1)
        if None in shared or len(counts) != 1 or shape is None or shape[1] != g.get_shape(m.k)[1]:
            return self.none(
                m.nodes[0],
                msg="keys or values are not repeated to one head per query head, in equal groups",
            )
        if any(m.nodes[0].output[1:]):  # (2)
            return self.none(m.nodes[0], msg="the attention returns present keys and values")
        return m.derive(shared=shared)

    def apply_pattern(
        self,
        g: PatternRewriter,
        q: str,
        mask: str,
        shared: list[SharedHeads],
        attributes: dict[str, Any],
    ) -> str:
        keys, values = (heads.with_four_axes(g) for heads in shared)
        return g.op.Attention(q, keys, values, mask, **attributes)

    _start = "agraph (float[b,6,s,4] q, float[b,2,t,4] k, float[b,2,t,4] v) => (float[b,6,s,4] y)"
    _body = (
        "<int64[6] i = {0,0,0,1,1,1}> { p = Gather <axis=1> (k, i) w = Gather <axis=1> (v, i) "
        "y = Attention(q, p, w) }"
    )
    _single = "agraph (float[b,6,s,4] q, float[b,t,4] k, float[b,t,4] v) => (float[b,6,s,4] y)"
    _numbers = "int64[2] a = {1, 2}, int64[5] e = {1, 1, 6, 1, 1}, int64[4] z = {0, 6, -1, 4}"
    _expanded = "{0}u = Unsqueeze({0}, a) {0}e = Expand({0}u, e) {0}r = Reshape({0}e, z)"
    _before = (
        f"{_single} <{_numbers}> {{ {_expanded.format('k')} {_expanded.format('v')} "
        "y = Attention(q, kr, vr) }"
    )
    _after = (
        f"{_single} <int64[1] a = {{1}}> {{ p = Unsqueeze(k, a) w = Unsqueeze(v, a) "
        "y = Attention(q, p, w) }"
    )
    examples = Example.pairs(
        *(f"{_start} {_body}", f"{_start} {{ y = Attention(q, k, v) }}", _before, _after),
        "agraph (float[b,6,s,4] q, float[b,1,t,4] k, float[b,1,t,4] v) => (float[b,6,s,4] y) "
        "<int64[4] e = {1, 6, 1, 1}> { p = Expand(k, e) w = Expand(v, e) y = Attention(q, p, w) }",
        "{ y = Attention(q, k, v) }",
        opset=23,
    )
