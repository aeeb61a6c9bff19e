"""Recurrent layers between Slices that reverse the steps."""

import numpy as np
import onnx
import pytest

from tests.support import parse, run, types
from xoptim import optimize

_VECTORS = (
    "int64[1] a = {-1}, int64[1] e = {-9223372036854775807}, int64[1] z = {0}, int64[1] o = {1}, "
    "int32[2] lengths = {5, 3}, int64[1] few = {-3}, int64[2] full = {5, 5}, "
    "int64[2] partial = {5, 3}, int64[1] second = {2}, int64[5] twos = {2, 2, 2, 2, 2}"
)
_COMPUTED = (
    "d = Shape(x) steps = Slice(d, z, o, z) two = Slice(d, o, second, z) "
    "computed = Expand(steps, two)"
)
_REVERSED = "t = Slice(x, a, e, z, a)"


def after_pattern(nodes: str, outputs: str = "y") -> onnx.ModelProto:
    """The model after the pattern; equal on a value."""
    model = parse(f"agraph (float[5,2,3] x) => ({outputs}) <{_VECTORS}> {{ {nodes} }}")
    rng = np.random.default_rng(0)
    shapes = {"w": (1, 8, 3), "r": (1, 8, 2), "w2": (2, 8, 3), "r2": (2, 8, 2)}
    model.graph.initializer.extend(
        onnx.numpy_helper.from_array(rng.standard_normal(shape).astype(np.float32), name)
        for name, shape in shapes.items()
    )
    after = optimize(model, patterns="ReversedRecurrent", strict=True)
    feeds = {"x": rng.standard_normal((5, 2, 3)).astype(np.float32)}
    for expected, result in zip(run(model, feeds), run(after, feeds), strict=True):
        np.testing.assert_allclose(result, expected, rtol=1e-6, atol=1e-6)
    return after


@pytest.mark.parametrize(
    ("nodes", "outputs", "expected"),
    [
        (
            f"{_REVERSED} p, h, c = LSTM <hidden_size = 2> (t, w, r) y = Slice(p, a, e, z, a)",
            "float[5,1,2,2] y, float[1,2,2] h, float[1,2,2] c",
            ["LSTM"],
        ),
        (
            f"{_REVERSED} p = LSTM <hidden_size = 2> (t, w, r) q = Squeeze(p, o) "
            "y = Slice(q, a, e, z, a)",
            "float[5,2,2] y",
            ["LSTM", "Squeeze"],
        ),
        (f"{_REVERSED} p, y = LSTM <hidden_size = 2> (t, w, r)", "float[1,2,2] y", ["LSTM"]),
        (
            "t = ReverseSequence <batch_axis = 1, time_axis = 0> (x, full) "
            "p, y = LSTM <hidden_size = 2> (t, w, r)",
            "float[1,2,2] y",
            ["LSTM"],
        ),
        (
            f"{_COMPUTED} t = ReverseSequence <batch_axis = 1, time_axis = 0> (x, computed) "
            "p = LSTM <hidden_size = 2> (t, w, r) q = Squeeze(p, o) "
            "y = ReverseSequence <batch_axis = 1, time_axis = 0> (q, computed)",
            "float[5,2,2] y",
            ["LSTM", "Squeeze"],
        ),
    ],
)
def test_the_direction_changes(nodes: str, outputs: str, expected: list[str]) -> None:
    assert types(after_pattern(nodes, outputs)) == expected


@pytest.mark.parametrize(
    ("nodes", "outputs"),
    [
        # results in their order, a Slice of some steps or of another axis, lengths, two directions
        (f"{_REVERSED} y = LSTM <hidden_size = 2> (t, w, r)", "float[5,1,2,2] y"),
        (
            "t = ReverseSequence <batch_axis = 1, time_axis = 0> (x, partial) "
            "p, y = LSTM <hidden_size = 2> (t, w, r)",
            "float[1,2,2] y",
        ),
        (
            "t = ReverseSequence <batch_axis = 0, time_axis = 1> (x, twos) "
            "p, y = LSTM <hidden_size = 2> (t, w, r)",
            "float[1,2,2] y",
        ),
        ("t = Slice(x, a, few, z, a) p, y = LSTM <hidden_size = 2> (t, w, r)", "float[1,2,2] y"),
        ("t = Slice(x, a, e, o, a) p, y = LSTM <hidden_size = 2> (t, w, r)", "float[1,2,2] y"),
        (
            f"{_REVERSED} p, y = LSTM <hidden_size = 2> (t, w, r, , lengths)",
            "float[1,2,2] y",
        ),
        (
            f"{_REVERSED} p, y = LSTM <hidden_size = 2, direction = 'bidirectional'> (t, w2, r2)",
            "float[2,2,2] y",
        ),
    ],
)
def test_others_stay(nodes: str, outputs: str) -> None:
    assert types(after_pattern(nodes.replace("'", '"'), outputs))[0] in ("ReverseSequence", "Slice")


@pytest.mark.parametrize(("start", "is_full"), [("z", True), ("o", False)])
def test_lengths_may_be_the_symbolic_size_of_the_axis(start: str, is_full: bool) -> None:
    end = "o" if is_full else "second"
    model = parse(
        f"agraph (float[s,b,3] x, float[1,8,3] w, float[1,8,2] r) => (float[1,b,2] y) <{_VECTORS}> "
        f"{{ d = Shape(x) steps = Slice(d, {start}, {end}, z) two = Slice(d, o, second, z) "
        "l = Expand(steps, two) t = ReverseSequence <batch_axis = 1, time_axis = 0> (x, l) "
        "p, y = LSTM <hidden_size = 2> (t, w, r) }"
    )
    after = optimize(model, patterns="ReversedRecurrent", strict=True)
    assert ("ReverseSequence" not in types(after)) == is_full
