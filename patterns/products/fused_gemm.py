"""A product of matrices followed by an activation, as one operator of onnxruntime."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from xoptim.match import EasyPatternOptimization, Example, GraphView, Match, Optional, PatternBuilder, PatternRewriter, Symbol

from .._activations import PARAMETERS, activation, parameters_of
from .._kernels import runs

_ACTIVATIONS: Final = (
    *("Relu", "LeakyRelu", "Elu", "Selu", "Sigmoid", "Tanh", "HardSigmoid", "Softplus", "Softsign", "ThresholdedRelu"),
)


class FusedGemmPattern(EasyPatternOptimization):
    """Relu(Gemm(a, b, c)) → com.microsoft.FusedGemm(a, b, c, activation="Relu")

    What: the same for LeakyRelu, Elu, Selu, Sigmoid, Tanh, HardSigmoid, Softplus, Softsign and ThresholdedRelu.
    Why: one node less where onnxruntime's own optimizer is off; otherwise it makes the same operator.
    Refuses when:
    1. a parameter of the activation is not known.
    2. the provider has no kernel for the type.
    """

    phase = "target"
    priority = 5
    exactness = "rounding"
    min_opset = 7
    providers = ("cpu",)
    produces = ("com.microsoft",)
    tags = ("onnxruntime",)

    def match_pattern(self, g: PatternBuilder, a: Symbol, b: Symbol, c: Optional) -> Symbol:
        """One variant for each activation."""
        return activation(g, g.op.Gemm(a, b, c, attributes=g.capture("attributes")), _ACTIVATIONS)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        """Find the parameters."""
        parameters = parameters_of(g, m)
        if parameters is None:  # (1)
            return self.none(m.nodes[1], msg="a parameter of the activation is not known")
        if not runs(g, "FusedGemm", m.a, "com.microsoft"):  # (2)
            return self.none(m.nodes[0], msg="FusedGemm has no kernel for the type")
        names = (f"activation_{name}" for name in PARAMETERS[m.activation])
        return m.derive(parameters=dict(zip(names, parameters, strict=True)))

    def apply_pattern(
        self,
        g: PatternRewriter,
        a: str,
        b: str,
        c: str,
        attributes: dict[str, Any],
        activation: str,
        parameters: dict[str, float],
    ) -> str:
        """The parameters are attributes of their own."""
        return g.op.FusedGemm(a, b, c, domain="com.microsoft", **attributes, activation=activation, **parameters)

    @classmethod
    def examples(cls) -> Sequence[Example]:
        """Without and with parameters."""
        start = "agraph (float[n,4] x, float[3,4] w, float[3] b) => (float[n,3] y)"
        return (
            Example(
                f"{start} {{ t = Gemm <transB = 1> (x, w, b) y = Relu(t) }}",
                f'{start} {{ y = com.microsoft.FusedGemm <transB = 1, activation = "Relu"> (x, w, b) }}',
                domains=(("com.microsoft", 1),),
            ),
            Example(
                f"{start} {{ t = Gemm <transB = 1> (x, w) y = LeakyRelu <alpha = 0.25> (t) }}",
                f'{start} {{ y = com.microsoft.FusedGemm <transB = 1, activation = "LeakyRelu", '
                "activation_alpha = 0.25> (x, w) }",
                domains=(("com.microsoft", 1),),
            ),
        )
