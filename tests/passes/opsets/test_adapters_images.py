from typing import Any

import numpy as np
import pytest

from tests.passes.opsets.raised import F32, check, numbers, reason

IMAGE = numbers(1, 2, 4, 5)
OPEN = "(float[a,b,c,d] x, float[4] s) => (float[e,f,g,h] y)"


@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("scales", [[1, 1, 2, 2], [1, 1, 1.5, 2.3]])
def test_upsample(mode: str, scales: list[float]) -> None:
    text = f"""agraph (float[1,2,4,5] x) => (float[e,f,g,h] y) {{
        y = Upsample <mode = "{mode}",
          scales = [{", ".join(map(str, map(float, scales)))}]> (x) }}"""
    for opset in (7, 8):
        assert check(text, opset, 9, {"x": IMAGE}) == ["Upsample"]
        for target in (10, 11, 13, 19, 24):
            assert check(text, opset, target, {"x": IMAGE}) == ["Resize"]
    feeds = {"x": IMAGE, "s": np.array(scales, F32)}
    assert check(f'agraph {OPEN} {{ y = Upsample <mode = "{mode}"> (x, s) }}', 9, 24, feeds) == [
        "Resize"
    ]


@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize(
    "scales", [[1, 1, 2, 1.6], [1, 1, 0.5, 0.6], [1, 1, 0.4, 1.7], [1, 1, 1, 1], [1, 1, 1.3, 0.7]]
)
def test_resize_without_coordinates(mode: str, scales: list[float]) -> None:
    feeds = {"x": IMAGE, "s": np.array(scales, F32)}
    stored = f"<float[4] s = {{{', '.join(map(str, scales))}}}>"
    for target in (11, 13, 18, 24):
        open_scales = check(
            f'agraph {OPEN} {{ y = Resize <mode = "{mode}"> (x, s) }}', 10, target, feeds
        )
        assert open_scales.count("Resize") == (2 if mode == "nearest" else 1)
        text = (
            f"agraph (float[a,b,c,d] x) => (float[e,f,g,h] y) {stored} {{ y = Resize <mode ="
            f' "{mode}"> (x, s) }}'
        )
        mixed = mode == "nearest" and min(scales) < 1 < max(scales)
        assert check(text, 10, target, {"x": IMAGE}).count("Resize") == 1 + mixed


@pytest.mark.parametrize(
    "attributes",
    [
        'mode = "nearest"',
        'coordinate_transformation_mode = "align_corners", mode = "linear"',
        'nearest_mode = "ceil"',
        'mode = "cubic", coordinate_transformation_mode = "pytorch_half_pixel"',
    ],
)
def test_resize_with_empty_operands(attributes: str) -> None:
    text = f"""agraph (float[1,2,4,5] x) => (float[e,f,g,h] y) <float[0] none = {{}}, int64[4]
      sizes = {{1, 2, 7, 3}}>
        {{ y = Resize <{attributes}> (x, none, none, sizes) }}"""
    for target in (13, 19, 24):
        assert check(text, 11, target, {"x": IMAGE}) == ["Resize"]


def test_coordinates_that_exist_no_longer() -> None:
    text = f"""agraph {OPEN} {{
      y = Resize <coordinate_transformation_mode = "tf_half_pixel_for_nn"> (x, s, s) }}"""
    assert "tf_half_pixel_for_nn" in reason(text, 11, 13)


@pytest.mark.parametrize("mode", [None, "bilinear", "nearest", "bicubic"])
def test_grid_sample(mode: str | None) -> None:
    attributes = "" if mode is None else f'<mode = "{mode}", align_corners = 1>'
    text = f"""agraph (float[a,b,c,d] x,
      float[e,f,g,h] s) => (float[i,j,k,l] y) {{ y = GridSample {attributes} (x, s) }}"""
    feeds = {"x": IMAGE, "s": numbers(1, 3, 3, 2) / 2}
    for target in (20, 24):
        check(text, 16, target, feeds)


def test_regions() -> None:
    text = """agraph (float[a,b,c,d] x, float[n,4] r, int64[n] i) => (float[e,f,g,h] y)
        { y = RoiAlign <output_height = 2, output_width = 2, sampling_ratio = 2> (x, r, i) }"""
    feeds: dict[str, Any] = {
        "x": IMAGE,
        "r": np.array([[0, 0, 3, 3], [1, 0.5, 2, 3]], F32),
        "i": np.array([0, 0]),
    }
    for target in (16, 21):
        check(text, 10, target, feeds)


POOLS = [
    *(
        f"MaxPool <kernel_shape = [3, 2], strides = [2, 2], pads = [1, 0, 1, 1]{more}>"
        for more in ("", ", ceil_mode = 1")
    ),
    *(
        f"AveragePool <kernel_shape = [3, 2], strides = [2, 3], pads = [1, 0, 1, 1]{more}>"
        for more in (
            "",
            ", ceil_mode = 1",
            ", count_include_pad = 1",
            ", ceil_mode = 1, count_include_pad = 1",
        )
    ),
    'LpPool <kernel_shape = [2, 2], auto_pad = "SAME_UPPER">',
    'MaxPool <kernel_shape = [2, 2], auto_pad = "SAME_LOWER">',
]


@pytest.mark.parametrize("call", POOLS)
def test_pools_compute_the_same(call: str) -> None:
    """Their text changed in operator set 22; onnxruntime computes as it did before."""
    text = f"agraph (float[a,b,c,d] x) => (float[e,f,g,h] y) {{ y = {call} (x) }}"
    for target in (12, 19, 22, 24):
        check(text, 11, target, {"x": numbers(2, 3, 7, 8)})
