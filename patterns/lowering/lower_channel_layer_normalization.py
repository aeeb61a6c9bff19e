from typing import Any

from xoptim.match import Example, GraphView, Match, PatternBuilder, PatternRewriter
from xoptim.match.trace import Optional, Symbol

from ._lowering import COMPUTED, _Lowering, narrowed, widened
from ._normal import along_channels, centered, divided


class LowerChannelLayerNormalizationPattern(_Lowering):
    """Transpose(LayerNormalization(Transpose(x), scale)) → (x - mean) / √(mean of (x - mean)² +
    epsilon) · scale over axis 1

    What: writes the formula along axis 1, the axis of channels. 16-bit floats are computed in 32
    bits, as in the operator.
    Why: without LayerNormalization, the channels need not be the last axis, and the Transposes are
    superfluous. ConvNeXt normalizes the channels of images between Transposes.
    Refuses when:
    1. the Transposes do not move axis 1 to the end and back, or the rank is less than 3.
    2. the mean or the standard deviation is used.
    3. scale or bias is not known to be a vector, or more than one axis is normalized.
    """

    before = {"LowerLayerNormalization": "it writes more nodes"}
    min_opset = 7
    operand_types = {"x": COMPUTED}
    operand_ranks = {"scale": 1, "bias": 1}  # (3)
    derives = ("rank", "number")

    def match_pattern(self, g: PatternBuilder, x: Symbol, scale: Symbol, bias: Optional) -> Symbol:
        rows = g.op.Transpose(x, perm=g.capture("first"))
        normal = g.op.LayerNormalization(rows, scale, bias, attributes=g.capture("written"))
        return g.op.Transpose(normal, perm=g.capture("last"))

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        rank = g.info(m.x).rank or 0
        order = [0, *range(2, rank), 1]
        inverse = [0, rank - 1, *range(1, rank - 1)]
        if rank < 3 or list(m.first) != order or list(m.last) != inverse:  # (1)
            return self.none(m.nodes[0], msg="the channels are not moved to the end and back")
        normal = next(node for node in m.nodes if node.op_type == "LayerNormalization")
        if any(g.is_used(name) for name in normal.output[1:]):  # (2)
            return self.none(normal, msg="the mean or the inverse standard deviation is read")
        if m.written.get("axis", -1) not in (-1, rank - 1):  # (3)
            return self.none(m.nodes[0], msg="more than the channels is normalized")
        return m.derive(rank=rank, number=m.written.get("epsilon", 1e-5))

    def apply_pattern(
        self, g: PatternRewriter, x: str, scale: str, bias: str, rank: int, number: float, **m: Any
    ) -> str:
        dtype = g.try_infer_type(x)
        normal = divided(g, centered(g, widened(g, x, dtype), [1]), [1], number)
        result = g.op.Mul(normal, along_channels(g, widened(g, scale, dtype), rank))
        if bias:
            result = g.op.Add(result, along_channels(g, widened(g, bias, dtype), rank))
        return narrowed(g, result, dtype)

    _formula = (
        "m = ReduceMean(x, i) d = Sub(x, m) q = Mul(d, d) v = ReduceMean(q, i) w = Add(v, e) "
        "s = Sqrt(w) n = Div(d, s)"
    )
    examples = Example.pairs(
        "agraph (float[a,4,h,w] x, float[4] k, float[4] c) => (float[a,4,h,w] y) "
        "{ t = Transpose <perm = [0, 2, 3, 1]> (x) "
        "l = LayerNormalization <epsilon = 0.001> (t, k, c) "
        "y = Transpose <perm = [0, 3, 1, 2]> (l) }",
        f"<float e = {{0.001}}, int64[1] i = {{1}}, int64[2] u = {{1, 2}}> {{ {_formula} "
        "p = Unsqueeze(k, u) o = Mul(n, p) r = Unsqueeze(c, u) y = Add(o, r) }",
        "agraph (float[a,4,h] x, float[4] k) => (float[a,4,h] y) "
        "{ t = Transpose <perm = [0, 2, 1]> (x) l = LayerNormalization <epsilon = 0.001> (t, k) "
        "y = Transpose <perm = [0, 2, 1]> (l) }",
        f"<float e = {{0.001}}, int64[1] i = {{1}}, int64[1] u = {{1}}> {{ {_formula} "
        "p = Unsqueeze(k, u) y = Mul(n, p) }",
    )
