from xoptim.match import Example

from ._on_integers import _OnIntegers


class QLinearPattern(_OnIntegers):
    """QuantizeLinear(Add(DequantizeLinear(x), DequantizeLinear(y))) → com.microsoft.QLinearAdd(x, y)

    What: computes with the integers. The same for Conv, MatMul, Mul and GlobalAveragePool. It is approximate: where a
    result lies next to the middle between two integers, the rounding of the original's floats decides which one it becomes, so
    that a result may differ by one, which is more than rounding. (onnxruntime forms the same operators when it loads a model,
    unless its optimizations are off. Without instructions for products of 8 bits, it saturates sums of two of uint8 and int8.)
    Why: without those optimizations, one thread takes 0.24 of the time for a resnet50 (and gives, bit for bit, what it gives
    with them), 0.17 to 0.27 for a product, 0.27 for Conv, 0.36 for Add, 0.45 for Mul, 0.31 for GlobalAveragePool; but 2.96 for
    AveragePool, which is left out.
    Refuses when:
    1. something else reads the result before it is quantized, or an operand is not dequantized.
    2. a parameter is not constant or belongs to blocks, a scale is not a positive normal number of 32 bits, or scales are so
       far apart that the kernels lose digits.
    3. the types of the integers have no kernel.
    4. an attribute has no counterpart.
    5. tensors have a scale for each channel, or weights have one along another axis or different zero points.
    6. the bias is not a constant of 32-bit integers whose scale is the product of the scales of tensor and weights.
    7. sums might exceed 32 bits, or the number of terms is not known.
    """

    exactness = "approximate"
    near = ("Add", "Conv", "GlobalAveragePool", "MatMul", "Mul")

    _stored = "float s = {0.0987654}, float t = {0.3141593}, float r = {0.7182818}, uint8 u = {128}, uint8 v = {3}"
    _two = f"agraph (uint8[n,4] x, uint8[n,4] y) => (uint8[n,4] z) <{_stored}>"
    _product = f"agraph (int8[n,2] x) => (int8[n,1] z) <int8[2,1] w = {{5, -7}}, int8 o = {{1}}, int8 e = {{0}}, {_stored}>"
    _images = (
        "agraph (uint8[n,1,4] x) => (uint8[n,2,4] z) <int8[2,1,1] w = {5, -7}, float s = {0.5}, float[2] t = {0.26, 0.13}, "
        "float[2] st = {0.13, 0.065}, int8[2] o = {0, 0}, uint8 u = {9}, int32[2] b = {30, -4}, float r = {2.71828}, "
        "uint8 v = {99}>"
    )
    examples = Example.pairs(
        f"{_two} {{ a = DequantizeLinear(x, s, u) b = DequantizeLinear(y, t, v) c = Add(a, b) z = QuantizeLinear(c, r, u) }}",
        f"{_two} {{ z = com.microsoft.QLinearAdd(x, s, u, y, t, v, r, u) }}",
        f"{_images} {{ a = DequantizeLinear(x, s, u) k = DequantizeLinear <axis = 0> (w, t, o) "
        "d = DequantizeLinear <axis = 0> (b, st) c = Conv(a, k, d) z = QuantizeLinear(c, r, v) }",
        f"{_images} {{ z = QLinearConv(x, s, u, w, t, o, r, v, b) }}",
        f"{_product} {{ a = DequantizeLinear(x, s) b = DequantizeLinear(w, t) c = MatMul(a, b) z = QuantizeLinear(c, r, o) }}",
        f"{_product} {{ z = QLinearMatMul(x, s, e, w, t, e, r, o) }}",
    )
