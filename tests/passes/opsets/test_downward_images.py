import numpy as np
import onnx
import pytest

from tests.passes.opsets.lowered import check, reason
from tests.passes.opsets.raised import numbers
from tests.support import load
from xoptim.graph.export import export_model
from xoptim.passes.opsets.lowering import lower_model

X = {"x": numbers(1, 2, 4, 6)}


def pool(name: str, attributes: str) -> str:
    """A model of one pooling."""
    return f"agraph (float[1,2,4,6] x) => (float[a,b,c,d] y) {{ y = {name} <{attributes}> (x) }}"


@pytest.mark.parametrize("name", ["MaxPool", "AveragePool"])
def test_pooling(name: str) -> None:
    text = pool(name, "kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1], ceil_mode = 1")
    assert check(text, 22, 13, X) == [name]
    assert " ceil_mode " in reason(text, 22, 9)
    text = pool(name, "kernel_shape = [2, 2], strides = [2, 2], pads = [1, 1, 1, 1], ceil_mode = 1")
    assert "last window" in reason(text, 22, 21)
    text = pool(name, "kernel_shape = [2, 2], dilations = [1, 1], ceil_mode = 0")
    assert check(text, 22, 9, X) == [name]


def test_dilated_windows() -> None:
    text = pool("MaxPool", "kernel_shape = [2, 2], dilations = [2, 2]")
    assert check(text, 22, 10, X) == ["MaxPool"]
    assert "dilations" in reason(text, 22, 9)


@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_resized_axes(mode: str) -> None:
    constants = "<float[2] s = {2, 0.5}, int64[2] k = {8, 3}>"
    for operands in ("(x, , s)", "(x, , , k)"):
        text = (
            f"agraph (float[1,2,4,6] x) => (float[a,b,c,d] y) {constants} "
            f'{{ y = Resize <axes = [2, 3], mode = "{mode}"> {operands} }}'
        )
        for target in (17, 11):
            assert check(text, 19, target, X)[-1] == "Resize"
    text = text.replace("axes", 'keep_aspect_ratio_policy = "not_larger", axes')
    assert "keep_aspect_ratio_policy" in reason(text, 19, 17)
    assert "antialias" in reason(text.replace("axes", "antialias = 1, axes"), 19, 17)


def test_sizes_at_run_time() -> None:
    text = (
        "agraph (float[1,2,h,w] x, int64[2] k) => (float[a,b,c,d] y) "
        '{ y = Resize <axes = [-2, -1], mode = "nearest"> (x, , , k) }'
    )
    feeds = X | {"k": np.array([8, 3])}
    assert check(text, 19, 17, feeds) == ["Shape", "ScatterElements", "Resize"]


def test_the_region_of_some_axes_at_run_time() -> None:
    """onnxruntime reads regions of float32 only; other runtimes take all types of ONNX."""
    text = (
        "agraph (float[1,2,4,6] x, float[4] q) => (float[a,b,c,d] y) <int64[2] k = {8, 3}> "
        '{ y = Resize <axes = [2, 3], coordinate_transformation_mode = "tf_crop_and_resize", '
        'mode = "linear"> (x, q, , k) }'
    )
    feeds = X | {"q": np.array([0.25, 0, 1, 0.5], np.float32)}
    assert check(text, 19, 17, feeds)[-1] == "Resize"
    model = load(text.replace("float[4] q", "double[4] q"), 19)
    lower_model(model, 17)
    onnx.checker.check_model(export_model(model), full_check=True)


def test_scaled_indices() -> None:
    attributes = 'coordinate_transformation_mode = "asymmetric", nearest_mode = "floor"'
    text = (
        "agraph (float[1,2,4,6] x) => (float[a,b,c,d] y) <float[4] s = {1, 1, 2, 3}> "
        f"{{ y = Resize <{attributes}> (x, , s) }}"
    )
    assert check(text, 13, 10, X) == ["Resize"]
    assert check(text, 13, 9, X) == ["Upsample"]
    assert check(text, 13, 7, X) == ["Upsample"]
    assert "nearest_mode" in reason(text.replace("floor", "ceil"), 13, 10)
    assert "not asymmetric" in reason(text.replace("asymmetric", "half_pixel"), 13, 10)
    sizes = text.replace("float[4] s = {1, 1, 2, 3}", "int64[4] s = {1, 2, 8, 6}")
    assert "has sizes" in reason(sizes.replace("(x, , s)", "(x, , , s)"), 13, 10)
    shrunk = text.replace("2, 3}", "0.5, 0.5}").replace("floor", "ceil")
    assert check(shrunk, 13, 10, X) == ["Resize"]
    assert "shrink" in reason(shrunk, 13, 9)


def test_sampling() -> None:
    text = (
        "agraph (float[1,2,4,6] x, float[1,3,3,2] g) => (float[a,b,c,d] y) { y = GridSample <mode ="
        ' "cubic"> (x, g) }'
    )
    assert check(text, 20, 16, X | {"g": numbers(1, 3, 3, 2)}) == ["GridSample"]
    assert "rank is not 4" in reason(text.replace("float[1,2,4,6] x", "float[] x"), 20, 16)


def test_regions() -> None:
    text = (
        "agraph (float[1,2,4,6] x, float[1,4] r, int64[1] b) => (float[a,b,c,d] y) "
        '{ y = RoiAlign <coordinate_transformation_mode = "output_half_pixel"> (x, r, b) }'
    )
    feeds = X | {"r": np.array([[0, 0, 3, 3]], np.float32), "b": np.array([0])}
    assert check(text, 16, 13, feeds) == ["RoiAlign"]
    assert "half a pixel" in reason(text.replace("output_half_pixel", "half_pixel"), 16, 13)


def test_gaps_between_windows() -> None:
    text = (
        "agraph (float[1,2,4,6] x) => (float[a,b,c,d] y) { y = AveragePool "
        '<auto_pad = "SAME_UPPER", kernel_shape = [1, 1], strides = [1, 3]> (x) }'
    )
    assert "gaps" in reason(text, 19, 18)
    assert check(text.replace("3]", "1]"), 19, 18, X) == ["AveragePool"]
    assert check(text.replace("SAME_UPPER", "VALID"), 19, 18, X) == ["AveragePool"]
