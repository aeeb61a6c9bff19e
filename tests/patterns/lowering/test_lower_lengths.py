"""The numbers of valid keys, which contrib operators compute and read."""

from typing import Any

import numpy as np
import pytest

from tests.support import parse, run, types
from xoptim import optimize

_TABLES = "float[7,4] w, float[5,4] p, float[2,4] k, float[4] s, float[4] c"


def _floats(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def _check(text: str, feeds: dict[str, Any], operator: str) -> None:
    model = parse(text, 18, domains={"com.microsoft": 1})
    after = optimize(model, patterns="lower", strict=True)
    assert operator not in types(after)
    for expected, result in zip(run(model, feeds), run(after, feeds), strict=True):
        assert result.dtype == expected.dtype
        np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("has_mask", [False, True])
def test_the_lengths_of_an_embedding(has_mask: bool) -> None:
    inputs = f"int32[2,3] i, int32[2,3] j, {_TABLES}{', int32[2,3] m' if has_mask else ''}"
    text = (
        f"agraph ({inputs}) => (float[2,3,4] y, int32[2] z) {{ y, z = "
        f"com.microsoft.EmbedLayerNormalization (i, j, w, p, k, s, c{', m' if has_mask else ''}) }}"
    )
    feeds: dict[str, Any] = {
        "i": np.array([[1, 2, 6], [0, 3, 3]], np.int32),
        "j": np.array([[0, 0, 1], [1, 1, 0]], np.int32),
    }
    tables = {"w": (7, 4), "p": (5, 4), "k": (2, 4), "s": (4,), "c": (4,)}
    feeds |= {name: _floats(*shape) for name, shape in tables.items()}
    if has_mask:
        feeds["m"] = np.array([[1, 1, 0], [1, 2, -1]], np.int32)
    _check(text, feeds, "EmbedLayerNormalization")


@pytest.mark.parametrize("has_past", [False, True])
@pytest.mark.parametrize("form", ["", ", unidirectional = 1", ", mask_filter_value = -50.0"])
@pytest.mark.parametrize("lengths", [[3, 1, 2], [0, 5, 3]])
def test_the_lengths_of_attention(has_past: bool, form: str, lengths: list[int]) -> None:
    past = ", float[2,b,2,t,4] k" if has_past else ""
    results, names = ("y, v", "(y, v)") if has_past else ("y", "(y)")
    text = (
        f"agraph (float[b,s,4] x, float[4,24] w, float[24] c, int32[b] n{past}) => {names} "
        f"{{ {results} = com.microsoft.Attention <num_heads = 2{form}> "
        f"(x, w, c, n{', k' if has_past else ''}) }}"
    )
    feeds = {"x": _floats(3, 3, 4), "w": _floats(4, 24), "c": _floats(24)}
    feeds["n"] = np.array(lengths, np.int32)
    if has_past:
        feeds["k"] = _floats(2, 3, 2, 2, 4)
    _check(text, feeds, "Attention")
