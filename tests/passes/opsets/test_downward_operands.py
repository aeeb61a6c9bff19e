import re

import numpy as np
import pytest

from tests.passes.opsets.lowered import check, reason
from tests.passes.opsets.raised import F32, numbers
from xoptim.passes.opsets.downward_operands import counted_from_start

X = {"x": numbers(2, 4)}


def of(call: str, result: str = "float[c,d] y", constants: str = "") -> str:
    """A model of one call on a matrix."""
    return f"agraph (float[2,4] x) => ({result}) {constants} {{ y = {call} }}"


@pytest.mark.parametrize("name", ["ReduceSum", "ReduceMean", "ReduceL2", "ReduceLogSumExp"])
@pytest.mark.parametrize("target", [17, 13, 11])
def test_axes_of_reductions(name: str, target: int) -> None:
    text = of(f"{name} (x, i)", constants="<int64[1] i = {-1}>")
    assert check(text, 18, target, X) == [name]
    assert check(of(f"{name} (x)"), 18, target, X) == [name]


def test_a_reduction_of_no_axis() -> None:
    assert check(of("ReduceMax <noop_with_empty_axes = 1> (x)"), 18, 17, X) == ["Identity"]
    text = of("ReduceSumSquare <noop_with_empty_axes = 1> (x)")
    assert "noop_with_empty_axes" in reason(text, 18, 17)
    text = of("ReduceSumSquare <noop_with_empty_axes = 1> (x, i)", constants="<int64[1] i = {0}>")
    assert check(text, 18, 17, X) == ["ReduceSumSquare"]


def test_an_operand_that_is_computed() -> None:
    text = "agraph (float[2,4] x, int64[1] i) => (float[c,d] y) { y = ReduceMean (x, i) }"
    assert re.search("ReduceMean .*'y' .* 13: .* axes .*run time", reason(text, 18, 13))
    assert reason(text.replace("{ y", "{ [m] y"), 18, 13).startswith("node 'm' (ReduceMean) ")


def test_squeeze_and_unsqueeze() -> None:
    constants = "<int64[2] i = {-1, 0}>"
    text = (
        f"agraph (float[2,4] x) => (float[2,4] y) {constants} {{ z = Unsqueeze (x, i) "
        "y = Squeeze (z, i) }"
    )
    for target in (12, 11, 9, 7):
        assert check(text, 13, target, X) == ["Unsqueeze", "Squeeze"]


def test_parts() -> None:
    outputs = "float[a,b] y, float[c,d] z, float[e,f] w"
    for call in ("Split <axis = 1, num_outputs = 3> (x)", "Split <axis = -1> (x, s)"):
        text = (
            f"agraph (float[2,4] x) => ({outputs}) <int64[3] s = {{1, 2, 1}}> {{ "
            f"y, z, w = {call} }}"
        )
        for target in (17, 13, 11, 10):
            assert check(text, 18, target, X) == ["Split"]
    text = (
        f"agraph (float[2,n] x) => ({outputs}) {{ "
        "y, z, w = Split <axis = 1, num_outputs = 3> (x) }"
    )
    for length in (3, 4, 7):
        assert check(text, 18, 17, {"x": numbers(2, length)})[-1] == "Split"
    assert "operand split" in reason(text, 18, 12)


def test_slices() -> None:
    constants = "<int64[1] s = {1}, int64[1] e = {3}, int64[1] i = {-1}, int64[1] k = {2}>"
    assert check(of("Slice (x, s, e, i)", constants=constants), 13, 9, X) == ["Slice"]
    text = of("Slice (x, s, e, i, k)", constants=constants)
    assert check(text, 13, 10, X) == ["Slice"]
    assert "steps" in reason(text, 13, 9)
    text = of("Slice (x, e, s, i, k)", constants=constants.replace("{2}", "{-1}"))
    assert "negative step" in reason(text, 13, 10)
    open_rank = of("Slice (z, s, e, i)", constants=constants).replace("float[2,4] x", "float[] x")
    assert "rank" in reason(open_rank.replace("(z", "(x"), 13, 10)


def test_the_largest_and_the_smallest() -> None:
    for largest, expected in ((1, ["TopK"]), (0, ["Neg", "TopK", "Neg"])):
        call = f"TopK <largest = {largest}> (x, k)"
        text = of(call, constants="<int64[1] k = {2}>", result="float[c,d] y, int64[c,d] z")
        text = text.replace("y = TopK", "y, z = TopK")
        assert check(text, 11, 10, X) == expected
        assert check(text, 11, 9, X) == expected


def test_bounds() -> None:
    constants = "<float l = {-0.5}, float h = {0.25}>"
    feeds = {"x": np.array([[-np.inf, -1, 0, 0.2], [0.3, 1, np.inf, 2]], F32)}
    for call in ("Clip (x, l, h)", "Clip (x, l)", "Clip (x, , h)", "Clip (x)"):
        for target in (10, 7):
            assert check(of(call, constants=constants), 13, target, feeds) == ["Clip"]
    text = "agraph (float[2,4] x, float l) => (float[c,d] y) { y = Clip (x, l) }"
    assert check(text, 13, 10, feeds | {"l": np.array(-0.5, F32)}) == ["Max", "Min"]
    text = "agraph (float[2,4] x, float l) => (float[c,d] y) { y = Clip (x, l, l) }"
    assert check(text, 13, 10, feeds | {"l": np.array(-0.5, F32)}) == ["Max", "Min"]
    assert " bound " in reason(text, 13, 7)
    integers = "agraph (int32[2] x) => (int32[2] y) { y = Clip (x) }"
    assert "tensor(int32)" in reason(integers, 13, 11)


def test_pads() -> None:
    constants = "<int64[2] p = {1, 2}, float v = {0.5}, int64[1] i = {-1}>"
    text = of("Pad (x, p, v, i)", constants=constants)
    for target in (17, 11, 10):
        assert check(text, 18, target, X) == ["Pad"]
    given = (
        "agraph (float[2,4] x, int64[2] p) => (float[c,d] y) <int64[1] i = {-1}> { "
        "y = Pad (x, p, , i) }"
    )
    feeds = X | {"p": np.array([1, 2])}
    assert check(given, 18, 17, feeds) == ["ScatterElements", "Pad"]
    assert "operand pads" in reason(given, 18, 10)


def test_dropout() -> None:
    text = of("Dropout (x, r)", constants="<float r = {0.25}>")
    for target in (11, 9, 7):
        assert check(text, 13, target, X) == ["Dropout"]
    text = "agraph (float[2,4] x, bool t) => (float[c,d] y) { y = Dropout (x, , t) }"
    assert "training_mode" in reason(text, 13, 11)
    text = of("Dropout (x)", result="float[c,d] y, bool[c,d] m").replace("y =", "y, m =")
    assert " mask " in reason(text, 13, 11)


def test_the_axis_of_a_transform() -> None:
    text = "agraph (float[1,4,4,1] x) => (float[a,b,c,d] y) <int64 i = {1}> { y = DFT (x, , i) }"
    feeds = {"x": numbers(1, 4, 4, 1)}
    assert check(text, 20, 17, feeds) == ["DFT"]
    assert check(text.replace("DFT (x, , i)", "DFT (x)"), 20, 19, feeds) == ["DFT"]


def test_negative_axes() -> None:
    for call in ("Concat <axis = -1> (x, x)", "Flatten <axis = -1> (x)", "Softmax <axis = -1> (x)"):
        assert check(of(call), 11, 10, X) == [call.split()[0]]
    assert "rank" in reason(
        "agraph (float[] x) => (float[c,d] y) { y = Flatten <axis = -1> (x) }", 11, 10
    )
    assert counted_from_start([-1, 0], 3) == [2, 0]
    assert counted_from_start([1, 0], None) == [1, 0]


def test_operands_that_kernels_of_older_sets_refuse() -> None:
    text = of("Clip (x, l, h)", constants="<float l = {1}, float h = {-1}>")
    assert check(text, 13, 10, X) == ["Max", "Min"]
    assert "swapped" in reason(text, 13, 7)
    top = of("TopK (x, k)", "float[c,d] y, int64[e,f] z", "<int64[1] k = {0}>")
    assert "no elements" in reason(top.replace("y = TopK", "y, z = TopK"), 13, 9)


def test_a_pad_value_that_an_attribute_rounds() -> None:
    text = (
        "agraph (double[2] x) => (double[4] y) <int64[2] p = {1, 1}, double v = {0.1}> "
        "{ y = Pad (x, p, v) }"
    )
    assert "no number of float32" in reason(text, 13, 10)
    assert check(text.replace("0.1", "0.5"), 13, 10, {"x": np.ones(2)}) == ["Pad"]
