from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from tests.support import parse
from xoptim.proof.coefficients import _elements_at, tolerance_of
from xoptim.proof.proving import Proof, prove_models

FOLDED = "over real numbers, constants folded"
RANDOM = np.random.default_rng(0)
W = RANDOM.normal(size=(4, 3)).astype(np.float32)
V = RANDOM.normal(size=(3, 5)).astype(np.float32)
B = RANDOM.normal(size=3).astype(np.float32)
S = RANDOM.uniform(0.5, 2, 3).astype(np.float32)


def _proof(signature: str, before: str, after: str, **constants: Any) -> Proof:
    models = []
    for nodes in (before, after):
        model = parse(f"g {signature} {{ {nodes} }}")
        used = {name for node in model.graph.node for name in node.input}
        model.graph.initializer.extend(
            numpy_helper.from_array(np.asarray(value), name)
            for name, value in constants.items()
            if name in used
        )
        models.append(model)
    return prove_models(models[0], models[1])


MATMUL = "(float[N,4] x) => (float[A,B] y)"


def test_a_factor_in_the_weights() -> None:
    nodes = "m = MatMul(x, w) y = Mul(m, s)", "y = MatMul(x, v)"
    proof = _proof(MATMUL, *nodes, w=W, s=S, v=W * S)
    assert proof.grade == FOLDED
    assert proof.premises[-1] == "constants within 8 * 2^-24"
    assert not _proof(MATMUL, *nodes, w=W, s=S, v=W * S * np.float32(1 + 1e-5)).is_proved
    wrong = W * S
    wrong[2, 1] *= np.float32(1 + 2e-6)
    assert not _proof(MATMUL, *nodes, w=W, s=S, v=wrong).is_proved


def test_two_matrices() -> None:
    nodes = "m = MatMul(x, w) y = MatMul(m, v)", "y = MatMul(x, p)"
    assert _proof(MATMUL, *nodes, w=W, v=V, p=W @ V).grade == FOLDED
    assert not _proof(MATMUL, *nodes, w=W, v=V, p=(W @ V)[:, ::-1]).is_proved


def test_a_bias_of_two_steps() -> None:
    nodes = "m = MatMul(x, w) a = Add(m, b) y = Mul(a, s)", "m = MatMul(x, v) y = Add(m, c)"
    assert _proof(MATMUL, *nodes, w=W, b=B, s=S, v=W * S, c=B * S).grade == FOLDED
    assert not _proof(MATMUL, *nodes, w=W, b=B, s=S, v=W * S, c=B).is_proved


def test_a_normalization_in_a_convolution() -> None:
    signature = "(float[N,2,H] x) => (float[A,B,C] y)"
    nodes = (
        "c = Conv <pads = [1, 1]> (x, w, b) y = BatchNormalization (c, s, o, m, v)",
        "y = Conv <pads = [1, 1]> (x, k, d)",
    )
    w = RANDOM.normal(size=(3, 2, 3)).astype(np.float32)
    m, v, o = B * 2, S * 3, B - 1
    scale = S / np.sqrt(v + np.float32(1e-5))
    constants: dict[str, Any] = {"w": w, "b": B, "s": S, "o": o, "m": m, "v": v}
    k, d = w * scale[:, None, None], (B - m) * scale + o
    assert _proof(signature, *nodes, **constants, k=k, d=d).grade == FOLDED
    assert not _proof(signature, *nodes, **constants, k=k, d=d + np.float32(1e-4)).is_proved
    assert not _proof(signature, *nodes, **constants, k=k[::-1], d=d).is_proved


def test_a_sum_of_constants_beside_constants() -> None:
    signature = "(float[N,3] x) => (float[A,B] y)"
    nodes = "m = MatMul(b, s) a = Add(x, o) y = Add(a, m)", "y = Add(x, k)"
    o = B - 1
    assert _proof(signature, *nodes, b=B, s=S, o=o, k=o + B @ S).grade == FOLDED
    assert not _proof(signature, *nodes, b=B, s=S, o=o, k=o + B[:2] @ S[:2]).is_proved


def test_a_constant_in_the_argument_of_a_function() -> None:
    signature = "(float[N] x) => (float[A] y)"
    nodes = "a = Mul(x, p) b = Mul(a, q) y = Tanh(b)", "a = Mul(x, r) y = Tanh(a)"
    p, q = np.float32(0.3), np.float32(0.7)
    assert _proof(signature, *nodes, p=p, q=q, r=p * q).grade == FOLDED
    assert not _proof(signature, *nodes, p=p, q=q, r=np.float32(0.2101)).is_proved


def test_a_small_coefficient_beside_a_large_one() -> None:
    signature = "(float[N] x, float[N] z) => (float[A] y)"
    nodes = "a = Mul(x, p) b = Mul(z, q) y = Add(a, b)", "a = Mul(x, p) b = Mul(z, r) y = Add(a, b)"
    large, one = np.float32(1e7), np.float32(1)
    assert not _proof(signature, *nodes, p=large, q=one, r=np.float32(1.01)).is_proved


def test_integers_are_not_rounded() -> None:
    signature = "(int64[N] x) => (int64[A] y)"
    nodes = "y = Mul(x, p)", "y = Mul(x, q)"
    assert not _proof(signature, *nodes, p=np.int64(2**40), q=np.int64(2**40 + 1)).is_proved


def test_short_floats() -> None:
    signature = "(float16[N] x) => (float16[A] y)"
    nodes = "a = Mul(x, p) y = Mul(a, q)", "y = Mul(x, r)"
    p, q = np.float16(0.3), np.float16(0.7)
    proof = _proof(signature, *nodes, p=p, q=q, r=p * q)
    assert proof.grade == FOLDED
    assert proof.premises[-1] == "constants within 2 * 2^-11"
    assert not _proof(signature, *nodes, p=p, q=q, r=np.float16(0.2107)).is_proved


@pytest.mark.parametrize(
    ("dtype", "text"),
    [
        (onnx.TensorProto.FLOAT, "8 * 2^-24"),
        (onnx.TensorProto.DOUBLE, "8 * 2^-53"),
        (onnx.TensorProto.BFLOAT16, "2 * 2^-8"),
    ],
)
def test_the_least_precise_constant_decides(dtype: int, text: str) -> None:
    assert tolerance_of({onnx.TensorProto.DOUBLE, dtype}).text == f"constants within {text}"


@pytest.mark.parametrize("axes", [(0, 1, 2), (2, 0, 1), (1, 1, 2), (0, 2, 2)])
@pytest.mark.parametrize("change", ["none", "reversed", "fixed", "beyond"])
def test_elements_at_indices(axes: tuple[int, ...], change: str) -> None:
    array = np.arange(24).reshape(2, 3, 4)
    sizes = [array.shape[axes.index(k)] if k in axes else 5 for k in range(3)]
    grid = np.meshgrid(*map(np.arange, sizes), indexing="ij", sparse=True)
    indices = [grid[axis] for axis in axes]
    if change == "reversed":
        indices[1] = indices[1][::-1, ::-1, ::-1]
    elif change == "fixed":
        indices[0] = np.asarray(1)
    elif change == "beyond":
        indices[2] = indices[2] + 1
    clipped = [np.clip(i, 0, n - 1) for i, n in zip(indices, array.shape, strict=True)]
    expected = array[tuple(clipped)]
    taken = _elements_at(array, indices)
    shape = np.broadcast_shapes(taken.shape, expected.shape)
    assert (np.broadcast_to(taken, shape) == np.broadcast_to(expected, shape)).all()
    assert taken.shape == expected.shape
