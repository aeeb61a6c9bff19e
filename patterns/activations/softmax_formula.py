"""Softmax and its logarithm, spelled out."""

from typing import ClassVar

from onnx import TensorProto

from xoptim.match import EasyPatternOptimization, Example, GraphView, Match, PatternBuilder, PatternRewriter, Symbol

from .._kernels import runs


class _SoftmaxFormula(EasyPatternOptimization):
    """The formula of an `operator` along one axis, which is captured as ``axes``."""

    phase = "specialize"
    exactness = "rounding"
    min_opset = 13
    operator: ClassVar[str]

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        has_kernel = runs(g, self.operator, m.x)
        return True if has_kernel else self.none(m.nodes[-1], msg=f"{self.operator} has no kernel for the type")  # (2)

    def apply_pattern(self, g: PatternRewriter, x: str, axes: list[int]) -> str:
        return str(getattr(g.op, self.operator)(x, axis=axes[0]))


class SoftmaxExpPattern(_SoftmaxFormula):
    """Exp(x - max x) / sum of these along an axis → Softmax(x)

    What: one operator instead of five.
    Why: measured 1.5 to 2.1 times faster on onnxruntime's CPU provider.
    Refuses when:
    1. maximum and sum are not taken along one and the same axis.
    2. the provider has no kernel of Softmax for the type.
    """

    operator = "Softmax"

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        axes = g.capture("axes", lambda value: len(value) == 1)  # (1)
        power = g.op.Exp(g.op.Sub(x, g.op.ReduceMax(x, axes=axes)))
        return g.op.Div(power, g.op.ReduceSum(power, axes=axes))

    examples = (
        Example(
            "agraph (float[a,b,c] x) => (float[a,b,c] y) <int64[1] i = {1}> "
            "{ m = ReduceMax(x, i) d = Sub(x, m) e = Exp(d) s = ReduceSum(e, i) y = Div(e, s) }",
            "agraph (float[a,b,c] x) => (float[a,b,c] y) { y = Softmax <axis = 1> (x) }",
        ),
    )


class LogSoftmaxExpPattern(_SoftmaxFormula):
    """d - Log(sum of Exp(d)) with d = x - max x along an axis → LogSoftmax(x)

    What: one operator instead of six.
    Why: measured 1.8 times faster on onnxruntime's CPU provider.
    Refuses when:
    1. maximum and sum are not taken along one and the same axis.
    2. the provider has no kernel of LogSoftmax for the type.
    3. the numbers have 64 bits: onnxruntime's LogSoftmax gives -inf then where the operators give NaN.
    """

    operator = "LogSoftmax"

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        axes = g.capture("axes", lambda value: len(value) == 1)  # (1)
        distance = g.op.Sub(x, g.op.ReduceMax(x, axes=axes))
        return g.op.Sub(distance, g.op.Log(g.op.ReduceSum(g.op.Exp(distance), axes=axes)))

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        if g.try_infer_type(m.x) == TensorProto.DOUBLE:  # (3)
            return self.none(m.nodes[-1], msg="LogSoftmax of 64 bits treats infinities in another way")
        return super().validate_mapping(g, m)

    examples = (
        Example(
            "agraph (float[a,b] x) => (float[a,b] y) <int64[1] i = {-1}> "
            "{ m = ReduceMax(x, i) d = Sub(x, m) e = Exp(d) s = ReduceSum(e, i) l = Log(s) y = Sub(d, l) }",
            "agraph (float[a,b] x) => (float[a,b] y) { y = LogSoftmax <axis = -1> (x) }",
        ),
    )
