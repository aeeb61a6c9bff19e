"""Convolutions and products that compute an activation on the way, by operators of onnxruntime."""

from collections.abc import Mapping
from typing import Any, ClassVar, Final

from xoptim.match import EasyPatternOptimization, Example, GraphView, Match, PatternBuilder, PatternRewriter, runs
from xoptim.match.trace import Optional, Symbol

PARAMETERS: Final[Mapping[str, tuple[str, ...]]] = {
    **dict.fromkeys(("Relu", "Sigmoid", "Tanh", "Softplus", "Softsign"), ()),
    **dict.fromkeys(("LeakyRelu", "Elu", "ThresholdedRelu"), ("alpha",)),
    "HardSigmoid": ("alpha", "beta"),
    "Selu": ("alpha", "gamma"),
    "Clip": ("min", "max"),
}
"""The attributes of each activation, in the order in which a fused operator takes them."""


class _FusedActivation(EasyPatternOptimization):
    """An `operator` of two or three operands and one of several `activations`, as one operator.

    Refuses when:
    1. a parameter of the activation is not known.
    2. the provider has no kernel for the type.
    """

    phase = "target"
    priority = 5
    min_opset = 7
    providers = ("cpu",)
    produces = ("com.microsoft",)
    tags = ("onnxruntime",)
    operator: ClassVar[str]
    activations: ClassVar[tuple[str, ...]]

    def match_pattern(self, g: PatternBuilder, a: Symbol, b: Symbol, c: Optional) -> Symbol:
        name = g.choice("activation", *self.activations)
        captured = {attribute: g.capture(attribute, optional=True) for attribute in PARAMETERS[name]}
        result: Symbol = getattr(g.op, name)(getattr(g.op, self.operator)(a, b, c, attributes=g.capture("given")), **captured)
        return result

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        first, second = m.nodes
        names = PARAMETERS[m.activation]
        values = [m[name] if m.get(name) is not None else g.get_attribute(second, name) for name in names]
        if not all(isinstance(value, (int, float)) for value in values):  # (1)
            return self.none(second, msg="a parameter of the activation is not known")
        if not runs(g, f"Fused{self.operator}", m.a, "com.microsoft"):  # (2)
            return self.none(first, msg="the fused operator has no kernel for the type")
        parameters = self.parameters(dict(zip(names, map(float, values), strict=True)))
        return m.derive(written={**m.given, "activation": m.activation, **parameters})

    def parameters(self, values: dict[str, float]) -> dict[str, Any]:
        """The parameters of an activation as attributes of the fused operator."""
        raise NotImplementedError

    def apply_pattern(self, g: PatternRewriter, a: str, b: str, c: str, written: dict[str, Any]) -> str:
        return str(getattr(g.op, f"Fused{self.operator}")(a, b, c, domain="com.microsoft", **written))


class FusedConvPattern(_FusedActivation):
    """Relu(Conv(x, w, b)) → com.microsoft.FusedConv(x, w, b, activation="Relu")

    What: the same for LeakyRelu, Sigmoid, Tanh, HardSigmoid, and Clip between two numbers.
    Why: one pass over the result less where onnxruntime's own optimizer is off; otherwise it makes the same operator. (A sum in
    between is not fused, although the operator has an operand for it: onnxruntime does not change the layout of such a
    convolution, which was measured to take 1.26 of the time.)
    """

    operator = "Conv"
    activations = ("Relu", "LeakyRelu", "Sigmoid", "Tanh", "HardSigmoid", "Clip")

    def parameters(self, values: dict[str, float]) -> dict[str, Any]:
        """One list."""
        return {"activation_params": list(values.values())} if values else {}

    _start = "agraph (float[n,2,h] x, float[3,2,1] w, float[3] b) => (float[n,3,h] y)"
    examples = Example.pairs(
        f"{_start} {{ t = Conv <strides = [1]> (x, w, b) y = Relu(t) }}",
        '{ y = com.microsoft.FusedConv <strides = [1], activation = "Relu"> (x, w, b) }',
        f"{_start} <float low = {{0}}, float high = {{6}}> {{ t = Conv(x, w) y = Clip(t, low, high) }}",
        '{ y = com.microsoft.FusedConv <activation = "Clip", activation_params = [0.0, 6.0]> (x, w) }',
    )


class FusedGemmPattern(_FusedActivation):
    """Relu(Gemm(a, b, c)) → com.microsoft.FusedGemm(a, b, c, activation="Relu")

    What: the same for LeakyRelu, Elu, Selu, Sigmoid, Tanh, HardSigmoid, Softplus, Softsign and ThresholdedRelu.
    Why: one node less where onnxruntime's own optimizer is off; otherwise it makes the same operator.
    """

    exactness = "rounding"
    operator = "Gemm"
    activations = tuple(name for name in PARAMETERS if name != "Clip")

    def parameters(self, values: dict[str, float]) -> dict[str, Any]:
        """An attribute each."""
        return {f"activation_{name}": value for name, value in values.items()}

    _start = "agraph (float[n,4] x, float[3,4] w, float[3] b) => (float[n,3] y)"
    examples = Example.pairs(
        f"{_start} {{ t = Gemm <transB = 1> (x, w, b) y = Relu(t) }}",
        '{ y = com.microsoft.FusedGemm <transB = 1, activation = "Relu"> (x, w, b) }',
        f"{_start} {{ t = Gemm <transB = 1> (x, w) y = LeakyRelu <alpha = 0.25> (t) }}",
        '{ y = com.microsoft.FusedGemm <transB = 1, activation = "LeakyRelu", activation_alpha = 0.25> (x, w) }',
    )
