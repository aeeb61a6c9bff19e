"""Operators by their definitions."""

from onnx import TensorProto

from xoptim.match import Example, PatternBuilder, Symbol
from xoptim.match.by_definition import LoweringByDefinition

from ._lowering import WIDE_FLOATS


class _LowerByDefinition(LoweringByDefinition):
    """An operator on numbers.

    Why: some runtimes lack the operator.
    Refuses when:
    1. the numbers are not floats of 16, 32 or 64 bits.
    """

    min_opset = 11
    operand_types = {"x": WIDE_FLOATS}  # (1)


class LowerAbsPattern(_LowerByDefinition):
    """Abs(x) of integers → Max(x, Sub(0, x))

    What: computes the maximum of a number and its negative. The lowest integer is its own negative,
    as in Abs.
    Why: WebGPU has Abs for floats only.
    Refuses when:
    1. the numbers are not signed integers of 32 or 64 bits.
    """

    min_opset = 12
    operand_types = {"x": frozenset((TensorProto.INT32, TensorProto.INT64))}  # (1)
    operator = "Abs"

    examples = Example.pairs(
        "agraph (int32[a] x) => (int32[a] y) { y = Abs(x) }",
        "<int32 zero = {0}> { t = Sub(zero, x) y = Max(x, t) }",
        "agraph (int64[a,3] x) => (int64[a,3] y) { y = Abs(x) }",
        "<int64 zero = {0}> { t = Sub(zero, x) y = Max(x, t) }",
    )


class LowerCastToBoolPattern(_LowerByDefinition):
    """Cast(x, to=BOOL) → Not(Equal(x, 0))

    What: compares with 0. All other numbers are true, also NaN.
    Why: some providers have no conversion from floats to Booleans. Qualcomm's QNN has no conversion
    from 16 bits.
    Refuses when:
    1. the numbers are not floats of 16, 32 or 64 bits.
    2. the Cast is to another type.
    """

    exactness = "exact"
    definition = """
        Cast (x) => (y)
        {
            number = Constant <value_int = 0> ()
            zero = CastLike (number, x)
            is_zero = Equal (x, zero)
            y = Not (is_zero)
        }
        """

    def match_pattern(self, g: PatternBuilder) -> Symbol:
        return g.op.Cast(g.symbol("x"), to=TensorProto.BOOL)  # (2)

    examples = Example.pairs(
        "agraph (float[a] x) => (bool[a] y) { y = Cast <to = 9> (x) }",
        "<float zero = {0}> { t = Equal(x, zero) y = Not(t) }",
        "agraph (float16[a] x) => (bool[a] y) { y = Cast <to = 9> (x) }",
        "<float16 zero = {0}> { t = Equal(x, zero) y = Not(t) }",
        opset=13,
    )


class LowerCeilPattern(_LowerByDefinition):
    """Ceil(x) → Neg(Floor(Neg(x)))

    What: rounds the negated number down, and negates the result.
    Refuses when:
    1. the numbers are not floats of 16, 32 or 64 bits.
    """

    min_opset = 6
    operator = "Ceil"

    examples = Example.pairs(
        "agraph (float[a] x) => (float[a] y) { y = Ceil(x) }",
        "{ t = Neg(x) u = Floor(t) y = Neg(u) }",
        "agraph (float16[a] x) => (float16[a] y) { y = Ceil(x) }",
        "{ t = Neg(x) u = Floor(t) y = Neg(u) }",
    )


class LowerDynamicQuantizeLinearPattern(_LowerByDefinition):
    """DynamicQuantizeLinear(x) → QuantizeLinear(x, scale, zero) with scale = (max(x, 0) - min(x,
    0)) / 255

    What: computes scale and zero point by ReduceMax and ReduceMin, as ONNX defines the operator.
    The scale is 1 if all numbers are 0.
    Why: most runtimes lack the operator.
    Refuses when:
    1. the type is unknown (checked by the matcher).
    """

    exactness = "finite"  # kernels convert NaN to an arbitrary integer
    min_opset = 13
    max_opset = 27
    operand_types = {"x": frozenset((TensorProto.FLOAT,))}  # (1)
    operator = "DynamicQuantizeLinear"

    examples = Example.pairs(
        "agraph (float[n,4] x) => (uint8[n,4] y, float s, uint8 z) { "
        "y, s, z = DynamicQuantizeLinear(x) }",
        "<float a = {0}, float b = {255}, float c = {1}> { d = ReduceMax <keepdims = 0> (x) e = "
        "Max(d, a) f = ReduceMin <keepdims = 0> (x) g = Min(f, a) h = Sub(e, g) i = Equal(h, a) j "
        "= Div(h, b) s = Where(i, c, j) k = Div(g, s) l = Sub(a, k) m = Clip(l, a, b) n = Round(m) "
        "z = Cast <to = 2> (n) y = QuantizeLinear(x, s, z) }",
    )


class LowerRoundPattern(_LowerByDefinition):
    """Round(x) → Floor(x), or Floor(x) + 1 if x - Floor(x) is above 1/2, or is 1/2 and Floor(x) odd

    What: rounds halves to even numbers. The difference x - Floor(x) is exact, except for negative
    numbers near 0. If such a difference is rounded to 1/2 or 1, the result is still 0, as for
    Round.
    Refuses when:
    1. the numbers are not floats of 16, 32 or 64 bits.
    """

    operator = "Round"

    _formula = (
        "f = Floor(x) d = Sub(x, f) p = Mul(f, h) q = Floor(p) o = Greater(p, q) e = Equal(d, h) "
        "m = And(e, o) g = Greater(d, h) u = Or(g, m)"
    )
    examples = Example.pairs(
        "agraph (float[a] x) => (float[a] y) { y = Round(x) }",
        f"<float h = {{0.5}}> {{ {_formula} c = Cast <to = 1> (u) y = Add(f, c) }}",
        "agraph (float16[a] x) => (float16[a] y) { y = Round(x) }",
        f"<float16 h = {{14336}}> {{ {_formula} c = Cast <to = 10> (u) y = Add(f, c) }}",
        "agraph (int64[a] k) => (float[a] y) <float h = {0.5}> { f = Cast <to = 1> (k) "
        "x = Mul(f, h) y = Round(x) }",
        f"<float h = {{0.5}}> {{ w = Cast <to = 1> (k) x = Mul(w, h) {_formula} "
        "c = Cast <to = 1> (u) y = Add(f, c) }",
    )


class LowerSignPattern(_LowerByDefinition):
    """Sign(x) → Where(Greater(x, 0), 1, Where(Less(x, 0), -1, x))

    What: selects by two comparisons. 0 and NaN are returned unchanged.
    Refuses when:
    1. the numbers are not signed numbers of 32 or 64 bits: in 16 bits, onnxruntime turns NaN into
       0.
    """

    min_opset = 9
    operand_types = {
        "x": frozenset(
            (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.INT32, TensorProto.INT64)
        )
    }  # (1)
    operator = "Sign"

    examples = Example.pairs(
        "agraph (float[a] x) => (float[a] y) { y = Sign(x) }",
        "<float o = {0}, float p = {1}, float n = {-1}> "
        "{ l = Less(x, o) t = Where(l, n, x) g = Greater(x, o) y = Where(g, p, t) }",
        "agraph (int64[a] x) => (int64[a] y) { y = Sign(x) }",
        "<int64 o = {0}, int64 p = {1}, int64 n = {-1}> "
        "{ l = Less(x, o) t = Where(l, n, x) g = Greater(x, o) y = Where(g, p, t) }",
    )


class LowerSizePattern(_LowerByDefinition):
    """Size(x) → ReduceProd(Shape(x))

    What: multiplies the lengths of the axes.
    Why: some runtimes lack Size.
    Refuses when:
    1. (never: the lengths are integers of 64 bits in both forms.)
    """

    exactness = "exact"
    operand_types = {}
    operator = "Size"

    examples = Example.pairs(
        "agraph (float[n,4] x) => (int64 y) { y = Size(x) }",
        "{ s = Shape(x) y = ReduceProd <keepdims = 0> (s) }",
    )
