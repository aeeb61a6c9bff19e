"""Normalizations by their formulas."""

from onnx import TensorProto

from xoptim.match import (
    Constant,
    Example,
    GraphView,
    Match,
    PatternBuilder,
    PatternRewriter,
    Symbol,
)
from xoptim.match.trace import Optional

from .._folding import constant, doubles, rounded
from .._shapes import reshape_target
from ._lowering import COMPUTED, _Lowering, axes_from, narrowed, widened
from ._normal import along_channels, centered, divided, reshaped


class _LowerNormalization(_Lowering):
    """A normalization.

    What: writes the formula. 16-bit floats are computed in 32 bits, as in the operator.
    Why: some runtimes lack the operator.
    """


class LowerLayerNormalizationPattern(_LowerNormalization):
    """LayerNormalization(x, scale, bias) → (x - mean) / √(mean of (x - mean)² + epsilon) · scale +
    bias

    What: writes the formula with ReduceMean, Sub, Mul, Sqrt and Div. 16-bit floats are computed in
    32 bits, as in the operator.
    Why: some runtimes lack the operator, or support only scales of rank 1.
    Refuses when:
    1. the mean or the standard deviation is used, two further results of the operator.
    2. the type is unknown, or the rank is, on which the normalized axes depend.
    """

    min_opset = 7
    derives = ("axes", "dtype")

    def match_pattern(self, g: PatternBuilder, x: Symbol, scale: Symbol, bias: Optional) -> Symbol:
        return g.op.LayerNormalization(
            x,
            scale,
            bias,
            axis=g.capture("axis"),
            epsilon=g.capture("epsilon"),
            attributes=g.capture("others"),
        )

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        node, info = m.nodes[0], g.info(m.x)
        if any(g.is_used(name) for name in node.output[1:]):  # (1)
            return self.none(node, msg="the mean or the inverse standard deviation is read")
        axes = axes_from(m.axis, info.rank)
        if not info.dtype or axes is None:  # (2)
            return self.none(node, msg="the type or the rank is unknown")
        return m.derive(axes=axes, dtype=info.dtype)

    def apply_pattern(
        self,
        g: PatternRewriter,
        x: str,
        scale: str,
        bias: str,
        axes: list[int],
        dtype: int,
        epsilon: float,
    ) -> str:
        wide = widened(g, x, dtype)
        normal = divided(g, centered(g, wide, axes), axes, epsilon)
        result = g.op.Mul(normal, widened(g, scale, dtype))
        if bias:
            result = g.op.Add(result, widened(g, bias, dtype))
        return narrowed(g, result, dtype)

    _formula = (
        "m = ReduceMean(x, i) d = Sub(x, m) q = Mul(d, d) v = ReduceMean(q, i) w = Add(v, e) "
        "s = Sqrt(w)"
    )
    examples = Example.pairs(
        "agraph (float[a,b,4] x, float[4] k, float[4] c) => (float[a,b,4] y) "
        "{ y = LayerNormalization <epsilon = 0.001> (x, k, c) }",
        f"<float e = {{0.001}}, int64[1] i = {{-1}}> {{ {_formula} n = Div(d, s) t = Mul(n, k) "
        "y = Add(t, c) }",
        "agraph (float[a,2,4] x, float[2,4] k) => (float[a,2,4] y) "
        "{ y = LayerNormalization <axis = 1, epsilon = 0.001> (x, k) }",
        f"<float e = {{0.001}}, int64[2] i = {{-2, -1}}> {{ {_formula} n = Div(d, s) "
        "y = Mul(n, k) }",
        "agraph (float16[a,4] x, float16[4] k) => (float16[a,4] y) { "
        "y = LayerNormalization <epsilon = 0.001> (x, k) }",
        "<float e = {0.001}, int64[1] i = {-1}> { "
        f"o = Cast <to = 1> (x) {_formula.replace('(x, ', '(o, ')} n = Div(d, s) "
        "l = Cast <to = 1> (k) t = Mul(n, l) y = Cast <to = 10> (t) }",
    )


class LowerRMSNormalizationPattern(_LowerNormalization):
    """RMSNormalization(x, scale) → x / √(mean of x² + epsilon) · scale

    What: writes the formula with Mul, ReduceMean, Sqrt and Div. The same for
    SimplifiedLayerNormalization, ONNX Runtime's name of the operator. 16-bit floats are computed in
    32 bits, as in the operator.
    Why: many runtimes lack the operator.
    Refuses when:
    1. the standard deviation is used, the second result of ONNX Runtime's operator.
    2. the types of x and scale are unknown or differ.
    3. the rank is unknown, on which the normalized axes depend.
    """

    min_opset = 7
    operand_types = {"x": COMPUTED}  # (2)
    derives = ("axes", "dtype", "number")

    def match_pattern(self, g: PatternBuilder, x: Symbol, scale: Symbol) -> Symbol:
        operator = g.choice("operator", "RMSNormalization", "SimplifiedLayerNormalization")
        result: Symbol = getattr(g.op, operator)(x, scale, attributes=g.capture("written"))
        return result

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        node, info = m.nodes[0], g.info(m.x)
        if any(g.is_used(name) for name in node.output[1:]):  # (1)
            return self.none(node, msg="the inverse standard deviation is read")
        if g.try_infer_type(m.scale) != info.dtype:  # (2)
            return self.none(node, msg="the types differ")
        axes = axes_from(m.written.get("axis", -1), info.rank)
        if axes is None:  # (3)
            return self.none(node, msg="the rank is unknown")
        return m.derive(axes=axes, dtype=info.dtype, number=m.written.get("epsilon", 1e-5))

    def apply_pattern(
        self, g: PatternRewriter, x: str, scale: str, axes: list[int], dtype: int, number: float
    ) -> str:
        normal = divided(g, widened(g, x, dtype), axes, number)
        return narrowed(g, g.op.Mul(normal, widened(g, scale, dtype)), dtype)

    examples = (
        *Example.pairs(
            "agraph (float[a,b,4] x, float[4] k) => (float[a,b,4] y) { "
            "y = RMSNormalization <epsilon = 0.001> (x, k) }",
            "<int64[1] a = {-1}, float b = {0.001}> { c = Mul(x, x) d = ReduceMean(c, a) "
            "e = Add(d, b) f = Sqrt(e) g = Div(x, f) y = Mul(g, k) }",
            "agraph (float16[a,2,4] x, float16[2,4] k) => (float16[a,2,4] y) "
            "{ y = RMSNormalization <axis = 1, epsilon = 0.001> (x, k) }",
            "<int64[2] a = {-2, -1}, float b = {0.001}> { c = Cast <to = 1> (x) d = Mul(c, c) "
            "e = ReduceMean(d, a) f = Add(e, b) g = Sqrt(f) h = Div(c, g) i = Cast <to = 1> (k) "
            "j = Mul(h, i) y = Cast <to = 10> (j) }",
            opset=23,
        ),
        Example(
            "agraph (float[a,b,4] x, float[4] k) => (float[a,b,4] y) "
            "{ y = SimplifiedLayerNormalization <axis = -1, epsilon = 0.001> (x, k) }",
            "<int64[1] a = {-1}, float b = {0.001}> { c = Mul(x, x) d = ReduceMean(c, a) "
            "e = Add(d, b) f = Sqrt(e) g = Div(x, f) y = Mul(g, k) }",
        ),
    )


class LowerInstanceNormalizationPattern(_LowerNormalization):
    """InstanceNormalization(x, scale, bias) → (x - mean) / √(variance + epsilon) · scale + bias

    What: writes the formula with Sub, Mul, Sqrt, Div, and ReduceMean over all axes after the second
    one. 16-bit floats are computed in 32 bits, as in the operator. If all scales are 1 and all
    biases are 0, Mul and Add are omitted.
    Why: some runtimes lack the operator, or have no kernel for some types or ranks.
    Refuses when:
    1. the type is unknown (checked by the matcher).
    2. the rank is unknown or less than 3.
    3. scale or bias are not constants of moderate magnitude.
    """

    min_opset = 7
    operand_types = {"x": COMPUTED}  # (1)
    derives = ("rank", "dtype", "number", "is_plain")

    def match_pattern(
        self, g: PatternBuilder, x: Symbol, scale: Constant, bias: Constant
    ) -> Symbol:
        epsilon = g.capture("epsilon", optional=True)
        return g.op.InstanceNormalization(x, scale, bias, epsilon=epsilon)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        rank = g.info(m.x).rank or 0
        if rank < 3:  # (2)
            return self.none(m.nodes[0], msg="the rank is unknown or less than 3")
        for name in (m.scale, m.bias):  # (3)
            rounded(doubles(g, name), constant(g, name).dtype, terms=())
        number = g.get_attribute(m.nodes[0], "epsilon")
        is_plain = bool((doubles(g, m.scale) == 1).all() and (doubles(g, m.bias) == 0).all())
        return m.derive(rank=rank, dtype=g.try_infer_type(m.x), number=number, is_plain=is_plain)

    def apply_pattern(
        self,
        g: PatternRewriter,
        x: str,
        scale: str,
        bias: str,
        rank: int,
        dtype: int,
        number: float,
        is_plain: bool,
    ) -> str:
        axes = list(range(2 - rank, 0))
        normal = divided(g, centered(g, widened(g, x, dtype), axes), axes, number)
        if is_plain:
            return narrowed(g, normal, dtype)
        factor, shift = (along_channels(g, widened(g, name, dtype), rank) for name in (scale, bias))
        return narrowed(g, g.op.Add(g.op.Mul(normal, factor), shift), dtype)

    examples = Example.pairs(
        "agraph (float[n,3,h,w] x) => (float[n,3,h,w] y) "
        "<float[3] s = {1, 2, 3}, float[3] b = {0, 1, 2}> "
        "{ y = InstanceNormalization <epsilon = 0.001> (x, s, b) }",
        "<int64[2] a = {-2, -1}, float b = {0.001}, float[3,1,1] c = {1, 2, 3}, float[3,1,1] d = "
        "{0, 1, 2}> { e = ReduceMean(x, a) f = Sub(x, e) g = Mul(f, f) h = ReduceMean(g, a) i = "
        "Add(h, b) j = Sqrt(i) k = Div(f, j) l = Mul(k, c) y = Add(l, d) }",
        "agraph (float16[n,2,h] x) => (float16[n,2,h] y) <float16[2] s = {15360, 16384}, "
        "float16[2] b = {0, 15360}> { y = InstanceNormalization(x, s, b) }",
        "<int64[1] a = {-1}, float b = {1e-05}, float[2,1] c = {1, 2}, float[2,1] d = {0, 1}> { e "
        "= Cast <to = 1> (x) f = ReduceMean(e, a) g = Sub(e, f) h = Mul(g, g) i = ReduceMean(h, a) "
        "j = Add(i, b) k = Sqrt(j) l = Div(g, k) m = Mul(l, c) n = Add(m, d) y = Cast <to = 10> "
        "(n) }",
    )


class LowerBatchNormalizationPattern(_LowerNormalization):
    """BatchNormalization(x, scale, bias, mean, variance) → x · a + (bias - mean · a) with a = scale
    / √(variance + epsilon)

    What: multiplies each channel by a factor, and adds a summand. Both are constants if the
    parameters are constant.
    Why: some runtimes lack the operator. Others merge Mul and Add into a preceding convolution, but
    not BatchNormalization.
    Refuses when:
    1. the operator is in training mode, or a result other than the first one is used.
    2. the type is not float32 or float64, or differs from the types of the parameters.
    3. the rank is unknown.
    """

    min_opset = 9
    operand_types = {"x": frozenset((TensorProto.FLOAT, TensorProto.DOUBLE))}  # (2)
    derives = ("rank", "epsilon")

    def match_pattern(
        self, g: PatternBuilder, x: Symbol, s: Symbol, b: Symbol, m: Symbol, v: Symbol
    ) -> Symbol:
        return g.op.BatchNormalization(x, s, b, m, v, attributes=g.capture("written"))

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        node, rank = m.nodes[0], g.info(m.x).rank
        # (1)
        if m.written.get("training_mode") or any(g.is_used(name) for name in node.output[1:]):
            return self.none(
                node, msg="the node is in training mode, or an output after the first is read"
            )
        if len({g.try_infer_type(name) for name in node.input}) > 1:  # (2)
            return self.none(node, msg="the parameters differ in type")
        if not rank or rank < 2:  # (3)
            return self.none(node, msg="the rank is unknown")
        return m.derive(rank=rank, epsilon=g.get_attribute(node, "epsilon"))

    def apply_pattern(
        self, g: PatternRewriter, x: str, s: str, b: str, m: str, v: str, rank: int, epsilon: float
    ) -> str:
        factor = g.op.Div(s, g.op.Sqrt(g.op.Add(v, epsilon)))
        shift = g.op.Sub(b, g.op.Mul(m, factor))
        product = g.op.Mul(x, along_channels(g, factor, rank))
        return g.op.Add(product, along_channels(g, shift, rank))

    examples = Example.pairs(
        "agraph (float[n,2,h,w] x) => (float[n,2,h,w] y) <float[2] s = {1, 2}, float[2] b = {0, "
        "1}, float[2] m = {1, 2}, float[2] v = {3, 0}> { "
        "y = BatchNormalization <epsilon = 1.0> (x, s, b, m, v) }",
        "<float[2,1,1] a = {0.5, 2}, float[2,1,1] b = {-0.5, -3}> { c = Mul(x, a) y = Add(c, b) }",
        "agraph (float[n,c] x, float[c] s, float[c] b, float[c] m, float[c] v) => (float[n,c] y) "
        "{ y = BatchNormalization(x, s, b, m, v) }",
        "<float a = {1e-05}> { c = Add(v, a) d = Sqrt(c) e = Div(s, d) f = Mul(m, e) g = Sub(b, f) "
        "h = Mul(x, e) y = Add(h, g) }",
        ranges=(("v", 0.5, 2.0),),
    )


class LowerLpNormalizationPattern(_LowerNormalization):
    """LpNormalization(x) → Where(‖x‖ = 0, 0, x / ‖x‖)

    What: computes the norm by ReduceL2, or by ReduceL1 for p = 1. 16-bit floats are computed in 32
    bits.
    Why: most runtimes lack the operator.
    Refuses when:
    1. the type is unknown (checked by the matcher).
    """

    min_opset = 11
    operand_types = {"x": COMPUTED}  # (1)
    derives = ("axes", "order", "dtype")

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        axis, p = (g.capture(name, optional=True) for name in ("axis", "p"))
        return g.op.LpNormalization(x, axis=axis, p=p)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        axis, p = (g.get_attribute(m.nodes[0], name) for name in ("axis", "p"))
        return m.derive(axes=[axis], order=p, dtype=g.try_infer_type(m.x))

    def apply_pattern(
        self, g: PatternRewriter, x: str, axes: list[int], order: int, dtype: int
    ) -> str:
        wide = widened(g, x, dtype)
        norm = g.op.ReduceL1(wide, axes=axes) if order == 1 else g.op.ReduceL2(wide, axes=axes)
        result = g.op.Where(g.op.Equal(norm, 0.0), 0.0, g.op.Div(wide, norm))
        return narrowed(g, result, dtype)

    examples = Example.pairs(
        "agraph (float[a,b,4] x) => (float[a,b,4] y) { y = LpNormalization(x) }",
        "<int64[1] a = {-1}, float b = {0}> { c = ReduceL2(x, a) d = Equal(c, b) e = Div(x, c) "
        "y = Where(d, b, e) }",
        "agraph (float[a,4,b] x) => (float[a,4,b] y) { y = LpNormalization <axis = 1, p = 1> (x) }",
        "<int64[1] a = {1}, float b = {0}> { c = ReduceL1(x, a) d = Equal(c, b) e = Div(x, c) "
        "y = Where(d, b, e) }",
    )


class LowerGroupNormalizationPattern(_LowerNormalization):
    """GroupNormalization(x, scale, bias) → (t - mean) / √(variance + epsilon) · scale + bias with t
    in groups

    What: reshapes x to (batch, groups, elements of a group), and writes the formula along the last
    axis. 16-bit floats are computed in 32 bits, as in the operator.
    Why: many runtimes lack the operator.
    Refuses when:
    1. the type is unknown, or has 64 bits: the operator computes in 32 (checked by the matcher).
    2. the rank or the number of channels is unknown, or the groups are not equal. Or scale and bias
       do not have one number for each channel.
    """

    min_opset = 21
    after = {"LowerGroupNormalizationToInstance": "it writes fewer nodes"}
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
        parameters = [g.try_infer_shape(name) for name in (m.scale, m.bias)]
        if shape[1] % m.groups or parameters != [shape[1:2], shape[1:2]]:  # (2)
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
