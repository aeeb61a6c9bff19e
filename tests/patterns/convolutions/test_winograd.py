"""Convolutions in tiles, next to the windows themselves in double precision."""

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from tests.support import run, types
from xoptim import optimize
from xoptim.patterns.convolutions.winograd import transforms

PATTERNS = {"ConvWinograd": (192, 4e-6), "ConvWinograd4x4": (80, 1e-5)}
"""The least number of channels, and the largest error next to the deviation of the results."""
SAME: dict[str, Any] = {"pads": [1, 1, 1, 1]}


def convolution(
    channels: int,
    image: tuple[int | str, int],
    *,
    bias: bool = False,
    dtype: Any = np.float32,
    opset: int = 17,
    **attributes: Any,
) -> onnx.ModelProto:
    """A convolution with random weights, of 3 by 3 unless the attributes say another window."""
    rng = np.random.default_rng(0)
    window = attributes.get("kernel_shape", [3, 3])
    constants = {
        "w": rng.standard_normal((channels, channels // attributes.get("group", 1), *window))
    }
    constants |= {"b": rng.standard_normal(channels)} if bias else {}
    element = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    x = helper.make_tensor_value_info("x", element, ["n", channels, *image])
    y = helper.make_tensor_value_info("y", element, ["n", channels, "h", "v"])
    stored = [
        numpy_helper.from_array(array.astype(dtype), name) for name, array in constants.items()
    ]
    graph = helper.make_graph(
        [helper.make_node("Conv", ["x", *constants], ["y"], **attributes)], "g", [x], [y], stored
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def expected(model: onnx.ModelProto, x: np.ndarray, pads: list[int]) -> np.ndarray:
    """The sums over all windows in double precision."""
    weights, *bias = (
        numpy_helper.to_array(each).astype(np.float64) for each in model.graph.initializer
    )
    padded = np.pad(x.astype(np.float64), [(0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3])])
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    sums: np.ndarray = np.einsum("nchvij,ocij->nohv", windows, weights, optimize=True)
    return sums + bias[0][:, None, None] if bias else sums


@pytest.mark.parametrize("name", PATTERNS)
@pytest.mark.parametrize("opset", [9, 17])
@pytest.mark.parametrize(
    ("image", "given", "pads"),
    [
        ((16, 16), SAME, [1, 1, 1, 1]),
        ((15, 18), {}, [0, 0, 0, 0]),
        ((15, 14), {"pads": [2, 0, 1, 3]}, [2, 0, 1, 3]),
        ((15, 16), {"auto_pad": "VALID"}, [0, 0, 0, 0]),
        ((15, 16), {"auto_pad": "VALID", "pads": [1, 1, 1, 1]}, [0, 0, 0, 0]),
    ],
)
def test_sums(
    name: str, opset: int, image: tuple[int, int], given: dict[str, Any], pads: list[int]
) -> None:
    """Of two images, with a bias; written ahead of time, and when a session begins."""
    channels, most = PATTERNS[name]
    model = convolution(channels, image, bias=True, opset=opset, **given)
    x = np.random.default_rng(1).standard_normal((2, channels, *image)).astype(np.float32)
    wanted = expected(model, x, pads)
    for growth in ("unlimited", 0):
        after = optimize(model, patterns=name, strict=True, max_growth=growth)
        assert types(after).count("Conv") == 2
        assert types(after).count("MatMul") == (1 if growth else 2)
        (found,) = run(after, {"x": x})
        assert found.shape == wanted.shape
        assert np.abs(found - wanted).max() < most * wanted.std()


@pytest.mark.parametrize("name", PATTERNS)
@pytest.mark.parametrize(
    ("image", "given"),
    [
        ((16, 16), SAME | {"strides": [2, 2]}),
        ((16, 16), SAME | {"dilations": [2, 2]}),
        ((16, 16), SAME | {"group": 2}),
        ((16, 16), SAME | {"auto_pad": "SAME_UPPER"}),
        ((16, 16), {"kernel_shape": [3, 1]}),
        ((16, 16), SAME | {"dtype": np.float64}),
        (("h", 16), SAME),
        ((5, 5), SAME),
        ((512, 512), SAME),
    ],
)
def test_others_stay(name: str, image: tuple[int, int], given: dict[str, Any]) -> None:
    model = convolution(PATTERNS[name][0] * 2, image, **given)
    assert types(optimize(model, patterns=name)) == ["Conv"]


@pytest.mark.parametrize("name", PATTERNS)
@pytest.mark.parametrize("fewer", [16, -8])
def test_few_channels_and_uneven_ones_stay(name: str, fewer: int) -> None:
    model = convolution(PATTERNS[name][0] - fewer, (16, 16), **SAME)
    assert types(optimize(model, patterns=name)) == ["Conv"]


def test_the_wide_tiles_go_first() -> None:
    model = convolution(192, (16, 16), **SAME)
    after = optimize(model, patterns="ConvWinograd+ConvWinograd4x4")
    assert [node.attribute[0].i for node in after.graph.node if node.op_type == "DepthToSpace"] == [
        4
    ]


@pytest.mark.parametrize(
    "points",
    [(0.0, 1.0), (0.0, 1.0, -1.0), (0.0, 1.0, -1.0, 2.0), (0.0, 0.5, -0.5, 2.0, -2.0, 3.0)],
)
def test_transforms(points: tuple[float, ...]) -> None:
    """The sums of a tile, and ones."""
    rng, maps, reach = np.random.default_rng(0), transforms(points), len(points) + 1
    elements, window = rng.standard_normal((reach, reach)), rng.standard_normal((3, 3))
    products = (maps.weights @ window.ravel()) * (
        maps.elements.reshape(reach**2, -1) @ elements.ravel()
    )
    windows = np.lib.stride_tricks.sliding_window_view(elements, (3, 3))
    np.testing.assert_allclose(
        maps.results @ products, (windows * window).sum(axis=(2, 3)).ravel(), atol=1e-4
    )
    np.testing.assert_allclose(maps.results @ maps.ones, 1, atol=1e-5)
