"""GridSample by Gather gives what onnxruntime's kernel gives."""

import numpy as np
import pytest

from tests.support import parse, run, types
from xoptim import optimize


def _grid(shape: tuple[int, ...]) -> np.ndarray:
    """Positions inside, far outside, on the edges, and halfway between pixels."""
    grid = np.random.default_rng(0).uniform(-2.5, 2.5, shape).astype(np.float32)
    special = np.array([-1, 1, 0, -0.75, 0.75, 0.5, -0.5, 1.5, -3, 7.25, 1e6], np.float32)
    flat = grid.reshape(-1)
    flat[: special.size] = special
    flat[-special.size :] = special[::-1]
    return grid


@pytest.mark.parametrize(("mode", "opset"), [("bilinear", 16), ("linear", 20), ("nearest", 20)])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("align", [0, 1])
@pytest.mark.parametrize("image", [(1, 3, 4, 5), (2, 1, 2, 7), (3, 2, 1, 4)])
def test_each_form(mode: str, opset: int, padding: str, align: int, image: tuple[int, ...]) -> None:
    n, c, h, w = image
    text = (
        f"agraph (float[{n},{c},{h},{w}] x, float[{n},6,5,2] p) => (float[{n},{c},6,5] y) "
        f'{{ y = GridSample <mode = "{mode}", padding_mode = "{padding}", align_corners = '
        f"{align}> (x, p) }}"
    )
    model = parse(text, opset)
    after = optimize(model, patterns="LowerGridSample", strict=True)
    stays = padding == "reflection" and align == 1 and 1 in (h, w)
    assert ("GridSample" in types(after)) == stays
    x = np.random.default_rng(1).standard_normal(image).astype(np.float32)
    feeds = {"x": x, "p": _grid((n, 6, 5, 2))}
    np.testing.assert_allclose(run(after, feeds)[0], run(model, feeds)[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("mode", ["linear", "nearest"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("align", [0, 1])
@pytest.mark.parametrize("sizes", ["n,2,h,w", "1,2,h,w", "n,2,3,4"])
def test_dynamic_sizes(mode: str, padding: str, align: int, sizes: str) -> None:
    if padding == "reflection" and align and "h" in sizes:
        pytest.skip("there may be one line of pixels")
    n = sizes[0]
    model = parse(
        f"agraph (float[{sizes}] x, float[{n},i,j,2] p) => (float[{n},2,i,j] y) "
        f'{{ y = GridSample <mode = "{mode}", padding_mode = "{padding}", align_corners = '
        f"{align}> (x, p) }}",
        20,
    )
    assume = [] if padding == "zeros" else ["h >= 1", "w >= 1"] * ("h" in sizes)
    after = optimize(model, patterns="LowerGridSample", strict=True, assume=assume)
    assert "GridSample" not in types(after)
    count = 1 if n == "1" else 2
    x = np.random.default_rng(1).standard_normal((count, 2, 3, 4)).astype(np.float32)
    feeds = {"x": x, "p": _grid((count, 6, 5, 2))}
    np.testing.assert_allclose(run(after, feeds)[0], run(model, feeds)[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "text",
    [
        'agraph (float[1,2,3,4] x, float[1,5,6,2] p) => (y) { y = GridSample <mode = "cubic"> '
        "(x, p) }",
        "agraph (float[1,2,3,4,5] x, float[1,5,6,7,3] p) => (y) { y = GridSample(x, p) }",
        "agraph (float[n,c,3,4] x, float[n,5,6,2] p) => (y) { y = GridSample(x, p) }",
        "agraph (float[n,2,3,4] x, float[k,5,6,2] p) => (y) { y = GridSample(x, p) }",
        "agraph (float[n,2,h,4] x, float[n,5,6,2] p) => (y) { y = GridSample "
        '<padding_mode = "reflection", align_corners = 1> (x, p) }',
        "agraph (float[n,2,h,4] x, float[n,5,6,2] p) => (y) { y = GridSample <padding_mode = "
        '"border"> (x, p) }',
    ],
)
def test_other_forms_stay(text: str) -> None:
    assert types(optimize(parse(text, 20), patterns="LowerGridSample")) == ["GridSample"]
