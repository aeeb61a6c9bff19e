"""LoRA adapters, and sums of MatMuls of one input."""

from typing import Any

import numpy as np
import onnx
import pytest

from tests.support import parse, run, types
from xoptim import optimize

SHAPES = {
    "w": (6, 5),
    "v": (6, 5),
    "wt": (5, 6),
    "a": (6, 2),
    "at": (2, 6),
    "again": (6, 2),
    "b": (2, 5),
    "after": (2, 5),
    "bt": (5, 2),
    "c": (5,),
    "d": (5,),
    "e": (2,),
    "rows": (3, 5),
    "images": (1, 1, 5),
}
_PATTERNS = "MatMulMatMulAdd+MatMulAdd+GemmAdd+MatMulMul"


def summed(nodes: str, rank: int = 3, outputs: str = "y") -> onnx.ModelProto:
    """The model after the pattern; equal on a value."""
    dims = "n,3,6" if rank == 3 else "n,6"
    model = parse(f"agraph (float[{dims}] x, float[{dims}] z) => ({outputs}) {{ {nodes} }}")
    rng = np.random.default_rng(0)
    values: dict[str, Any] = {
        name: rng.standard_normal(shape).astype(np.float32) for name, shape in SHAPES.items()
    }
    values |= {
        "w8": rng.integers(-9, 9, (6, 5)).astype(np.int8),
        "scale": np.float32(0.1),
        "half": np.float32(0.5),
    }
    model.graph.initializer.extend(
        onnx.numpy_helper.from_array(np.asarray(value), name) for name, value in values.items()
    )
    after = optimize(model, patterns=_PATTERNS, strict=True)
    shape = (2, 3, 6) if rank == 3 else (4, 6)
    feeds = {name: rng.standard_normal(shape).astype(np.float32) for name in "xz"}
    for expected, result in zip(run(model, feeds), run(after, feeds), strict=True):
        np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4)
    return after


_ADAPTER = "t = MatMul(x, a) r = MatMul(t, b)"


@pytest.mark.parametrize(
    ("nodes", "rank", "expected"),
    [
        (f"p = MatMul(x, w) {_ADAPTER} y = Add(p, r)", 3, ["MatMul"]),
        (f"p = MatMul(x, w) {_ADAPTER} s = Mul(r, half) y = Add(s, p)", 3, ["MatMul"]),
        (
            f"p = MatMul(x, w) o = Add(p, c) {_ADAPTER} s = Mul(r, half) y = Add(o, s)",
            3,
            ["MatMul", "Add"],
        ),
        (f"p = MatMul(x, w) o = Add(p, c) {_ADAPTER} y = Add(o, r)", 2, ["Gemm"]),
        (
            "o = Gemm <transB = 1, alpha = 2.0> (x, wt, c) t = Gemm <transB = 1> (x, at, e) "
            "r = Gemm <transB = 1, alpha = 0.5, beta = 3.0> (t, bt, d) y = Add(r, o)",
            2,
            ["Gemm"],
        ),
        ("p = MatMul(x, w) q = MatMul(x, v) s = Add(p, c) y = Add(q, s)", 3, ["MatMul", "Add"]),
    ],
)
def test_one_product_remains(nodes: str, rank: int, expected: list[str]) -> None:
    assert types(summed(nodes, rank)) == expected


@pytest.mark.parametrize(
    "nodes",
    [
        # another input, or no layer with one matrix
        "p = MatMul(z, w) t = MatMul(x, a) r = MatMul(t, b) y = Add(p, r)",
        "t = MatMul(x, a) r = MatMul(t, b) u = MatMul(x, again) s = MatMul(u, after) y = Add(r, s)",
        # a quantized weight stays so
        "k = DequantizeLinear(w8, scale) p = MatMul(x, k) t = MatMul(x, a) r = MatMul(t, b) "
        "y = Add(p, r)",
        # the weight would be stored twice
        "p = MatMul(x, w) o = MatMul(z, w) t = MatMul(x, a) r = MatMul(t, b) s = Add(p, r) "
        "y = Sub(s, o)",
        # the bias differs from row to row
        "p = MatMul(x, w) o = Add(p, rows) t = MatMul(x, a) r = MatMul(t, b) y = Add(o, r)",
    ],
)
def test_others_stay(nodes: str) -> None:
    assert types(summed(nodes)) == types(
        parse(f"agraph (float[n] x) => (float[n] y) {{ {nodes} }}")
    )


def test_a_bias_that_adds_an_axis_stays() -> None:
    nodes = f"p = MatMul(x, w) o = Add(p, images) {_ADAPTER} y = Add(o, r)"
    after = summed(nodes, rank=2, outputs="float[1,n,5] y")
    assert types(after) == ["MatMul", "Add", "MatMul", "MatMul", "Add"]


def test_a_result_that_is_read_elsewhere_stays() -> None:
    nodes = f"p = MatMul(x, w) {_ADAPTER} y = Add(p, r)"
    after = summed(nodes, outputs="float[n,3,2] t, float[n,3,5] y")
    assert types(after) == ["MatMul", "MatMul", "MatMul", "Add"]
