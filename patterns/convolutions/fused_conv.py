from typing import Any

from xoptim.match import Example

from .._activations import _FusedActivation


class FusedConvPattern(_FusedActivation):
    """Relu(Conv(x, w, b)) → com.microsoft.FusedConv(x, w, b, activation="Relu")

    What: fuses the activation: Relu, LeakyRelu, Sigmoid, Tanh, HardSigmoid, or Clip with constant
    or absent bounds.
    Why: saves one pass over the result if ORT graph optimizations are disabled. If they are
    enabled, onnxruntime writes the same operator itself. (An Add before the activation is not
    fused, although FusedConv has an operand for it: without the NCHWc layout, it takes 1.26 of the
    time.)
    """

    operator = "Conv"
    activations = ("Relu", "LeakyRelu", "Sigmoid", "Tanh", "HardSigmoid", "Clip")

    def parameters(self, values: dict[str, float]) -> dict[str, Any]:
        return {"activation_params": list(values.values())} if values else {}

    _start = "agraph (float[n,2,h] x, float[3,2,1] w, float[3] b) => (float[n,3,h] y)"
    examples = Example.pairs(
        f"{_start} {{ t = Conv <strides = [1]> (x, w, b) y = Relu(t) }}",
        '{ y = com.microsoft.FusedConv <strides = [1], activation = "Relu"> (x, w, b) }',
        f"{_start} <float low = {{0}}, float high = {{6}}> {{ t = Conv(x, w) "
        "y = Clip(t, low, high) }",
        '{ y = com.microsoft.FusedConv <activation = "Clip", activation_params = [0.0, 6.0]> (x,'
        " w) }",
        f"{_start} <float high = {{6}}> {{ t = Conv(x, w) y = Clip(t, , high) }}",
        '{ y = com.microsoft.FusedConv <activation = "Clip", activation_params = '
        "[-3.4028234663852886e38, 6.0]> (x, w) }",
    )
