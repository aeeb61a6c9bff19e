from typing import Any

from xoptim.match import Example, GraphView, Match, PatternBuilder, PatternRewriter
from xoptim.match.trace import Optional, Symbol

from .._activations import PARAMETERS
from ._lowering import _Lowering

_GEMM = ("alpha", "beta", "transA", "transB")


class LowerFusedGemmPattern(_Lowering):
    """com.microsoft.FusedGemm(a, b, c, activation="Relu") → Relu(Gemm(a, b, c))

    What: writes the standard operators. The same for every activation that the operator has.
    Why: only ONNX Runtime's own providers run it; OpenVINO accepts it and drops the activation.
    Refuses when:
    1. the activation or one of its parameters is not known.
    """

    derives = ("activation", "parameters", "attributes")

    def match_pattern(self, g: PatternBuilder, a: Symbol, b: Symbol, c: Optional) -> Symbol:
        return g.op.FusedGemm(a, b, c, domain="com.microsoft", attributes=g.capture("written"))

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        written = dict(m.written)
        activation = written.pop("activation", "")
        names = PARAMETERS.get(activation)
        if names is None:  # (1)
            return self.none(m.nodes[0], msg="the activation is unknown")
        values = {name: written.pop(f"activation_{name}", None) for name in names}
        given = {name: value for name, value in values.items() if value is not None}
        if not written.keys() <= set(_GEMM):  # (1)
            return self.none(m.nodes[0], msg="a parameter of the activation is unknown")
        return m.derive(activation=activation, parameters=given, attributes=written)

    def apply_pattern(
        self,
        g: PatternRewriter,
        a: str,
        b: str,
        c: str,
        activation: str,
        parameters: dict[str, Any],
        attributes: dict[str, Any],
    ) -> str:
        result = g.op.Gemm(a, b, c or None, **attributes)
        return str(getattr(g.op, activation)(result, **parameters))

    _start = "agraph (float[n,4] x, float[3,4] w, float[3] b) => (float[n,3] y)"
    examples = Example.pairs(
        f'{_start} {{ y = com.microsoft.FusedGemm <transB = 1, activation = "Relu"> (x, w, b) }}',
        "{ t = Gemm <transB = 1> (x, w, b) y = Relu(t) }",
        f'{_start} {{ y = com.microsoft.FusedGemm <transB = 1, activation = "LeakyRelu",'
        " activation_alpha = 0.25> (x, w) }",
        "{ t = Gemm <transB = 1> (x, w) y = LeakyRelu <alpha = 0.25> (t) }",
    )
