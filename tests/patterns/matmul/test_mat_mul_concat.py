"""MatMuls of one input that a Concat joins."""

from typing import Any

import numpy as np
import onnx
import pytest

from tests.support import parse, run, types
from xoptim import optimize

WEIGHTS = (
    "float[2,2] u = {1, 2, 3, 4}, float[2,2] v = {5, 6, 7, 8}, float[2,3] w = {1, 0, 2, 0, 3, 1}"
)
BIASES = "float[2] b = {1, 2}, float[1,2] c = {3, 4}, float[3] d = {5, 6, 7}, float one = {1}"


def joined(nodes: str, axis: int = 1, outputs: str = "y", inputs: str = "") -> onnx.ModelProto:
    """The model after the pattern; equal on a value."""
    kept = [each for each in WEIGHTS.split("}, ") if f"[2,2] {each.split()[1]}" not in inputs]
    text = (
        f"agraph (float[n,2] x, float[n,2] z{inputs}) "
        f"=> ({outputs}) <{'}, '.join(kept)}, {BIASES}> {{ {nodes} }}"
    )
    model = parse(text.replace("AXIS", str(axis)))
    after = optimize(model, patterns="MatMulConcat", strict=True)
    given = {
        "x": np.array([[1, 2], [-3, 4]], np.float32),
        "z": np.array([[0, 1], [5, -1]], np.float32),
    }
    for expected, got in zip(run(model, given), run(after, given), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-5)
    return after


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        ("p = MatMul(x, u) q = MatMul(x, w) y = Concat <axis = 1> (p, q)", ["MatMul"]),
        (
            (
                "p = MatMul(x, u) q = MatMul(x, w) r = Add(b, p) s = Add(q, d) t = Relu(r) "
                "k = Relu(s) m = Exp(t) n = Exp(k) y = Concat <axis = -1> (m, n)"
            ),
            ["MatMul", "Add", "Relu", "Exp"],
        ),
        ("p = Gemm(x, u, c) q = Gemm(x, w, d) y = Concat <axis = 1> (p, q)", ["Gemm"]),
        (
            "p = MatMul(x, u) q = MatMul(z, v) r = MatMul(z, w) y = Concat <axis = 1> (p, q, r)",
            ["MatMul", "MatMul", "Concat"],
        ),
        (
            (
                "p = MatMul(x, u) q = MatMul(x, v) e = Neg(z) r = MatMul(e, w) "
                "y = Concat <axis = 1> (z, p, q, r)"
            ),
            ["MatMul", "Neg", "MatMul", "Concat"],
        ),
    ],
    ids=["alone", "behind", "Gemm", "the second two", "in the middle"],
)
def test_joined(nodes: str, expected: list[str]) -> None:
    assert sorted(types(joined(nodes))) == sorted(expected)


@pytest.mark.parametrize(
    ("nodes", "more"),
    [
        ("p = MatMul(x, u) q = MatMul(z, v) y = Concat <axis = 1> (p, q)", {}),
        ("p = MatMul(x, u) q = MatMul(x, v) y = Concat <axis = 0> (p, q)", {}),
        (
            "p = MatMul(x, u) q = MatMul(x, v) r = Relu(p) s = Abs(q) y = Concat <axis = 1> (r, s)",
            {},
        ),
        ("p = MatMul(x, u) q = MatMul(x, v) r = Add(p, b) y = Concat <axis = 1> (r, q)", {}),
        (
            (
                "p = MatMul(x, u) q = MatMul(x, v) r = Add(p, b) s = Add(q, z) "
                "y = Concat <axis = 1> (r, s)"
            ),
            {},
        ),
        (
            (
                "p = MatMul(x, u) q = MatMul(x, v) r = Add(p, one) s = Add(q, one) "
                "y = Concat <axis = 1> (r, s)"
            ),
            {},
        ),
        ("p = MatMul(x, u) q = MatMul(x, v) y = Concat <axis = 1> (p, q)", {"outputs": "y, q"}),
        ("p = MatMul(x, u) q = MatMul(x, v) y = Concat <axis = 1> (p, q, p)", {}),
        ("p = MatMul(x, u) q = MatMul(x, v) r = MatMul(z, v) y = Concat <axis = 1> (p, q, r)", {}),
        (
            "p = MatMul(x, u) q = MatMul(x, v) y = Concat <axis = 1> (p, q)",
            {"inputs": ", float[2,2] v = {5, 6, 7, 8}"},
        ),
        ("p = Gemm <alpha = 2.0> (x, u) q = Gemm(x, v) y = Concat <axis = 1> (p, q)", {}),
    ],
    ids=[
        "inputs",
        "rows",
        "activations",
        "a bias",
        "a bias at run time",
        "a number",
        "an output",
        "read twice",
        "a weight read elsewhere",
        "a weight that a caller may override",
        "attributes",
    ],
)
def test_left_alone(nodes: str, more: dict[str, Any]) -> None:
    products = [each for each in types(joined(nodes, **more)) if each in ("MatMul", "Gemm")]
    assert len(products) == nodes.count("MatMul(") + nodes.count("Gemm")
