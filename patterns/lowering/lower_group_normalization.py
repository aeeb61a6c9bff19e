from onnx import TensorProto

from xoptim.match import Example, GraphView, Match, PatternBuilder, PatternRewriter, Symbol

from .._shapes import reshape_target
from ._lowering import COMPUTED, _Lowering, narrowed, widened
from ._normal import along_channels, centered, divided, reshaped


class LowerGroupNormalizationPattern(_Lowering):
    """GroupNormalization(x, scale, bias) → (t - mean) / √(variance + epsilon) · scale + bias with t
    in groups

    What: Reshape makes an axis of the groups and one of all numbers of a group, which are
    normalized; 16-bit floats are computed in 32 bits, as the operator does it. The operator of sets
    18 to 20 is deprecated, and stays.
    Why: many runtimes lack the operator.
    Refuses when:
    1. the type is unknown, or has 64 bits: the operator computes in 32 (checked by the matcher).
    2. the rank or the number of channels is unknown, or scale and bias do not have one number for
       each channel.
    """

    min_opset = 21
    operand_types = {"x": COMPUTED - {TensorProto.DOUBLE}}  # (1)
    derives = ("dtype", "back", "number")

    def match_pattern(self, g: PatternBuilder, x: Symbol, scale: Symbol, bias: Symbol) -> Symbol:
        return g.op.GroupNormalization(
            x,
            scale,
            bias,
            num_groups=g.capture("groups"),
            epsilon=g.capture("epsilon", optional=True),
            attributes=g.capture("others"),
        )

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        node, shape = m.nodes[0], g.try_infer_shape(m.x) or ()
        if len(shape) < 3 or not isinstance(shape[1], int) or not m.groups:  # (2)
            return self.none(node, msg="the rank or the number of channels is unknown")
        given = [g.try_infer_shape(name) for name in (m.scale, m.bias)]
        if shape[1] % m.groups or given != [shape[1:2], shape[1:2]]:  # (2)
            return self.none(node, msg="scale and bias are not one value per channel")
        return m.derive(
            dtype=g.try_infer_type(m.x),
            back=reshape_target(g, (shape[0], m.groups), shape),
            number=g.get_attribute(node, "epsilon"),
        )

    def apply_pattern(
        self,
        g: PatternRewriter,
        x: str,
        scale: str,
        bias: str,
        groups: int,
        back: list[int] | None,
        dtype: int,
        number: float,
    ) -> str:
        grouped = reshaped(g, widened(g, x, dtype), [0, groups, -1], x)
        normal = reshaped(g, divided(g, centered(g, grouped, [-1]), [-1], number), back, x)
        rank = g.info(x).rank or 0
        factor, shift = (along_channels(g, widened(g, name, dtype), rank) for name in (scale, bias))
        return narrowed(g, g.op.Add(g.op.Mul(normal, factor), shift), dtype)

    _start = "agraph (float[n,4,6,h] x, float[4] s, float[4] b) => (float[n,4,6,h] y)"
    examples = (
        Example(
            f"{_start} {{ y = GroupNormalization <num_groups = 2, epsilon = 0.001> (x, s, b) }}",
            "<int64[3] a = {0, 2, -1}, int64[1] c = {-1}, float d = {0.001}, int64[4] e = {0, 4, "
            "6, -1}, int64[2] f = {1, 2}> { g = Reshape(x, a) h = ReduceMean(g, c) i = Sub(g, h) "
            "j = Mul(i, i) k = ReduceMean(j, c) l = Add(k, d) m = Sqrt(l) n = Div(i, m) "
            "o = Reshape(n, e) p = Unsqueeze(s, f) q = Unsqueeze(b, f) r = Mul(o, p) "
            "y = Add(r, q) }",
            opset=21,
        ),
        Example(
            "agraph (float16[n,4,h,w] x, float16[4] s, float16[4] b) => (float16[n,4,h,w] y) "
            "{ y = GroupNormalization <num_groups = 2, epsilon = 0.001> (x, s, b) }",
            "<int64[3] a = {0, 2, -1}, int64[1] c = {-1}, float d = {0.001}, int64[2] e = {1, "
            "2}> { f = Cast <to = 1> (x) g = Reshape(f, a) h = ReduceMean(g, c) i = Sub(g, h) "
            "j = Mul(i, i) k = ReduceMean(j, c) l = Add(k, d) m = Sqrt(l) n = Div(i, m) "
            "o = Shape(x) p = Reshape(n, o) q = Cast <to = 1> (s) r = Unsqueeze(q, e) "
            "t = Cast <to = 1> (b) u = Unsqueeze(t, e) v = Mul(p, r) w = Add(v, u) "
            "y = Cast <to = 10> (w) }",
            opset=21,
        ),
    )
