"""Fourier transforms by MatMul and Conv give what onnxruntime's kernels give."""

import numpy as np
import pytest

from tests.support import parse, run, types
from xoptim import optimize


def _check(text: str, opset: int, feeds: dict[str, np.ndarray], operator: str) -> None:
    model = parse(text, opset)
    after = optimize(model, patterns=f"Lower{operator}", strict=True)
    assert operator not in types(after)
    (expected,), (result,) = run(model, feeds), run(after, feeds)
    assert result.shape == expected.shape
    scale = np.abs(expected).max()
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5 * scale)


def _numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("axis", [1, 2])
@pytest.mark.parametrize("length", [None, 5, 8, 12])
@pytest.mark.parametrize("form", ["inverse = 0", "inverse = 1", "onesided = 1"])
@pytest.mark.parametrize("opset", [17, 20])
def test_dft(parts: int, axis: int, length: int | None, form: str, opset: int) -> None:
    if form == "onesided = 1" and parts == 2:
        pytest.skip("ONNX forbids it")
    constants = f"<int64 n = {{{length or 0}}}, int64 a = {{{axis}}}>"
    size = "n" if length else ""
    call = f"<{form}> (x, {size}, a)" if opset == 20 else f"<{form}, axis = {axis}> (x, {size})"
    text = f"agraph (float[2,7,8,{parts}] x) => (float[p,q,r,s] y) {constants} {{ y = DFT {call} }}"
    _check(text, opset, {"x": _numbers(2, 7, 8, parts)}, "DFT")


@pytest.mark.parametrize(("parts", "onesided"), [(1, 1), (1, 0), (2, 0)])
@pytest.mark.parametrize("step", [1, 3, 8])
@pytest.mark.parametrize("has_window", [False, True])
def test_stft(parts: int, onesided: int, step: int, has_window: bool) -> None:
    window = "float[6] w = {0.1, 0.5, 1, 0.9, 0.4, 0.2}"
    text = (
        f"agraph (float[b,n,{parts}] x) => (float[b,f,k,s] y) <int64 step = {{{step}}}, "
        f"int64 length = {{6}}, {window}> {{ y = STFT <onesided = {onesided}> "
        f"(x, step, {'w' if has_window else ''}, length) }}"
    )
    _check(text, 17, {"x": _numbers(2, 21, parts)}, "STFT")


@pytest.mark.parametrize(
    ("text", "operator"),
    [
        ("agraph (float[2,n,1] x) => (y) { y = DFT(x) }", "DFT"),
        ("agraph (float[2,8,c] x) => (y) { y = DFT(x) }", "DFT"),
        ("agraph (float[2,8,1] x, int64 k) => (y) { y = DFT(x, k) }", "DFT"),
        ("agraph (float[2,8,2] x) => (y) { y = DFT <inverse = 1, onesided = 1> (x) }", "DFT"),
        ("agraph (float[2,4096,1] x) => (y) { y = DFT(x) }", "DFT"),
        ("agraph (float[b,n,1] x, int64 k, float[4] w) => (y) { y = STFT(x, k, w) }", "STFT"),
        (
            "agraph (float[b,n,1] x, float[4] w) => (y) <int64 k = {2}> { y = STFT(x, k, w) }",
            "STFT",
        ),
    ],
)
def test_other_forms_stay(text: str, operator: str) -> None:
    assert types(optimize(parse(text, 17), patterns=f"Lower{operator}")) == [operator]
