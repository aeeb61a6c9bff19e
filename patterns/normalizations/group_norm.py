from typing import Final

from onnx import TensorProto

from xoptim.match import (
    EasyPatternOptimization,
    Example,
    GraphView,
    Match,
    PatternBuilder,
    PatternRewriter,
    Symbol,
)
from xoptim.match.trace import Constant

from .._channels import per_channel
from .._folding import Array, constant, doubles, rounded
from .._shapes import same_dims

_GROUPS: Final = 32
"""The number of groups in diffusion models, for which the kernel was written."""


class GroupNormPattern(EasyPatternOptimization):
    """Reshape(InstanceNormalization(Reshape(x))) · scale + bias [with SiLU] →
    Transpose(com.microsoft.GroupNorm(Transpose(x), scale, bias))

    What: one operator instead of five, or of seven with SiLU. Transposes around it move the
    channels to the last axis, as the operator requires.
    Why: diffusion models spend much of their time in group normalization on GPUs. The pattern is
    opt-in (``--include group_norm``): it was not measured, and verified only on a CPU, with a local
    function in place of the operator.
    Refuses when:
    1. x is not a batch of images in float32 or float16, with 32 groups of an even number of
       channels.
    2. the inner scale is not 1, or the inner bias not 0. Or the outer ones are not one number per
       channel, or leave the range of the type.
    3. the result does not have the shape of x, or the target of the inner Reshape is not
       (0, 32, -1).
    4. the provider has no kernel of GroupNorm (checked by the matcher).
    5. SiLU follows, but the match does not include it.
    """

    phase = "target"
    exactness = "rounding"
    min_opset = 13
    produces = ("com.microsoft",)
    providers = ("cuda",)
    tags = ("onnxruntime", "group_norm", "extra")
    operand_types = {"x": frozenset((TensorProto.FLOAT, TensorProto.FLOAT16))}  # (1)
    operand_ranks = {"x": 4}  # (1)
    kernels = {"com.microsoft::GroupNorm": "x"}  # (4)
    derives = ("factors", "shift")

    def match_pattern(
        self,
        g: PatternBuilder,
        x: Symbol,
        ones: Constant,
        zeros: Constant,
        scale: Constant,
        bias: Constant,
    ) -> Symbol:
        grouped = g.op.Reshape(x, shape=g.capture("inner"))
        normal = g.op.InstanceNormalization(
            grouped, ones, zeros, epsilon=g.capture("epsilon", optional=True)
        )
        image = g.op.Reshape(normal, g.symbol("outer"))
        result = g.op.Add(g.op.Mul(image, scale), bias)
        return g.op.Mul(result, g.op.Sigmoid(result)) if g.option("silu") else result

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        shape, node = g.try_infer_shape(m.x) or (), m.nodes[0]
        channels = shape[1]
        if not isinstance(channels, int) or channels % (2 * _GROUPS) or not channels:  # (1)
            return self.none(node, msg="the channels are not 32 groups of an even number")
        if (
            len(m.inner) != 3
            or m.inner[0] not in (0, shape[0])
            or list(m.inner[1:]) != [_GROUPS, -1]
        ):  # (3)
            return self.none(node, msg="the channels are not grouped by a Reshape to (0, 32, -1)")
        readers = sorted(reader.op_type for reader in g.next_nodes(m.outputs[0]))
        if not m.silu and readers == ["Mul", "Sigmoid"]:  # (5)
            return self.none(node, msg="SiLU follows, which is matched as well")
        if (doubles(g, m.ones) != 1).any() or (doubles(g, m.zeros) != 0).any():  # (2)
            return self.none(node, msg="the groups have a scale or a bias of their own")
        if not same_dims(shape, g.try_infer_shape(m.outputs[0])):  # (3)
            return self.none(node, msg="the result has another shape")
        weight = constant(g, m.scale)
        factors, shift = (per_channel(g, name, 4, channels) for name in (m.scale, m.bias))
        factors, shift = rounded(factors, weight.dtype), rounded(shift, weight.dtype, terms=())
        return m.derive(factors=factors, shift=shift)  # (2)

    def apply_pattern(
        self,
        g: PatternRewriter,
        x: str,
        factors: Array,
        shift: Array,
        epsilon: float | None,
        silu: bool,
    ) -> str:
        normal = g.op.GroupNorm(
            g.op.Transpose(x, perm=[0, 2, 3, 1]),
            *(factors, shift),
            domain="com.microsoft",
            groups=_GROUPS,
            activation=int(silu),
            epsilon=1e-5 if epsilon is None else epsilon,
        )
        return g.op.Transpose(normal, perm=[0, 3, 1, 2])

    _ones, _zeros = (", ".join([number] * _GROUPS) for number in "10")
    _factors = ", ".join(["1", "2"] * _GROUPS)
    _start = (
        "agraph (float[n,64,3,5] x) => (float[n,64,3,5] y) <int64[3] a = {0, 32, -1}, int64[4] b = "
        f"{{0, 64, 3, 5}}, float[32] o = {{{_ones}}}, float[32] z = {{{_zeros}}}, "
        f"float[64,1,1] k = {{{_factors}}}, float[64,1,1] c = {{{_factors}}}> {{ "
        "r = Reshape(x, a) i = InstanceNormalization <epsilon = 0.001> (r, o, z) "
        "s = Reshape(i, b) m = Mul(s, k)"
    )
    _after = f"<float[64] k = {{{_factors}}}> {{ t = Transpose <perm = [0, 2, 3, 1]> (x) "
    examples = Example.only(
        f"{_start} y = Add(m, c) }}",
        f"{_after} g = com.microsoft.GroupNorm <groups = 32, activation = 0, epsilon = 0.001> "
        "(t, k, k) y = Transpose <perm = [0, 3, 1, 2]> (g) }",
    )
