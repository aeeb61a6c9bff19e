"""Resize, Upsample, grids and regions of interest."""

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto

from tests.operators.inference.context import Input, infer
from tests.operators.inference.oracle import Fed, Given, check, ints, tensor, vector
from xoptim.facts.dims import SymbolicDim, named
from xoptim.facts.shapes import UNKNOWN, Info, Shape

SIZES = ({"n": 2, "h": 9, "w": 14}, {"n": 1, "h": 17, "w": 8})
N, H, W = named("n"), named("h"), named("w")
NO_ROI = np.array([], dtype=np.float32)


def floats(*values: float) -> np.ndarray:
    return np.array(values, dtype=np.float32)


def roi(opset: int) -> np.ndarray | None:
    return NO_ROI if opset < 13 else None


def anonymous(shape: Shape | None) -> list[bool]:
    assert shape is not None
    return [isinstance(d, SymbolicDim) and d.is_anonymous for d in shape]


SCALES = [
    ((1, 1, 2, 3), (N, 3, H * 2, W * 3)),
    ((1, 1, 1.5, 0.5), (N, 3, H * 3 // 2, W // 2)),
    ((1, 1, 0.25, 2.75), (N, 3, H // 4, W * 11 // 4)),
]


@pytest.mark.parametrize(("scales", "expected"), SCALES[:1])
def test_upsample(scales: tuple[float, ...], expected: Shape) -> None:
    x, attribute = tensor("n", 3, "h", "w"), {"scales": [float(s) for s in scales]}
    assert check("Upsample", [x], attribute, opset=7, assignments=SIZES)[0].shape == expected
    assert check("Upsample", [x, floats(*scales)], opset=9, assignments=SIZES)[0].shape == expected
    check("Upsample", [tensor(1, 3, 7, 9)], attribute, opset=7)


@pytest.mark.parametrize(("scales", "expected"), SCALES)
def test_resize_by_scales(scales: tuple[float, ...], expected: Shape) -> None:
    x, factors = tensor("n", 3, "h", "w"), floats(*scales)
    assert check("Resize", [x, factors], opset=10, assignments=SIZES)[0].shape == expected
    for opset in (11, 13, 18, 19):
        assert (
            check("Resize", [x, roi(opset), factors], opset=opset, assignments=SIZES)[0].shape
            == expected
        )
        check("Resize", [tensor(2, 3, 7, 9), roi(opset), factors], {"mode": "linear"}, opset=opset)


@pytest.mark.parametrize("factor", [0.7, 1.3, 1 / 3, 2.1, 0.1])
def test_scales_that_round_are_followed_for_numbers_only(factor: float) -> None:
    for size in (10, 12, 16, 20, 30, 63):
        # The onnx package multiplies in another precision than onnxruntime: 0.7 * 10 is 6 there and
        # 7 in a run.
        x, scales = tensor(1, 1, size, size), floats(1, 1, factor, factor)
        assert not any(
            anonymous(check("Resize", [x, None, scales], {"mode": "linear"}, strict=False)[0].shape)
        )
    symbolic = check(
        "Resize", [tensor("n", 3, "h", "w"), None, floats(1, 1, 1, factor)], assignments=SIZES
    )[0].shape
    assert anonymous(symbolic) == [False, False, False, True]


def test_resize_scales_that_followed_from_integers() -> None:
    scales = Info(TensorProto.FLOAT, (4,), (1, 1, 2, 4))
    assert infer("Resize", [tensor("n", 3, "h", "w"), None, scales])[0].shape == (
        N,
        3,
        H * 2,
        W * 4,
    )
    later = infer("Resize", [tensor("n", 3, "h", "w"), None, tensor(4)])[0].shape
    assert anonymous(later) == [True] * 4


@pytest.mark.parametrize("opset", [11, 13, 18, 19])
def test_resize_by_sizes(opset: int) -> None:
    x, empty = tensor("n", 3, "h", "w"), roi(opset)
    known = check(
        "Resize", [x, empty, empty, ints(2, 3, 5, 6)], opset=opset, assignments=SIZES[:1]
    )[0]
    assert known.shape == (2, 3, 5, 6)
    inputs: list[Given] = [x, empty, empty, vector("n", 3, H * 2, "h")]
    assert check("Resize", inputs, opset=opset, assignments=SIZES)[0].shape == (N, 3, H * 2, H)
    later = check(
        "Resize", [x, empty, empty, Fed(ints(2, 3, 5, 6))], opset=opset, assignments=SIZES[:1]
    )[0]
    assert later.rank == 4
    assert infer("Resize", [UNKNOWN, empty, empty, ints(2, 3, 5, 6)], opset=opset)[0].shape == (
        2,
        3,
        5,
        6,
    )


@pytest.mark.parametrize("opset", [18, 19])
def test_resize_some_axes(opset: int) -> None:
    x = tensor("n", 3, "h", "w")
    for axes, expected in (([2, 3], (N, 3, 5, 6)), ([-1, 2], (N, 3, 6, 5)), ([3], (N, 3, H, 7))):
        sizes = {1: ints(7), 2: ints(5, 6)}[len(axes)]
        result = check(
            "Resize", [x, None, None, sizes], {"axes": axes}, opset=opset, assignments=SIZES
        )[0]
        assert result.shape == expected
    scaled = check(
        "Resize", [x, None, floats(2, 0.5)], {"axes": [3, 2]}, opset=opset, assignments=SIZES
    )[0]
    assert scaled.shape == (N, 3, H // 2, W * 2)
    assert (
        anonymous(infer("Resize", [x, None, floats(2), None], {"axes": [7]}, opset=opset)[0].shape)
        == [True] * 4
    )


@pytest.mark.parametrize("policy", ["not_larger", "not_smaller", "stretch"])
@pytest.mark.parametrize("sizes", [(5, 6), (13, 7), (20, 30), (1, 1)])
def test_resize_keeping_the_ratio(policy: str, sizes: tuple[int, int]) -> None:
    attributes: dict[str, Any] = {"keep_aspect_ratio_policy": policy, "axes": [2, 3]}
    x = tensor("n", 3, 9, 14)
    assert not any(
        anonymous(
            check("Resize", [x, None, None, ints(*sizes)], attributes, assignments=SIZES)[0].shape
        )
    )
    symbolic = check(
        "Resize", [tensor(1, 3, "h", "w"), None, None, ints(*sizes)], attributes, assignments=SIZES
    )[0]
    assert anonymous(symbolic.shape)[2:] == [policy != "stretch"] * 2


@pytest.mark.parametrize("policy", ["not_larger", "not_smaller"])
def test_resize_keeping_the_ratio_leaves_axes_counted_from_the_end(policy: str) -> None:
    """The standard resizes such axes, onnxruntime does not."""
    attributes: dict[str, Any] = {"keep_aspect_ratio_policy": policy}
    for axes, sizes, shape in (
        ([-2, 1], (9, 3), (5, 3)),
        ([1, -2], (8, 2), (5, 8)),
        ([-1, -2], (8, 2), (5, 4)),
    ):
        operands: list[Given] = [tensor(5, 4), None, None, ints(*sizes)]
        (result,) = check("Resize", operands, {**attributes, "axes": axes}, strict=False)
        assert result.shape == shape


def test_resize_of_a_region_by_scales() -> None:
    region = floats(0, 0, 0.2, 0.3, 1, 1, 0.7, 0.9)
    attributes = {"coordinate_transformation_mode": "tf_crop_and_resize", "mode": "linear"}
    inputs: list[Given] = [tensor("n", 3, "h", "w"), region, floats(1, 1, 2, 2)]
    check("Resize", inputs, attributes, assignments=SIZES)


@pytest.mark.parametrize("opset", [16, 20, 22])
def test_grid_sample(opset: int) -> None:
    sizes = [{"n": 2, "h": 4, "w": 5, "a": 3, "d": 2}]
    result = check(
        "GridSample",
        [tensor("n", 3, "h", "w"), tensor("n", "a", 5, 2)],
        opset=opset,
        assignments=sizes,
    )
    assert result[0].shape == (N, 3, named("a"), 5)
    if opset >= 20:
        volume: list[Given] = [tensor("n", 3, "d", "h", "w"), tensor("n", 4, "a", 5, 3)]
        assert check("GridSample", volume, opset=opset, assignments=sizes)[0].shape == (
            N,
            3,
            4,
            named("a"),
            5,
        )
    assert infer("GridSample", [UNKNOWN, tensor("n", "a", 5, 2)], opset=opset)[0].rank == 4


def test_affine_grid() -> None:
    plane: list[Given] = [tensor("n", 2, 3), ints(2, 3, 5, 6)]
    assert check("AffineGrid", plane, opset=20, assignments=[{"n": 2}])[0].shape == (2, 5, 6, 2)
    volume: list[Given] = [tensor("n", 3, 4), ints(2, 3, 5, 6, 7)]
    assert check("AffineGrid", volume, opset=20, assignments=[{"n": 2}])[0].shape == (2, 5, 6, 7, 3)
    later: list[Given] = [tensor("n", 2, 3), Fed(ints(2, 3, 5, 6))]
    assert check("AffineGrid", later, opset=20, assignments=[{"n": 2}])[0].rank == 4
    assert infer("AffineGrid", [UNKNOWN, UNKNOWN], opset=20)[0].shape is None


@pytest.mark.parametrize("opset", [10, 16, 22])
def test_regions(opset: int) -> None:
    boxes = Fed(floats(0, 0, 3, 3, 1, 1, 2, 4, 0, 1, 3, 2).reshape(3, 4))
    images = Fed(np.zeros(3, dtype=np.int64))
    has_kernel = opset < 22
    aligned = {"output_height": 3, "output_width": 2}
    inputs: list[Given] = [tensor("n", 3, "h", "w"), boxes, images]
    assert check("RoiAlign", inputs, aligned, opset=opset, assignments=SIZES, run=has_kernel)[
        0
    ].shape == (3, 3, 3, 2)
    assert check("RoiAlign", inputs, opset=opset, assignments=SIZES, run=has_kernel)[0].shape == (
        3,
        3,
        1,
        1,
    )
    pooled = {"pooled_shape": [2, 3]}
    regions = Fed(np.zeros((4, 5), dtype=np.float32))
    inputs = [tensor("n", 3, "h", "w"), regions]
    assert check("MaxRoiPool", inputs, pooled, opset=opset, assignments=SIZES, run=has_kernel)[
        0
    ].shape == (4, 3, 2, 3)


@pytest.mark.parametrize("opset", [10, 11])
def test_non_max_suppression(opset: int) -> None:
    inputs: list[Given] = [tensor(1, "n", 4), tensor(1, 2, "n"), np.array(3, dtype=np.int64)]
    result = check("NonMaxSuppression", inputs, opset=opset)[0]
    assert anonymous(result.shape) == [True, False]


def test_scales_out_of_bounds_tell_nothing() -> None:
    x: Input = tensor("n", 3, 9, 9)
    for factor in (0.0, -1.0, float("inf"), float("nan"), 3e38):
        assert anonymous(infer("Resize", [x, None, floats(1, 1, factor, factor)])[0].shape)[2:] == [
            True,
            True,
        ]
