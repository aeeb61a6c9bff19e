from typing import Any

import numpy as np
import pytest

from tests.passes.opsets.raised import F32, check, numbers, raised, reason
from tests.support import run
from xoptim.graph.export import export_model

MATRIX = "(float[a,b] x) => (float[c,d] y)"


def after(text: str, opset: int, feeds: dict[str, Any]) -> np.ndarray:
    """The result of a model of a set that onnxruntime does not run, after it is raised."""
    result: np.ndarray = run(export_model(raised(text, opset, 24)), feeds)[0]
    return result


def test_operands_to_overwrite() -> None:
    text = f"agraph {MATRIX} {{ y = Relu <consumed_inputs = [0]> (x) }}"
    assert (after(text, 5, {"x": numbers(2, 3)}) == np.maximum(numbers(2, 3), 0)).all()


@pytest.mark.parametrize("axis", [None, 1, -3])
def test_operands_aligned_at_an_axis(axis: int | None) -> None:
    x, b = numbers(2, 3, 4, 5), numbers(4, 5) if axis is None else numbers(3, 4)
    attributes = "broadcast = 1" + ("" if axis is None else f", axis = {axis}")
    shape = ",".join(map(str, b.shape))
    text = (
        f"agraph (float[2,3,4,5] x, float[{shape}] b) => (float[a,b,c,d] y) {{ "
        f"y = Add <{attributes}> (x, b) }}"
    )
    assert (after(text, 6, {"x": x, "b": b}) == x + (b if axis is None else b[:, :, None])).all()


def test_operands_aligned_at_an_axis_of_unknown_rank() -> None:
    text = """agraph (float[a] g, int64[n] s, float[3] b) => (float[a,b,c] y)
        { x = Reshape(g, s) y = Mul <broadcast = 1, axis = 1> (x, b) }"""
    assert "rank" in reason(text, 6, 7)


def test_slopes() -> None:
    x, s = numbers(2, 3, 4), numbers(3)
    text = "agraph (float[a,b,c] x, float[3] s) => (float[a,b,c] y) { y = PRelu (x, s) }"
    np.testing.assert_array_equal(
        after(text, 6, {"x": x, "s": s}), np.where(x < 0, s[:, None] * x, x)
    )
    older = run(export_model(raised(text, 6, 9)), {"x": x, "s": s})[0]
    np.testing.assert_array_equal(older, np.where(x < 0, s[:, None] * x, x))
    one = text.replace("float[3]", "float[1]")
    np.testing.assert_array_equal(after(one, 6, {"x": x, "s": s[:1]}), np.where(x < 0, s[0] * x, x))


def test_constants_of_selu() -> None:
    x = np.array([-1, 1], F32)
    given = after("agraph (float[a] x) => (float[a] y) { y = Selu (x) }", 1, {"x": x})
    np.testing.assert_allclose(given, [1.0507 * 1.6732 * (np.exp(-1) - 1), 1.0507], rtol=1e-6)


def test_training_steps() -> None:
    text = "agraph (float[a] x) => (float[a] y) { y = Dropout <is_test = 1> (x) }"
    assert (after(text, 6, {"x": numbers(3)}) == numbers(3)).all()
    assert "training step" in reason(text.replace("is_test = 1", "ratio = 0.5"), 6, 7)


def test_cast_to_a_named_type() -> None:
    given = after(
        'agraph (float[a] x) => (int64[a] y) { y = Cast <to = "INT64"> (x) }',
        5,
        {"x": np.array([1.5], F32)},
    )
    assert given.dtype == np.int64


def test_exponents() -> None:
    text = "agraph (float[1,2,3] x) => (float[a,b,c] y) { y = GlobalLpPool <p = 2.0> (x) }"
    expected = np.sqrt((numbers(1, 2, 3) ** 2).sum(-1, keepdims=True))
    model = export_model(raised(text, 1, 21))
    np.testing.assert_allclose(run(model, {"x": numbers(1, 2, 3)})[0], expected, rtol=1e-6)
    assert "the exponent 2.5" in reason(text.replace("2.0", "2.5"), 1, 2)


def test_attributes_that_are_written_or_renamed() -> None:
    x = numbers(2, 3)
    concat = "agraph (float[2,3] x) => (float[a,b] y) { y = Concat (x, x) }"
    assert (after(concat, 1, {"x": x}) == np.concatenate([x, x], 1)).all()
    pad = f"agraph {MATRIX} {{ y = Pad <paddings = [0, 1, 0, 0]> (x) }}"
    assert (after(pad, 1, {"x": x}) == np.pad(x, ((0, 0), (1, 0)))).all()
    reshape = f"agraph {MATRIX} {{ y = Reshape <shape = [3, 2]> (x) }}"
    assert (after(reshape, 1, {"x": x}) == x.reshape(3, 2)).all()


def test_split() -> None:
    x = numbers(5, 2)
    text = (
        "agraph (float[5,2] x) => (float[a,b] y, float[c,d] z) <float[2] s = {2, 3}> { "
        "y, z = Split <axis = 0> (x, s) }"
    )
    assert (after(text, 1, {"x": x}) == x[:2]).all()
    text = (
        "agraph (float[5,2] x, float[2] s) => (float[a,b] y, float[c,d] z) { "
        "y, z = Split <axis = 0> (x, s) }"
    )
    assert "run time" in reason(text, 1, 2)


@pytest.mark.parametrize("name", ["Gemm <broadcast = 1>", "Gemm"])
def test_gemm(name: str) -> None:
    text = (
        "agraph (float[2,3] x, float[3,4] w, float[4] b) => (float[a,b] y) { "
        f"y = {name} (x, w, b) }}"
    )
    feeds = {"x": numbers(2, 3), "w": numbers(3, 4), "b": numbers(4)}
    np.testing.assert_allclose(
        after(text, 6, feeds), feeds["x"] @ feeds["w"] + feeds["b"], rtol=1e-5
    )


def test_sets_before_the_seventh_in_onnxruntime() -> None:
    check(f"agraph {MATRIX} {{ y = Clip <min = -0.5> (x) }}", 6, 24, {"x": numbers(2, 3)})


@pytest.mark.parametrize(
    "call", ["Upsample <height_scale = 2.0, width_scale = 2.0> (x)", "Tile (x, x, x)"]
)
def test_forms_that_are_not_supported(call: str) -> None:
    assert "earlier form" in reason(f"agraph {MATRIX} {{ y = {call} }}", 1, 7)
