"""Softmax and its logarithm by their formulas."""

from onnx import TensorProto

from xoptim.match import Example, GraphView, Match, PatternBuilder, PatternRewriter, Symbol

from ._lowering import COMPUTED, _Lowering, axes_from, narrowed, widened

_ONE_AXIS = 13
"""The first operator set in which the operators reduce one axis, not all from ``axis`` on."""


class _LowerSoftmax(_Lowering):
    """An operator along an axis, or along all axes from ``axis`` on (before operator set 13).

    What: first subtracts the largest number, so that no exponential overflows. 16-bit floats are
    computed in 32 bits, as in the operator.
    Why: some runtimes lack the operator.
    Refuses when:
    1. the type is unknown (checked by the matcher).
    2. the rank is unknown, on which the axes depend before operator set 13.
    """

    min_opset = 7
    operand_types = {"x": COMPUTED}  # (1)
    derives = ("axes", "dtype")

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        node, info = m.nodes[0], g.info(m.x)
        axis = g.get_attribute(node, "axis")
        axes = [axis] if node.opset >= _ONE_AXIS else axes_from(axis, info.rank)
        if axes is None:  # (2)
            return self.none(node, msg="the rank is unknown")
        return m.derive(axes=axes, dtype=info.dtype)


def below_largest(g: PatternRewriter, x: str, axes: list[int]) -> str:
    """The numbers minus the largest number along some axes."""
    return g.op.Sub(x, g.op.ReduceMax(x, axes=axes))


class LowerSoftmaxPattern(_LowerSoftmax):
    """Softmax(x) → Exp(x - max) / sum of Exp(x - max)"""

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        return g.op.Softmax(x, axis=g.capture("axis", optional=True))

    def apply_pattern(self, g: PatternRewriter, x: str, axes: list[int], dtype: int) -> str:
        powers = g.op.Exp(below_largest(g, widened(g, x, dtype), axes))
        return narrowed(g, g.op.Div(powers, g.op.ReduceSum(powers, axes=axes)), dtype)

    examples = (
        *Example.pairs(
            "agraph (float[a,b,4] x) => (float[a,b,4] y) { y = Softmax(x) }",
            "<int64[1] a = {-1}> { b = ReduceMax(x, a) c = Sub(x, b) d = Exp(c) "
            "e = ReduceSum(d, a) y = Div(d, e) }",
            "agraph (float16[a,4,b] x) => (float16[a,4,b] y) { y = Softmax <axis = 1> (x) }",
            "<int64[1] a = {1}> { b = Cast <to = 1> (x) c = ReduceMax(b, a) d = Sub(b, c) "
            "e = Exp(d) f = ReduceSum(e, a) g = Div(e, f) y = Cast <to = 10> (g) }",
        ),
        Example(
            "agraph (float[a,3,4] x) => (float[a,3,4] y) { y = Softmax(x) }",
            "{ a = ReduceMax <axes = [-2, -1]> (x) b = Sub(x, a) c = Exp(b) "
            "d = ReduceSum <axes = [-2, -1]> (c) y = Div(c, d) }",
            opset=11,
        ),
    )


class LowerLogSoftmaxPattern(_LowerSoftmax):
    """LogSoftmax(x) → (x - max) - Log(sum of Exp(x - max))

    Refuses when:
    1. the type is unknown, or has 64 bits: ONNX Runtime's kernel loses NaN then (checked by the
       matcher).
    2. the rank is unknown, on which the axes depend before operator set 13.
    """

    operand_types = {"x": COMPUTED - {TensorProto.DOUBLE}}  # (1)

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        return g.op.LogSoftmax(x, axis=g.capture("axis", optional=True))

    def apply_pattern(self, g: PatternRewriter, x: str, axes: list[int], dtype: int) -> str:
        distance = below_largest(g, widened(g, x, dtype), axes)
        total = g.op.ReduceSum(g.op.Exp(distance), axes=axes)
        return narrowed(g, g.op.Sub(distance, g.op.Log(total)), dtype)

    examples = (
        *Example.pairs(
            "agraph (float[a,b,4] x) => (float[a,b,4] y) { y = LogSoftmax(x) }",
            "<int64[1] a = {-1}> { b = ReduceMax(x, a) c = Sub(x, b) d = Exp(c) "
            "e = ReduceSum(d, a) f = Log(e) y = Sub(c, f) }",
            "agraph (float16[a,4,b] x) => (float16[a,4,b] y) { y = LogSoftmax <axis = 1> (x) }",
            "<int64[1] a = {1}> { b = Cast <to = 1> (x) c = ReduceMax(b, a) d = Sub(b, c) "
            "e = Exp(d) f = ReduceSum(e, a) g = Log(f) h = Sub(d, g) y = Cast <to = 10> (h) }",
        ),
        Example(
            "agraph (float[a,3,4] x) => (float[a,3,4] y) { y = LogSoftmax <axis = -2> (x) }",
            "{ a = ReduceMax <axes = [-2, -1]> (x) b = Sub(x, a) c = Exp(b) "
            "d = ReduceSum <axes = [-2, -1]> (c) e = Log(d) y = Sub(b, e) }",
            opset=11,
        ),
    )
