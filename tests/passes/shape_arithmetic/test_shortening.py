"""Programs of sizes become shorter and give the same sizes."""

from typing import Any

import numpy as np
import onnx
import pytest

from tests.passes.shape_arithmetic.programs import INPUTS, RandomProgram
from tests.support import in_parts, load, run, types, verify
from xoptim.graph.export import export_model
from xoptim.graph.load import load_model
from xoptim.passes.shape_arithmetic.shortening import shorten

SIZES = (
    {"a": 4, "b": 6, "c": 5},
    {"a": 1, "b": 3, "c": 9},
    {"a": 7, "b": 1, "c": 2},
    {"a": 3, "b": 0, "c": 4},
)


def shortened(text: str, opset: int = 18) -> list[str]:
    """Operators of a graph after its programs of sizes were replaced, and nothing else."""
    model = load(text, opset)
    for graph in list(model.graphs()):
        shorten(graph)
        graph.sweep()
    verify(model)
    return sorted(types(model))


def test_sizes_that_are_computed_alike_are_computed_together() -> None:
    text = (
        "agraph (float[n,c,h,w] x, float[m] z) "
        "=> (float[p,q,r,s] y) <int64 i = {2}, int64 j = {3}, int64 one = {1}, int64[1] o = {0}, "
        "int64[2] k = {1, -1}> { s = Shape(x) h = Gather(s, i) w = Gather(s, j) hh = Add(h, one) "
        "ww = Add(w, one) d = Div(hh, i) e = Div(ww, i) f = Unsqueeze(d, o) g = Unsqueeze(e, o) "
        "t = Concat <axis = 0> (k, f, g) y = Reshape(z, t) }"
    )
    assert shortened(text) == ["Add", "Concat", "Div", "Reshape", "Shape"]


def test_the_canonical_form_is_computed_not_the_written_one() -> None:
    """(a + b)² - a² - 2ab = b²"""
    text = (
        "agraph (float[a,b] x) => (int64[1] y) <int64[1] two = {2}> { a = Shape <end = 1> (x) "
        "b = Shape <start = 1> (x) s = Add(a, b) p = Mul(s, s) q = Mul(a, a) r = Mul(a, b) "
        "t = Mul(r, two) u = Sub(p, q) v = Sub(u, t) y = BitwiseNot(v) }"
    )
    assert shortened(text) == ["BitwiseNot", "Mul", "Shape"]


def test_a_program_that_other_nodes_read_in_part() -> None:
    """The size that a Range reads is needed anyway."""
    text = (
        "agraph (float[a,b] x) => (int64[n] r, int64[2] y) <int64 o = {0}, int64 one = {1}, "
        "int64[1] z = {0}, int64[1] k = {-1}> { s = Shape(x) i = Gather(s, one) "
        "r = Range(o, i, one) j = Unsqueeze(i, z) t = Concat <axis = 0> (k, j) y = BitwiseNot(t) }"
    )
    assert shortened(text) == [
        "BitwiseNot",
        "Concat",
        "Gather",
        "Range",
        "Shape",
        "Unsqueeze",
    ], "no program is shorter"


@pytest.mark.parametrize(
    ("program", "left"),
    [
        # -1 / 2 is 0 in C, and -1 in Python: the quotient of a number that may be negative stays as
        # it is.
        (
            "m = Sub(a, b) d = Div(m, two) e = Add(d, one) f = Sub(e, one) y = BitwiseNot(f)",
            "BitwiseNot Div Shape Shape Sub",
        ),
        (
            "m = Mul(a, two) d = Div(m, two) e = Add(d, one) f = Sub(e, one) y = BitwiseNot(f)",
            "BitwiseNot Shape",
        ),
        (
            "m = Mul(a, huge) d = Mul(m, b) e = Mul(d, two) f = Add(e, d) y = BitwiseNot(f)",
            "BitwiseNot Mul Mul Shape Shape",
        ),
    ],
    ids=["negative", "wrapping", "overflow"],
)
def test_only_proved_steps_are_taken(program: str, left: str) -> None:
    model = load(
        "agraph (float[a,b] x) => (int64[1] y) <int64[1] one = {1}, int64[1] two = {2}, "
        "int64[1] huge = {4611686018427387904}> { a = Shape <end = 1> (x) "
        f"b = Shape <start = 1> (x) {program} }}"
    )
    before = export_model(model)
    shorten(model.graph)
    after = export_model(model)
    for shape in ((3, 4), (4, 3), (5, 7)):
        feeds = {"x": np.zeros(shape, np.float32)}
        np.testing.assert_array_equal(run(before, feeds), run(after, feeds))
    assert sorted(types(after)) == left.split()


def test_a_tensor_that_is_only_measured_is_not_computed() -> None:
    text = (
        "agraph (float[a,b] x, float[n] z) "
        "=> (float[p,q] y) <int64[1] k = {-1}, int64[1] two = {2}> { t = Relu(x) "
        "s = Shape <end = 1> (t) d = Mul(s, two) v = Concat <axis = 0> (d, k) y = Reshape(z, v) }"
    )
    assert shortened(text) == ["Concat", "Mul", "Reshape", "Shape"]


def test_before_shape_had_a_start() -> None:
    text = (
        "agraph (float[a,b,c] x, float[n] z) "
        "=> (float[p,q,r] y) <int64 i = {1}, int64 j = {2}, int64[1] o = {0}, int64[1] m = {-1}> { "
        "s = Shape(x) k = Gather(s, i) l = Gather(s, j) d = Div(k, j) e = Div(l, j) "
        "f = Unsqueeze(d, o) g = Unsqueeze(e, o) t = Concat <axis = 0> (f, g, m) "
        "y = Reshape(z, t) }"
    )
    assert shortened(text, 13) == ["Concat", "Div", "Gather", "Reshape", "Shape"]


def test_names_of_outputs_and_captured_sizes_stay() -> None:
    text = (
        "agraph (float[a,b] x, bool c) "
        "=> (int64[1] s, int64[1] y) <int64 i = {0}, int64[1] o = {0}, int64[1] one = {1}> { "
        "h = Shape(x) k = Gather(h, i) l = Unsqueeze(k, o) s = Add(l, one) "
        "y = If (c) <then_branch = tb () "
        "=> (int64[1] u) { u = BitwiseNot(s) }, else_branch = eb () => (int64[1] v) { "
        "v = BitwiseNot(one) }> }"
    )
    assert shortened(text) == ["Add", "If", "Shape"]


@in_parts("part", 4)
def test_random_programs_give_the_same_sizes(part: int) -> None:
    shorter = 0
    for seed in range(15 * part, 15 * part + 15):
        program = RandomProgram(seed)
        program.grow(8 + seed % 20)
        before = program.model()
        model = load_model(before)
        shorter += shorten(model.graph)
        verify(model)
        after = export_model(model)
        assert len(after.graph.node) <= len(before.graph.node)
        for sizes in SIZES:
            expected = _ran(before, sizes)
            if expected is not None:
                found = _ran(after, sizes)
                assert found is not None, "it does not run any more"
                for a, b in zip(expected, found, strict=True):
                    np.testing.assert_array_equal(a, b)
    assert shorter > 5


def _ran(model: onnx.ModelProto, sizes: dict[str, int]) -> list[Any] | None:
    """The results, ``None`` where the model does not run: a divisor may be 0."""
    feeds = {
        name: np.zeros([sizes[dim] if isinstance(dim, str) else dim for dim in shape], np.float32)
        for name, shape in INPUTS.items()
    }
    try:
        return run(model, feeds)
    except Exception:  # onnxruntime raises exceptions of several types
        return None
