import pytest

from tests.proof.denotations.checking import check

_SCALES = "<float s = {0.3}, float t = {0.25}, float r = {0.125}, uint8 u = {3}, uint8 v = {7}, "
_SCALES += "int8 z = {-2}, float[3] p = {0.5, 0.25, 2}, int8[3] q = {1, -1, 0}, int8[3] o = {0}>"


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize(
    "node",
    [
        *("QuantizeLinear(x, s)", "QuantizeLinear(x, s, u)", "QuantizeLinear(x, s, z)"),
        *("QuantizeLinear(x, p, q)", "QuantizeLinear <axis = 1> (x, p, q)"),
    ],
)
def test_quantize_linear(node: str, *, exact: bool) -> None:
    dtype = "int8" if "z)" in node or "q)" in node else "uint8"
    check(f"(float[2,3] x) => ({dtype}[A,B] y) {_SCALES} {{ y = {node} }}", exact=exact)


def test_the_range_of_a_type() -> None:
    check(
        "(float[2,3] x) => (int8[A,B] y) <float s = {0.001}, int8 z = {5}> "
        "{ y = QuantizeLinear(x, s, z) }",
        exact=False,
    )


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize(
    "node",
    [
        *("DequantizeLinear(x, s)", "DequantizeLinear(x, s, z)"),
        *("DequantizeLinear(x, p, q)", "DequantizeLinear <axis = -1> (x, p)"),
    ],
)
def test_dequantize_linear(node: str, *, exact: bool) -> None:
    check(f"(int8[2,3] x) => (float[A,B] y) {_SCALES} {{ y = {node} }}", exact=exact)


@pytest.mark.parametrize("axis", [0, 1])
def test_blocks(axis: int) -> None:
    shape = "2,4" if axis == 0 else "4,2"
    check(
        f"(int8[4,4] x, float[{shape}] s, int8[{shape}] z) => (float[A,B] y) {{ "
        f"y = DequantizeLinear <axis = {axis}, block_size = 2> (x, s, z) }}",
        21,
        exact=False,
    )


def test_dynamic_quantization() -> None:
    check(
        "(float[2,2] x) => (uint8[A,B] y, float s, uint8 z) { y, s, z = DynamicQuantizeLinear(x) }",
        exact=False,
    )


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("operands", ["(a, b)", "(a, b, u)", "(a, b, u, z)", "(a, b, u, q)"])
def test_matmul_integer(operands: str, *, exact: bool) -> None:
    check(
        f"(uint8[2,4] a, int8[4,3] b) => (int32[A,B] y) {_SCALES} "
        f"{{ y = MatMulInteger {operands} }}",
        exact=exact,
    )


@pytest.mark.parametrize("settings", ["", "<pads = [1, 0, 0, 1]>", "<strides = [2, 1]>"])
def test_conv_integer(settings: str) -> None:
    check(
        f"(uint8[1,2,3,3] x, uint8[3,2,2,2] w) => (int32[A,B,C,D] y) {_SCALES} "
        f"{{ y = ConvInteger {settings} (x, w, u, v) }}"
    )


@pytest.mark.parametrize("operands", ["(a, s, u, b, t, z, r, v)", "(a, s, u, b, p, q, r, v)"])
def test_qlinear_matmul(operands: str) -> None:
    check(
        f"(uint8[2,4] a, int8[4,3] b) => (uint8[A,B] y) {_SCALES} "
        f"{{ y = QLinearMatMul {operands} }}",
        exact=False,
    )


@pytest.mark.parametrize(
    "operands",
    ["(x, s, u, w, t, z, r, v)", "(x, s, u, w, p, q, r, v)", "(x, s, u, w, t, z, r, v, b)"],
)
def test_qlinear_conv(operands: str) -> None:
    check(
        f"(uint8[1,2,3] x, int8[3,2,2] w, int32[3] b) => (uint8[A,B,C] y) {_SCALES} "
        f"{{ y = QLinearConv <pads = [1, 0]> {operands} }}",
        exact=False,
    )


@pytest.mark.parametrize(
    "node",
    [
        "QLinearAdd(x, s, u, w, t, v, r, u)",
        "QLinearMul(x, s, u, w, t, v, r, u)",
        "QLinearSigmoid(x, s, u, r, v)",
        "QLinearLeakyRelu <alpha = 0.25> (x, s, u, r, v)",
        "QLinearConcat <axis = 1> (r, v, x, s, u, w, t, v)",
    ],
)
def test_quantized_operators_of_onnxruntime(node: str) -> None:
    check(
        f"(uint8[2,3] x, uint8[2,3] w) => (uint8[A,B] y) {_SCALES} {{ y = com.microsoft.{node} }}",
        exact=False,
    )


def test_quantized_average() -> None:
    check(
        f"(uint8[1,2,3,3] x) => (uint8[A,B,C,D] y) {_SCALES} "
        "{ y = com.microsoft.QLinearGlobalAveragePool(x, s, u, r, v) }",
        exact=False,
    )


@pytest.mark.parametrize(
    "node",
    [
        "MatMulIntegerToFloat(a, b, s, t, u, z)",
        "MatMulIntegerToFloat(a, b, s, p, u, q, c)",
    ],
)
def test_matmul_integer_to_float(node: str) -> None:
    check(
        f"(uint8[2,4] a, int8[4,3] b, float[3] c) => (float[A,B] y) {_SCALES} "
        f"{{ y = com.microsoft.{node} }}",
        exact=False,
    )


@pytest.mark.parametrize("operands", ["(x, b, t)", "(x, b, p, q)", "(x, b, p, q, c)"])
def test_dynamic_quantize_matmul(operands: str) -> None:
    check(
        f"(float[2,2] x, int8[2,3] b, float[3] c) => (float[A,B] y) {_SCALES} "
        f"{{ y = com.microsoft.DynamicQuantizeMatMul {operands} }}",
        exact=False,
    )


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("operands", ["(x, w, s)", "(x, w, s, z)"])
def test_matmul_of_few_bits(bits: int, operands: str) -> None:
    count = 16 * bits // 8
    weights = ", ".join(str(37 * n % 256) for n in range(4 * count))
    zeros = 2 * 2 * bits // 8
    check(
        f"(float[1,32] x) => (float[A,B] y) <uint8[2,2,{count}] w = {{{weights}}}, "
        f"float[2,2] s = {{0.5, 0.25, 1, 2}}, uint8[{zeros}] z = "
        f"{{{', '.join(str(53 * n % 256) for n in range(1, zeros + 1))}}}> {{ "
        f"y = com.microsoft.MatMulNBits <K = 32, N = 2, bits = {bits}, block_size = 16> "
        f"{operands} }}",
        exact=False,
    )
