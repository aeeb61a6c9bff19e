"""MatMuls that leave a Scan."""

import numpy as np
import onnx
import pytest

from tests.support import parse, run, types
from xoptim import optimize

SHAPES = {"w": (4, 3), "wt": (3, 4), "b": (3,), "r": (3, 3), "row": (1, 3)}


def scanned(body: str, attributes: str = "", tensors: str = "x") -> onnx.ModelProto:
    """The model after the pattern; equal on a value."""
    count = len(tensors.split(","))
    steps = ", ".join(f"float[2,4] t{place}" for place in range(count))
    model = parse(
        "agraph (float[2,3] h, float[5,2,4] x, float[5,2,4] v) => (float[2,3] y, float[5,a,b] z) { "
        f"y, z = Scan <num_scan_inputs = {count}{attributes}, body = step (float[2,3] s, {steps}) "
        f"=> (float[2,3] n, float[c,d] o) {{ {body} }}> (h, {tensors}) }}"
    )
    rng = np.random.default_rng(0)
    model.graph.initializer.extend(
        onnx.numpy_helper.from_array(rng.standard_normal(shape).astype(np.float32), name)
        for name, shape in SHAPES.items()
    )
    after = optimize(model, patterns="ScanInput", strict=True)
    feeds = {
        name: rng.standard_normal(shape).astype(np.float32)
        for name, shape in {"h": (2, 3), "x": (5, 2, 4), "v": (5, 2, 4)}.items()
    }
    for expected, result in zip(run(model, feeds), run(after, feeds), strict=True):
        np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)
    return after


_STEP = "m = MatMul(s, r) u = Add(m, p) n = Tanh(u) o = Identity(n)"


@pytest.mark.parametrize(
    ("body", "attributes", "tensors", "expected"),
    [
        (f"p = MatMul(t0, w) {_STEP}", "", "x", ["MatMul", "Scan"]),
        (f"p = MatMul(t0, w) {_STEP}", ", scan_input_directions = [1]", "x", ["MatMul", "Scan"]),
        (
            f"p = Gemm <transB = 1> (t0, wt, b) {_STEP}",
            "",
            "x",
            ["MatMul", "Add", "Scan"],
        ),
        (
            f"a = Mul(t0, t1) e = MatMul(a, w) q = Add(e, row) p = Relu(q) {_STEP}",
            "",
            "x, v",
            ["Mul", "MatMul", "Add", "Relu", "Scan"],
        ),
    ],
)
def test_the_product_leaves(body: str, attributes: str, tensors: str, expected: list[str]) -> None:
    assert types(scanned(body, attributes, tensors)) == expected


def test_a_tensor_that_the_rest_reads_stays_an_operand() -> None:
    body = (
        "p = MatMul(t0, w) m = MatMul(s, r) u = Add(m, p) n = Tanh(u) g = ReduceMax(t0) "
        "o = Add(n, g)"
    )
    after = scanned(body)
    assert types(after) == ["MatMul", "Scan"]
    assert len(after.graph.node[1].input) == 3


@pytest.mark.parametrize(
    ("body", "attributes"),
    [
        # it depends on the state, is an output, is another kind of product, or scans another axis
        ("a = MatMul(s, r) p = MatMul(a, r) n = Tanh(p) o = MatMul(n, wt)", ""),
        ("n = MatMul(t0, w) o = Tanh(s)", ""),
        ("o = MatMul(t0, w) n = Tanh(s)", ", scan_output_directions = [1]"),
        ("o = MatMul(t0, w) n = Tanh(s)", ", scan_output_axes = [1]"),
        (f"e = Gemm <alpha = 2.0> (t0, w, b) p = Relu(e) {_STEP}", ""),
        (f"a = Add(t0, t0) e = ReduceMax(a) p = Mul(row, e) {_STEP}", ""),
    ],
)
def test_others_stay(body: str, attributes: str) -> None:
    assert types(scanned(body, attributes)) == ["Scan"]


@pytest.mark.parametrize(
    "directions", ["", ", scan_input_directions = [1], scan_output_directions = [1]"]
)
def test_a_result_that_does_not_need_the_state_leaves(directions: str) -> None:
    after = scanned("p = MatMul(t0, w) o = Relu(p) n = Tanh(s)", directions)
    assert types(after) == ["MatMul", "Relu", "Scan"]


def test_nothing_remains_of_a_scan_without_states() -> None:
    model = parse(
        "agraph (float[n,2,4] x, float[4,3] w) => (float[n,2,3] y, float[n,2,3] z) { y, z = Scan "
        "<num_scan_inputs = 1, body = step (float[2,4] t) => (float[2,3] p, float[2,3] o) { "
        "p = MatMul(t, w) o = Tanh(p) }> (x) }"
    )
    after = optimize(model, patterns="ScanInput", strict=True)
    assert types(after) == ["MatMul", "Tanh"]


def test_another_axis_stays() -> None:
    model = parse(
        "agraph (float[2,3] h, float[2,5,4] x, float[4,3] w) => (float[2,3] y) { "
        "y = Scan <num_scan_inputs = 1, scan_input_axes = [1], body = step (float[2,3] s, "
        "float[2,4] t) => (float[2,3] n) { p = MatMul(t, w) n = Add(s, p) }> (h, x) }"
    )
    assert types(optimize(model, patterns="ScanInput", strict=True)) == ["Scan"]


@pytest.mark.parametrize(
    ("rows", "columns", "expected"),
    [("4", 8, ["MatMul", "Scan"]), ("5", 8, ["Scan"]), ("b", 8, ["Scan"]),
     ("b", 4, ["MatMul", "Scan"])],
)  # fmt: skip
def test_many_rows_leave_if_the_result_is_no_larger(
    rows: str, columns: int, expected: list[str]
) -> None:
    model = parse(
        f"agraph (float[{rows},{columns}] h, float[n,{rows},4] x, float[4,{columns}] w) => "
        f"(float[{rows},{columns}] y) {{ y = Scan <num_scan_inputs = 1, body = step "
        f"(float[{rows},{columns}] s, float[{rows},4] t) => (float[{rows},{columns}] o) {{ "
        "p = MatMul(t, w) o = Add(s, p) }> (h, x) }"
    )
    assert types(optimize(model, patterns="ScanInput", strict=True)) == expected
