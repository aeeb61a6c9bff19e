from typing import Any

from xoptim.match import Example, GraphView, Match, PatternBuilder, PatternRewriter
from xoptim.match.trace import Optional, Symbol

from .._activations import PARAMETERS
from .._shapes import same_dims
from ._lowering import _Lowering


class LowerFusedConvPattern(_Lowering):
    """com.microsoft.FusedConv(x, w, b, z, activation="Relu") → Relu(Conv(x, w, b) + z)

    What: writes the standard operators. The same for every activation that the operator has.
    Why: only ONNX Runtime's own providers run it.
    Refuses when:
    1. the activation is not known, or has another number of parameters.
    2. a tensor z is added that is not known to have the shape of the convolution.
    """

    min_opset = 7
    derives = ("activation", "parameters", "convolution")

    def match_pattern(
        self, g: PatternBuilder, x: Symbol, w: Symbol, b: Optional, z: Optional
    ) -> Symbol:
        return g.op.FusedConv(x, w, b, z, domain="com.microsoft", attributes=g.capture("written"))

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        written = dict(m.written)
        activation = written.pop("activation", "")
        values = written.pop("activation_params", [])
        names = PARAMETERS.get(activation, ()) if activation else ()
        if (activation and activation not in PARAMETERS) or len(values) != len(names):  # (1)
            return self.none(m.nodes[0], msg="the activation or its parameters are unknown")
        if m.z:  # (2)
            operands = [m.x, m.w, m.b] if m.b else [m.x, m.w]
            convolved = g.infer(g.make_node("Conv", operands, **written))[0].shape
            if not same_dims(convolved, g.try_infer_shape(m.z)):
                return self.none(
                    m.nodes[0], msg="the added tensor may not have the shape of the convolution"
                )
        parameters = dict(zip(names, values, strict=True))
        return m.derive(activation=activation, parameters=parameters, convolution=written)

    def apply_pattern(self, g: PatternRewriter, x: str, w: str, b: str, z: str, **m: Any) -> str:
        result = g.op.Conv(x, w, b or None, **m["convolution"])
        total = g.op.Add(result, z) if z else result
        return (
            str(getattr(g.op, m["activation"])(total, **m["parameters"]))
            if m["activation"]
            else total
        )

    _start = "agraph (float[n,2,h] x, float[3,2,1] w, float[3] b"
    examples = Example.pairs(
        f"{_start}, float[n,3,h] z) => (float[n,3,h] y) "
        '{ y = com.microsoft.FusedConv <strides = [1], activation = "Relu"> (x, w, b, z) }',
        "{ a = Conv <strides = [1]> (x, w, b) c = Add(a, z) y = Relu(c) }",
        f"{_start}) => (float[n,3,h] y) {{ y = com.microsoft.FusedConv "
        '<activation = "HardSigmoid", activation_params = [0.25, 0.5]> (x, w) }',
        "{ a = Conv(x, w) y = HardSigmoid <alpha = 0.25, beta = 0.5> (a) }",
        f"{_start}) => (float[n,3,h] y) {{ y = com.microsoft.FusedConv "
        '<activation = "Clip", activation_params = [0.0, 6.0]> (x, w, b) }',
        "<float a = {0}, float c = {6}> { d = Conv(x, w, b) y = Clip(d, a, c) }",
    )
