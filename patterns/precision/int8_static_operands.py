import numpy as np
from onnx import TensorProto

from xoptim.facts.operators import has_kernel
from xoptim.match import Example, GraphView, Match, PatternRewriter
from xoptim.match.quantization import LARGEST, QuantizationParameters, RangedPattern

from .._folding import Array, constant
from .._pairs import pair_scales
from ._matmul import INTEGERS, WEIGHTS, WeightedMatMul, _Int8MatMul, stored_weights
from ._quantization import bias_to_int32, columns_to_int8, is_quantizable, least_scales
from ._ranges import known_steps, quantized_tensor


class Int8StaticOperandsPattern(RangedPattern, _Int8MatMul):
    """MatMul(x, w) → MatMul(DequantizeLinear(QuantizeLinear(x)), DequantizeLinear(w8, s))

    What: quantizes both operands of a MatMul or Gemm with constant weights to 8 bits, with a static
    scale of x from samples. Weights have a scale for each column. A constant bias of a Gemm becomes
    int32: onnxruntime has no integer Gemm with a bias of another type. The result stays in float32.
    A following MatMul quantizes its operand itself.
    Why: NPU compilers, TensorRT and OpenVINO fuse integer MatMuls from this form only
    (docs/quantization.md). Weights take a quarter of the bytes.
    Refuses when:
    1. the weights are not a finite constant float32 matrix, or have fewer than 16 rows.
    2. x is transposed, or not known to be a matrix, or alpha or beta is set.
    3. the provider has no kernel of QuantizeLinear or DequantizeLinear.
    4. the range of x is unknown, a single point, or too large, or the result may overflow.
    """

    tags = ("static", "extra")
    operators = ("MatMul", "Gemm")
    anchors = (*operators, "com.microsoft::FusedMatMul")
    quantizes_result = False
    time = 0.25
    derives = ("matmul", "steps")

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        if super().validate_mapping(g, m) is None:
            return None
        node, name = m.nodes[0], m.nodes[0].input[0]
        steps = known_steps(g, self.observed, name)
        if steps is None:  # (4)
            return self.none(node, msg="the range of the tensor is unknown, or too large")
        largest = np.abs(constant(g, m.matmul.weights)).max(initial=0)
        if not float(steps.scale) * float(largest) < LARGEST:  # (4)
            return self.none(node, msg="a result may overflow float32")
        if not has_kernel(g.provider, "", "QuantizeLinear", TensorProto.FLOAT, g.main_opset):  # (3)
            return self.none(node, msg="no kernel of QuantizeLinear for float32")
        return m.derive(steps=steps)

    def apply_pattern(  # type: ignore[override]
        self,
        g: PatternRewriter,
        x: str,
        b: str,
        matmul: WeightedMatMul,
        steps: QuantizationParameters,
    ) -> str:
        rows = g.op.DequantizeLinear(*quantized_tensor(g, x, steps))
        bias = _bias(g, b, matmul, steps)
        if bias is None:
            y = g.op.MatMul(rows, self.weights(g, matmul))
            return g.op.Add(y, b) if b else y
        matrix = matmul.matrix(g)
        least = np.maximum(least_scales(bias, float(steps.scale)), pair_scales(g, matrix))
        numbers = columns_to_int8(matrix, least)
        weights = stored_weights(g, matmul, numbers)
        # onnxruntime fuses QGemm only if the weights have zero points.
        zeros = g.make_initializer("", np.zeros(matmul.columns, np.int8))
        sums = bias_to_int32(bias, numbers.scales * np.float64(steps.scale))
        integers = g.make_initializer("", sums.integers, source=b)
        scales = g.make_initializer("", sums.scales, source=f"{b}_scales")
        return g.op.Gemm(
            rows,
            g.op.DequantizeLinear(*weights, zeros, axis=1),
            g.op.DequantizeLinear(integers, scales, axis=0),
        )

    _head = "<float low = {-128}, float high = {127}"
    _read = "q = QuantizeLinear(c, one, z) d = DequantizeLinear(q, one, z)"
    _stored = (
        f"float one = {{1}}, uint8 z = {{128}}, int8[16,2] w = {{{INTEGERS}}}, "
        "float[2] s = {0.5, 0.25}, int8[2] o = {0, 0}>"
    )
    examples = (
        *Example.pairs(
            f"agraph (float[n,16] x) => (float[n,2] y) {_head}, float[16,2] w = {{{WEIGHTS}}}> "
            "{ c = Clip(x, low, high) y = MatMul(c, w) }",
            f"agraph (float[n,16] x) => (float[n,2] y) {_head}, {_stored} "
            f"{{ c = Clip(x, low, high) {_read} "
            "e = DequantizeLinear <axis = 1> (w, s) y = MatMul(d, e) }",
            f"agraph (float[n,16] x, float[2] b) => (float[n,2] y) {_head}, "
            f"float[16,2] w = {{{WEIGHTS}}}> "
            "{ c = Clip(x, low, high) y = Gemm(c, w, b) }",
            f"agraph (float[n,16] x, float[2] b) => (float[n,2] y) {_head}, {_stored} "
            f"{{ c = Clip(x, low, high) {_read} "
            "e = DequantizeLinear <axis = 1> (w, s) m = MatMul(d, e) y = Add(m, b) }",
            f"agraph (float[n,16] x) => (float[n,2] y) {_head}, float[16,2] w = {{{WEIGHTS}}}, "
            "float[2] b = {3, -2}> { c = Clip(x, low, high) y = Gemm(c, w, b) }",
            f"agraph (float[n,16] x) => (float[n,2] y) {_head}, int32[2] b = {{6, -8}}, "
            f"{_stored[:-1]}> {{ c = Clip(x, low, high) {_read} "
            "i = DequantizeLinear <axis = 0> (b, s) e = DequantizeLinear <axis = 1> (w, s, o) "
            "y = Gemm(d, e, i) }",
            opset=13,
            ranges=(("x", -128, 127),),
        ),
    )


def _bias(
    g: PatternRewriter, name: str, matmul: WeightedMatMul, steps: QuantizationParameters
) -> Array | None:
    """A constant bias with one value per column that int32 can represent, else ``None``."""
    if not name or not g.is_constant(name) or g.static_shape(name) != (matmul.columns,):
        return None
    bias = constant(g, name).astype(np.float64)
    largest = np.abs(matmul.matrix(g)).max(axis=0).astype(np.float64)
    smallest = largest[largest > 0].min(initial=np.inf) * float(steps.scale)
    return bias if is_quantizable(bias) and smallest > 1 / LARGEST else None
