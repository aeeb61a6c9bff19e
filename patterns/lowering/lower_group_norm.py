"""Normalizations within groups of channels, by InstanceNormalization."""

from typing import Any, Final

import numpy as np
from onnx import TensorProto

from xoptim.facts.dims import is_nonzero
from xoptim.match import Example, GraphView, Match, PatternBuilder, PatternRewriter
from xoptim.match.trace import Optional, Symbol

from .._shapes import broadcasts_to, reshape_target
from ._layouts import channels_first, channels_last
from ._lowering import COMPUTED, _Lowering, narrowed, widened
from ._normal import along_channels, centered, divided, reshaped

_FLOATS: Final = COMPUTED - {TensorProto.DOUBLE}
_SILU: Final = 1
"""The value of the attribute ``activation`` for SiLU; 0 is no activation."""


class _LowerGroupNorm(_Lowering):
    """A normalization within groups of channels.

    What: reshapes x so that the groups are the axis of channels, and normalizes each group by
    InstanceNormalization. 16-bit floats are computed in 32 bits, as in the operator.
    """

    operand_types = {"x": _FLOATS}  # (1)


class LowerGroupNormalizationToInstancePattern(_LowerGroupNorm):
    """GroupNormalization(x, scale, bias) → Reshape(InstanceNormalization(Reshape(x))) · scale +
    bias

    What: reshapes x so that the groups are the axis of channels, and normalizes each group by
    InstanceNormalization. A constant scale and bias of each group (operator sets 18 to 20) become
    its operands. Otherwise, Mul and Add follow. 16-bit floats are computed in 32 bits, as in the
    operator.
    Why: many runtimes lack the operator, and have InstanceNormalization.
    Refuses when:
    1. the type is unknown, or has 64 bits: the operator computes in 32 (checked by the matcher).
    2. the rank or the number of channels is unknown, or the groups are not equal. Or scale and bias
       have neither one number for each group nor one for each channel.
    3. a dimension of the images may be 0, for which ONNX Runtime's InstanceNormalization crashes.
    """

    min_opset = 18
    derives = ("dtype", "back", "number")

    def match_pattern(self, g: PatternBuilder, x: Symbol, scale: Symbol, bias: Symbol) -> Symbol:
        return g.op.GroupNormalization(
            *(x, scale, bias),
            num_groups=g.capture("groups"),
            epsilon=g.capture("epsilon", optional=True),
            attributes=g.capture("others"),
        )

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        node, shape = m.nodes[0], g.try_infer_shape(m.x) or ()
        if len(shape) < 3 or not isinstance(shape[1], int) or not m.groups:  # (2)
            return self.none(node, msg="the rank or the number of channels is unknown")
        count = m.groups if g.main_opset < 21 else shape[1]
        parameters = [g.try_infer_shape(name) for name in (m.scale, m.bias)]
        if shape[1] % m.groups or parameters != [(count,), (count,)]:  # (2)
            return self.none(node, msg=f"scale and bias do not have {count} numbers")
        if not all(map(is_nonzero, shape[2:])):  # (3)
            return self.none(node, msg="a dimension may be 0")
        return m.derive(
            dtype=g.try_infer_type(m.x),
            back=reshape_target(g, (shape[0], m.groups), shape),
            number=g.get_attribute(node, "epsilon"),
        )

    def apply_pattern(
        self, g: PatternRewriter, x: str, scale: str, bias: str, groups: int, **m: Any
    ) -> str:
        dtype, is_of_groups = m["dtype"], g.try_infer_shape(scale) == (groups,)
        # InstanceNormalization multiplies the mean by the scale: NaN for an infinite scale.
        is_constant = all(g.is_constant(name) for name in (scale, bias))
        parameters = [widened(g, name, dtype) for name in (scale, bias)]
        grouped = _grouped(g, widened(g, x, dtype), groups)
        operands = parameters if is_of_groups and is_constant else []
        normal = _instances(g, grouped, groups, m["number"], operands)
        if is_of_groups and not operands:
            normal = _scaled(g, normal, parameters, 3)
        result = reshaped(g, normal, m["back"], x)
        if not is_of_groups:
            result = _scaled(g, result, parameters, g.info(x).rank or 0)
        return narrowed(g, result, dtype)

    _channels = "agraph (float[n,4,6,5] x, float[4] s, float[4] b) => (float[n,4,6,5] y)"
    _call = "{ y = GroupNormalization <num_groups = 2, epsilon = 0.001> (x, s, b) }"
    examples = (
        Example(
            f"{_channels} {_call}",
            "<int64[3] a = {0, 2, -1}, float[2] o = {1, 1}, float[2] z = {0, 0}, int64[4] e = "
            "{0, 4, 6, 5}, int64[2] f = {1, 2}> { g = Reshape(x, a) "
            "h = InstanceNormalization <epsilon = 0.001> (g, o, z) i = Reshape(h, e) "
            "p = Unsqueeze(s, f) q = Unsqueeze(b, f) r = Mul(i, p) y = Add(r, q) }",
            opset=21,
        ),
        Example(
            "agraph (float16[n,4,3,5] x, float16[4] s, float16[4] b) => (float16[n,4,3,5] y) "
            f"{_call}",
            "<int64[3] a = {0, 2, -1}, float[2] o = {1, 1}, float[2] z = {0, 0}, int64[4] i = {0, "
            "4, 3, 5}, int64[2] e = {1, 2}> { f = Cast <to = 1> (x) g = Reshape(f, a) "
            "h = InstanceNormalization <epsilon = 0.001> (g, o, z) j = Reshape(h, i) "
            "q = Cast <to = 1> (s) r = Unsqueeze(q, e) t = Cast <to = 1> (b) u = Unsqueeze(t, e) "
            "v = Mul(j, r) w = Add(v, u) y = Cast <to = 10> (w) }",
            opset=21,
        ),
    )


class _LowerContribGroupNorm(_LowerGroupNorm):
    """A GroupNorm of ``com.microsoft``, of images with the channels along the last axis.

    What: moves the channels to axis 1 and back by Transpose. Reshape makes the groups the axis of
    channels, and InstanceNormalization normalizes each group. If the image may be empty, the
    formula of InstanceNormalization is written instead. SiLU is Sigmoid and Mul. 16-bit floats are
    computed in 32 bits, as in the operator.
    Why: ONNX Runtime runs the operator on CUDA only. Its optimizer for diffusion models writes the
    operator.
    Refuses when:
    1. the type is unknown, or has 64 bits (checked by the matcher).
    2. the rank is not 4, the image is empty, or the number of channels is unknown. Or the groups
       are not equal, or gamma and beta do not have one number for each channel.
    3. the activation is neither none nor SiLU.
    """

    min_opset = 13
    derives = ("back", "is_filled", "options")

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        node, shape = m.nodes[0], g.try_infer_shape(m.x) or ()
        options = {"channels_last": 1, "epsilon": 1e-5, "groups": 0, "activation": -1, **m.written}
        is_last, groups = options["channels_last"], options["groups"]
        if len(shape) != 4 or 0 in shape:  # (2)
            return self.none(node, msg="the rank is not 4, or the image is empty")
        image = (shape[0], shape[3], *shape[1:3]) if is_last else shape
        channels = image[1]
        if not isinstance(channels, int) or not groups or channels % groups:  # (2)
            return self.none(node, msg="the number of channels is not a multiple of the groups")
        if any(g.try_infer_shape(name) != (channels,) for name in (m.gamma, m.beta)):  # (2)
            return self.none(node, msg="gamma and beta are not one value per channel")
        if options["activation"] not in (0, _SILU):  # (3)
            return self.none(node, msg="the activation is unknown")
        return m.derive(
            back=reshape_target(g, (image[0], groups), image),
            is_filled=all(map(is_nonzero, image[2:])),
            options=options,
        )

    def normalized(self, g: PatternRewriter, x: str, **m: Any) -> str:
        """The operator without the sum before it, in the type of ``x``."""
        options, dtype = m["options"], g.try_infer_type(x)
        wide = widened(g, x, dtype)
        image = channels_first(g, wide, 4) if options["channels_last"] else wide
        grouped, epsilon = _grouped(g, image, options["groups"]), options["epsilon"]
        if m["is_filled"]:
            normal = _instances(g, grouped, options["groups"], epsilon, [])
        else:
            normal = divided(g, centered(g, grouped, [-1]), [-1], epsilon)
        parameters = [widened(g, m[name], g.try_infer_type(m[name])) for name in ("gamma", "beta")]
        result = _scaled(g, reshaped(g, normal, m["back"], image), parameters, 4)
        if options["activation"] == _SILU:
            result = g.op.Mul(result, g.op.Sigmoid(result))
        back = channels_last(g, result, 4) if options["channels_last"] else result
        return narrowed(g, back, dtype)


class LowerGroupNormPattern(_LowerContribGroupNorm):
    """com.microsoft.GroupNorm(x, gamma, beta, activation=1) → SiLU(InstanceNormalization(groups of
    x) · gamma + beta)
    """

    def match_pattern(self, g: PatternBuilder, x: Symbol, gamma: Symbol, beta: Symbol) -> Symbol:
        return g.op.GroupNorm(
            x, gamma, beta, domain="com.microsoft", attributes=g.capture("written")
        )

    def apply_pattern(self, g: PatternRewriter, x: str, **m: Any) -> str:
        return self.normalized(g, x, **m)

    examples = Example.pairs(
        "agraph (float[n,h,6,4] x, float[4] s, float[4] b) => (float[n,h,6,4] y) { y = "
        "com.microsoft.GroupNorm <groups = 2, activation = 1, epsilon = 0.001> (x, s, b) }",
        "<int64[3] a = {0, 2, -1}, int64[1] l = {-1}, float d = {0.001}, int64[4] e = {0, 4, -1, "
        "6}, int64[2] f = {1, 2}> { c = Transpose <perm = [0, 3, 1, 2]> (x) g = Reshape(c, a) "
        "m = ReduceMean(g, l) c1 = Sub(g, m) c2 = Mul(c1, c1) v1 = ReduceMean(c2, l) "
        "v2 = Add(v1, d) v3 = Sqrt(v2) h = Div(c1, v3) i = Reshape(h, e) "
        "p = Unsqueeze(s, f) q = Unsqueeze(b, f) r = Mul(i, p) t = Add(r, q) u = Sigmoid(t) "
        "v = Mul(t, u) y = Transpose <perm = [0, 2, 3, 1]> (v) }",
        "agraph (float16[2,4,3,6] x, float[4] s, float[4] b) => (float16[2,4,3,6] y) { y = "
        "com.microsoft.GroupNorm <groups = 4, activation = 0, channels_last = 0> (x, s, b) }",
        "<int64[3] a = {0, 4, -1}, float[4] o = {1, 1, 1, 1}, float[4] z = {0, 0, 0, 0}, int64[4] "
        "e = {2, 4, 3, 6}, int64[2] f = {1, 2}> { c = Cast <to = 1> (x) g = Reshape(c, a) "
        "h = InstanceNormalization(g, o, z) i = Reshape(h, e) p = Unsqueeze(s, f) "
        "q = Unsqueeze(b, f) r = Mul(i, p) t = Add(r, q) y = Cast <to = 10> (t) }",
    )


class LowerSkipGroupNormPattern(_LowerContribGroupNorm):
    """com.microsoft.SkipGroupNorm(x, gamma, beta, skip, bias) → GroupNorm of x + skip + bias

    What: computes the sum by Add. The sum is also the second result. The normalization is written
    as for `LowerGroupNorm`: Transpose, Reshape, InstanceNormalization and back.
    Refuses when:
    1. the type is unknown, has 64 bits, or is bfloat16 (checked by the matcher).
    2. the rank is not 4, the image is empty, or the number of channels is unknown. Or the groups
       are not equal, or gamma and beta do not have one number for each channel.
    3. the activation is neither none nor SiLU.
    4. the channels are not the last axis. Or skip is neither a tensor that broadcasts to x nor a
       matrix with one row for each image.
    """

    operand_types = {"x": _FLOATS - {TensorProto.BFLOAT16}}  # (1)

    def match_pattern(
        self,
        g: PatternBuilder,
        x: Symbol,
        gamma: Symbol,
        beta: Symbol,
        skip: Symbol,
        bias: Optional,
    ) -> Symbol:
        return g.op.SkipGroupNorm(
            *(x, gamma, beta, skip, bias),
            domain="com.microsoft",
            outputs=g.variadic("results"),
            attributes=g.capture("written"),
        )

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        shape, skip = g.try_infer_shape(m.x) or (), g.try_infer_shape(m.skip) or ()
        is_row = len(skip) == 2 and skip == (*shape[:1], *shape[-1:])
        if not m.written.get("channels_last", 1) or not (
            is_row or (len(skip) == 4 and broadcasts_to(g, m.skip, m.x))
        ):  # (4)
            return self.none(m.nodes[0], msg="skip is not known to broadcast to x")
        return super().validate_mapping(g, m)

    def apply_pattern(
        self, g: PatternRewriter, x: str, skip: str, bias: str, results: tuple[str, ...], **m: Any
    ) -> Any:
        image = g.op.Unsqueeze(skip, axes=[1, 2]) if g.info(skip).rank == 2 else skip
        total = g.op.Add(x, image)
        if bias:
            total = g.op.Add(total, bias)
        return (self.normalized(g, total, **m), total)[: len(results)]

    examples = Example.pairs(
        "agraph (float[n,5,6,4] x, float[4] s, float[4] b, float[n,5,6,4] k, float[4] c) => "
        "(float[n,5,6,4] y, float[n,5,6,4] t) { y, t = com.microsoft.SkipGroupNorm "
        "<groups = 2, activation = 0, epsilon = 0.001> (x, s, b, k, c) }",
        "<int64[3] a = {0, 2, -1}, float[2] o = {1, 1}, float[2] z = {0, 0}, int64[4] e = {0, 4, "
        "5, 6}, int64[2] f = {1, 2}> { l = Add(x, k) t = Add(l, c) "
        "d = Transpose <perm = [0, 3, 1, 2]> (t) g = Reshape(d, a) "
        "h = InstanceNormalization <epsilon = 0.001> (g, o, z) i = Reshape(h, e) "
        "p = Unsqueeze(s, f) q = Unsqueeze(b, f) r = Mul(i, p) u = Add(r, q) "
        "y = Transpose <perm = [0, 2, 3, 1]> (u) }",
        "agraph (float[n,5,6,4] x, float[4] s, float[4] b, float[n,4] k) => (float[n,5,6,4] y) "
        "{ y = com.microsoft.SkipGroupNorm <groups = 1, activation = 1> (x, s, b, k) }",
        "<int64[3] a = {0, 1, -1}, float[1] o = {1}, float[1] z = {0}, int64[4] e = {0, 4, 5, "
        "6}, int64[2] f = {1, 2}> { k1 = Unsqueeze(k, f) l = Add(x, k1) "
        "d = Transpose <perm = [0, 3, 1, 2]> (l) g = Reshape(d, a) "
        "h = InstanceNormalization(g, o, z) i = Reshape(h, e) "
        "p = Unsqueeze(s, f) q = Unsqueeze(b, f) r = Mul(i, p) u = Add(r, q) v = Sigmoid(u) "
        "w = Mul(u, v) y = Transpose <perm = [0, 2, 3, 1]> (w) }",
    )


def _grouped(g: PatternRewriter, x: str, groups: int) -> str:
    """The tensor (N, C, ...) in the shape (N, groups, -1)."""
    return g.op.Reshape(x, np.array([0, groups, -1], np.int64))


def _instances(
    g: PatternRewriter, x: str, groups: int, epsilon: float, parameters: list[str]
) -> str:
    """The normalized groups, of shape (N, groups, -1).

    ``parameters`` are the scale and bias of each group. If empty, the scale is 1 and the bias 0.
    """
    scale, bias = parameters or (
        g.make_initializer("", np.full(groups, value, np.float32)) for value in (1, 0)
    )
    return g.op.InstanceNormalization(x, scale, bias, epsilon=epsilon)


def _scaled(g: PatternRewriter, x: str, parameters: list[str], rank: int) -> str:
    """The tensor (N, C, ...) times the scale plus the bias of each channel."""
    scale, bias = (along_channels(g, name, rank) for name in parameters)
    return g.op.Add(g.op.Mul(x, scale), bias)
