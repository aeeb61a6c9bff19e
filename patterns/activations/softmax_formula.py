"""Formulas of Softmax and of its logarithm."""

from onnx import TensorProto

from xoptim.facts.dtypes import FLOATS
from xoptim.match import Example, GraphView, Match, PatternBuilder, Symbol

from .one_operator import _OneOperator


class _SoftmaxFormula(_OneOperator):
    """The formula of an operator along one axis, which is captured as ``axes``."""

    min_opset = 13
    derives = ("attributes",)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        return m.derive(attributes={"axis": m.axes[0]})


class SoftmaxExpPattern(_SoftmaxFormula):
    """e / sum of e with e = Exp(x - max x) along an axis → Softmax(x)

    What: one operator instead of five.
    Why: measured 1.5 to 2.1 times faster on onnxruntime's CPU provider.
    Refuses when:
    1. maximum and sum are not along the same single axis.
    2. the provider has no kernel of Softmax for the type.
    """

    kernels = {"Softmax": "x"}  # (2)

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        axes = g.capture("axes", lambda value: len(value) == 1)  # (1)
        power = g.op.Exp(g.op.Sub(x, g.op.ReduceMax(x, axes=axes)))
        return g.op.Div(power, g.op.ReduceSum(power, axes=axes))

    examples = Example.only(
        "agraph (float[a,b,c] x) => (float[a,b,c] y) <int64[1] i = {1}> "
        "{ m = ReduceMax(x, i) d = Sub(x, m) e = Exp(d) s = ReduceSum(e, i) y = Div(e, s) }",
        "{ y = Softmax <axis = 1> (x) }",
    )


class LogSoftmaxExpPattern(_SoftmaxFormula):
    """d - Log(sum of Exp(d)) with d = x - max x along an axis → LogSoftmax(x)

    What: one operator instead of six.
    Why: measured 1.8 times faster on onnxruntime's CPU provider.
    Refuses when:
    1. maximum and sum are not along the same single axis.
    2. the provider has no kernel of LogSoftmax for the type.
    3. the type is double: onnxruntime's LogSoftmax then gives -inf where the operators give NaN.
    """

    operand_types = {"x": FLOATS - {TensorProto.DOUBLE}}  # (3)
    kernels = {"LogSoftmax": "x"}  # (2)

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        axes = g.capture("axes", lambda value: len(value) == 1)  # (1)
        distance = g.op.Sub(x, g.op.ReduceMax(x, axes=axes))
        return g.op.Sub(distance, g.op.Log(g.op.ReduceSum(g.op.Exp(distance), axes=axes)))

    examples = Example.only(
        "agraph (float[a,b] x) => (float[a,b] y) <int64[1] i = {-1}> { m = ReduceMax(x, i) "
        "d = Sub(x, m) e = Exp(d) s = ReduceSum(e, i) l = Log(s) y = Sub(d, l) }",
        "{ y = LogSoftmax <axis = -1> (x) }",
    )
