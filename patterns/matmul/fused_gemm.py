from typing import Any

from xoptim.match import Example

from .._activations import PARAMETERS, _FusedActivation


class FusedGemmPattern(_FusedActivation):
    """Relu(Gemm(a, b, c)) → com.microsoft.FusedGemm(a, b, c, activation="Relu")

    What: fuses the activation: Relu, LeakyRelu, Elu, Selu, Sigmoid, Tanh, HardSigmoid, Softplus,
    Softsign or ThresholdedRelu.
    Why: one node fewer if ORT graph optimizations are disabled. If they are enabled, onnxruntime
    writes the same operator itself.
    """

    exactness = "rounding"
    operator = "Gemm"
    activations = tuple(name for name in PARAMETERS if name != "Clip")

    def parameters(self, values: dict[str, float]) -> dict[str, Any]:
        return {f"activation_{name}": value for name, value in values.items()}

    _start = "agraph (float[n,4] x, float[3,4] w, float[3] b) => (float[n,3] y)"
    examples = Example.pairs(
        f"{_start} {{ t = Gemm <transB = 1> (x, w, b) y = Relu(t) }}",
        '{ y = com.microsoft.FusedGemm <transB = 1, activation = "Relu"> (x, w, b) }',
        f"{_start} {{ t = Gemm <transB = 1> (x, w) y = LeakyRelu <alpha = 0.25> (t) }}",
        '{ y = com.microsoft.FusedGemm <transB = 1, activation = "LeakyRelu", activation_alpha ='
        " 0.25> (x, w) }",
    )
