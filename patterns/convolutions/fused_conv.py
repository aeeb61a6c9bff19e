"""A convolution followed by an activation, as one operator of onnxruntime."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from xoptim.match import EasyPatternOptimization, Example, GraphView, Match, Optional, PatternBuilder, PatternRewriter, Symbol

from .._activations import activation, parameters_of
from .._kernels import runs

_ACTIVATIONS: Final = ("Relu", "LeakyRelu", "Sigmoid", "Tanh", "HardSigmoid", "Clip")


class FusedConvPattern(EasyPatternOptimization):
    """Relu(Conv(x, w, b)) → com.microsoft.FusedConv(x, w, b, activation="Relu")

    What: the same for LeakyRelu, Sigmoid, Tanh, HardSigmoid, and Clip between two numbers.
    Why: one pass over the result less where onnxruntime's own optimizer is off; otherwise it makes the same operator. (A sum in
    between is not fused, although the operator has an operand for it: onnxruntime does not change the layout of such a
    convolution, which was measured to take 1.26 of the time.)
    Refuses when:
    1. a parameter of the activation is not known.
    2. the provider has no kernel for the type.
    """

    phase = "target"
    priority = 5
    exactness = "exact"
    min_opset = 7
    providers = ("cpu",)
    produces = ("com.microsoft",)
    tags = ("onnxruntime",)

    def match_pattern(self, g: PatternBuilder, x: Symbol, w: Symbol, b: Optional) -> Symbol:
        """One variant for each activation."""
        return activation(g, g.op.Conv(x, w, b, attributes=g.capture("attributes")), _ACTIVATIONS)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        """Find the parameters."""
        parameters = parameters_of(g, m)
        if parameters is None:  # (1)
            return self.none(m.nodes[1], msg="a parameter of the activation is not known")
        if not runs(g, "FusedConv", m.x, "com.microsoft"):  # (2)
            return self.none(m.nodes[0], msg="FusedConv has no kernel for the type")
        return m.derive(parameters=parameters)

    def apply_pattern(
        self, g: PatternRewriter, x: str, w: str, b: str, attributes: dict[str, Any], activation: str, parameters: list[float]
    ) -> str:
        """The parameters are one list."""
        more: dict[str, Any] = {"activation": activation, **({"activation_params": parameters} if parameters else {})}
        return g.op.FusedConv(x, w, b, domain="com.microsoft", **attributes, **more)

    @classmethod
    def examples(cls) -> Sequence[Example]:
        """Without and with parameters."""
        start = "agraph (float[n,2,h] x, float[3,2,1] w, float[3] b) => (float[n,3,h] y)"
        return (
            Example(
                f"{start} {{ t = Conv <strides = [1]> (x, w, b) y = Relu(t) }}",
                f'{start} {{ y = com.microsoft.FusedConv <strides = [1], activation = "Relu"> (x, w, b) }}',
                domains=(("com.microsoft", 1),),
            ),
            Example(
                f"{start} <float low = {{0}}, float high = {{6}}> {{ t = Conv(x, w) y = Clip(t, low, high) }}",
                f'{start} {{ y = com.microsoft.FusedConv <activation = "Clip", activation_params = [0.0, 6.0]> (x, w) }}',
                domains=(("com.microsoft", 1),),
            ),
        )
