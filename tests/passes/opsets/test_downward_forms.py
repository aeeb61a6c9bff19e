import numpy as np
import pytest

from tests.passes.opsets.lowered import check, reason
from tests.passes.opsets.raised import F32, numbers

X = {"x": numbers(2, 3, 4)}


@pytest.mark.parametrize("name", ["Softmax", "LogSoftmax", "Hardmax"])
def test_one_axis(name: str) -> None:
    text = "agraph (float[2,3,4] x) => (float[2,3,4] y) { y = NAME <axis = 1> (x) }"
    text = text.replace("NAME", name)
    assert check(text, 13, 12, X) == ["Transpose", name, "Transpose"]
    assert check(text, 13, 9, X) == ["Transpose", name, "Transpose"]
    assert check(text.replace("= 1", "= 2"), 13, 12, X) == [name]
    assert check(text.replace(" <axis = 1>", ""), 13, 12, X) == [name]
    thin = text.replace("[2,3,4]", "[2,3,1]")
    assert check(thin, 13, 12, {"x": numbers(2, 3, 1)}) == [name]
    assert "rank" in reason(text.replace("(float[2,3,4] x)", "(float[] x)"), 13, 12)


def test_parts_of_a_shape() -> None:
    for call in (
        "Shape <start = 1> (x)",
        "Shape <start = -2, end = -1> (x)",
        "Shape <end = 2> (x)",
    ):
        text = f"agraph (float[a,b,c] x) => (int64[n] y) {{ y = {call} }}"
        for target in (14, 9):
            assert check(text, 15, target, X) == ["Shape", "Slice"]
    text = "agraph (float[a,b,c] x) => (int64[n] y) { y = Shape (x) }"
    assert check(text, 15, 13, X) == ["Shape"]


def test_zeros_in_a_shape() -> None:
    text = (
        "agraph (float[2,3,4] x) => (float[a,b] y) <int64[2] s = {6, 4}> { "
        "y = Reshape <allowzero = 1> (x, s) }"
    )
    assert check(text, 14, 13, X) == ["Reshape"]
    assert "allowzero" in reason(text.replace("{6, 4}", "{0, 4}"), 14, 13)
    computed = """agraph (float[a,3,4] x) => (float[c,d] y) <int64[1] i = {0}, int64[1] m = {12}>
    { s = Shape (x) t = Gather (s, i) u = Concat <axis = 0> (t, m)
      y = Reshape <allowzero = 1> (x, u) }"""
    assert check(computed, 14, 13, X)[-1] == "Reshape", "the size of an axis, at its place"
    moved = computed.replace("(t, m)", "(m, t)")
    assert "allowzero" in reason(moved, 14, 13)
    rest = moved.replace("m = {12}", "m = {-1}")
    assert check(rest, 14, 13, X)[-1] == "Reshape", "a 0 next to -1 is an error"


def test_scatters() -> None:
    text = (
        "agraph (float[2,3] x, int64[1,2] i, float[1,2] u) => (float[2,3] y) { "
        "y = ScatterElements <axis = -1> (x, i, u) }"
    )
    feeds = {"x": numbers(2, 3), "i": np.array([[2, 0]]), "u": numbers(1, 2, seed=1)}
    assert check(text, 18, 13, feeds) == ["ScatterElements"]
    assert check(text, 18, 10, feeds) == ["Scatter"]
    added = text.replace("axis = -1", 'axis = -1, reduction = "add"')
    assert check(added, 18, 16, feeds) == ["ScatterElements"]
    assert " reduction " in reason(added, 18, 13)
    assert "reduction='max'" in reason(added.replace('"add"', '"max"'), 18, 16)


def test_a_third_operand() -> None:
    text = "agraph (float[2,3] x, float[3,2] w) => (float[2,2] y) { y = Gemm (x, w) }"
    assert check(text, 13, 9, {"x": numbers(2, 3), "w": numbers(3, 2)}) == ["Gemm"]


def test_negative_indices() -> None:
    text = (
        "agraph (float[2,3] x) => (float[2,2] y) <int64[2] i = {-1, 0}> { "
        "y = Gather <axis = 1> (x, i) }"
    )
    assert check(text, 13, 9, {"x": numbers(2, 3)}) == ["Gather"]
    given = "agraph (float[2,3] x, int32[2] i) => (float[2,2] y) { y = Gather <axis = 1> (x, i) }"
    feeds = {"x": numbers(2, 3), "i": np.array([-1, 0], np.int32)}
    assert check(given, 13, 9, feeds)[-2:] == ["Where", "Gather"]
    assert "negative" in reason(given, 13, 8)


def test_operands_that_are_broadcast() -> None:
    text = "agraph (float[2,3] x, float[3] z) => (float[2,3] y) { y = Sum (x, z, x) }"
    feeds = {"x": numbers(2, 3), "z": numbers(3)}
    assert check(text, 8, 7, feeds) == ["Add", "Add"]
    assert check(
        text.replace("float[3] z", "float[2,3] z"), 8, 7, feeds | {"z": numbers(2, 3)}
    ) == ["Sum"]
    assert "broadcast" in reason(text.replace("Sum", "Max"), 8, 7)


def test_types_of_casts() -> None:
    text = "agraph (float[2] x, int64[1] t) => (int64[2] y) { y = CastLike (x, t) }"
    feeds = {"x": np.array([1.5, -2], F32), "t": np.array([0])}
    assert check(text, 19, 13, feeds) == ["Cast"]
    text = "agraph (float[2] x) => (float16[2] y) { y = Cast <to = 10, saturate = 1> (x) }"
    assert check(text, 19, 13, {"x": np.array([1.5, -2], F32)}) == ["Cast"]
    text = "agraph (float[2] x) => (float8e4m3fn[2] y) { y = Cast <to = 17> (x) }"
    assert "result of type tensor(float8e4m3fn)" in reason(text, 19, 18)


def test_repeated_numbers() -> None:
    text = (
        "agraph (int64[2] s) => (float[a,b] y) { y = ConstantOfShape <value = float[1] {2.5}> (s) }"
    )
    assert check(text, 9, 8, {"s": np.array([2, 3])}) == ["Expand"]


def test_training() -> None:
    text = (
        "agraph (float[2,3,4] x, float[3] s, float[3] b, float[3] m, float[3] v) "
        "=> (float[2,3,4] y) { y = BatchNormalization (x, s, b, m, v) }"
    )
    feeds = X | {name: np.abs(numbers(3, seed=place)) for place, name in enumerate("sbmv")}
    for target in (13, 8):
        assert check(text, 15, target, feeds) == ["BatchNormalization"]
    training = text.replace("y = Batch", "y, a, c = Batch").replace(
        "(x, s, b", "<training_mode = 1> (x, s, b"
    )
    assert "training_mode" in reason(training, 15, 13)


def test_remainders() -> None:
    text = "agraph (float[2] x) => (float[2] y) { y = Mod <fmod = 1> (x, x) }"
    assert check(text, 28, 13, {"x": np.array([1.5, -2], F32)}) == ["Mod"]
    assert "fmod=0" in reason(text.replace(" <fmod = 1>", ""), 28, 13)


QUANTIZE = (
    "agraph (float[2,3] x) => (int8[2,3] y) <float s = {0.5}> { "
    "y = QuantizeLinear <output_dtype = 3> (x, s) }"
)


def test_types_of_quantized_numbers() -> None:
    feeds = {"x": numbers(2, 3)}
    for target in (19, 13, 10):
        assert check(QUANTIZE, 23, target, feeds) == ["QuantizeLinear"]
    short = QUANTIZE.replace("int8[2,3] y", "int16[2,3] y").replace("= 3>", "= 5>")
    assert "tensor(int16)" in reason(short, 23, 19)
    precise = QUANTIZE.replace("= 3>", "= 3, precision = 11>")
    assert "(precision)" in reason(precise, 23, 21)


def test_scales_of_an_axis() -> None:
    text = (
        "agraph (int8[2,3] x) => (float[2,3] y) <float[3] s = {0.5, 1, 2}> { "
        "y = DequantizeLinear <axis = -1> (x, s) }"
    )
    assert check(text, 23, 13, {"x": np.array([[1, 2, 3], [-1, -2, -3]], np.int8)}) == [
        "DequantizeLinear"
    ]
    assert "one scale" in reason(text, 23, 12)
    blocked = text.replace("float[3] s = {0.5, 1, 2}", "float[2,1] s = {0.5, 1}")
    assert "block_size" in reason(blocked.replace("axis = -1", "axis = 1, block_size = 3"), 23, 19)
