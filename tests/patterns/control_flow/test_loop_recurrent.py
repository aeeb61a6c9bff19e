"""Loops and Scans of one step of a recurrence, as exporters write scripted loops."""

import numpy as np
import onnx
import pytest

from tests.support import parse, run, types
from xoptim import optimize

_SHAPES = {
    "w": (1, 8, 3), "r": (1, 8, 2), "k": (1, 16), "p": (1, 6), "gw": (1, 6, 3), "gr": (1, 6, 2),
    "cw": (8, 3), "cr": (8, 2), "ck": (8,), "back": (2, 3),
}  # fmt: skip
_CONSTANTS = (
    "int64[1] z = {0}, int64[1] o = {1}, bool go = {1}, int64[4] fours = {2, 2, 2, 2}, "
    "int64 first = {0}, int64 one = {1}, int64 three = {3}, int64 four = {4}"
)
_HEAD = "d = Shape(x) count = Gather(d, one)"
_LOOP = (
    f"{_HEAD} s = SequenceEmpty <dtype = 1> () e, f, q = Loop(count, go, h0, c0, s) <body = step "
    "(int64 i, bool c, float[b,2] h, float[b,2] m, seq(float[b,2]) before) => "
    "(bool on, float[b,2] h1, float[b,2] m1, seq(float[b,2]) after) { on = Identity(c) BODY "
    "after = SequenceInsert(before, h1) }> y = ConcatFromSequence <axis = 1, new_axis = 1> (q)"
)
_STEP = (
    "row = Gather <axis = 1> (x, i) xs = Unsqueeze(row, z) hs = Unsqueeze(h, z) "
    "ms = Unsqueeze(m, z) all, hn, mn = LSTM <hidden_size = 2> (xs, w, r, k, , hs, ms) "
    "h1 = Squeeze(hn, z) m1 = Squeeze(mn, z)"
)
_CELL = (
    "row = Gather <axis = 1> (x, i) a = Gemm <transB = 1> (row, cw, ck) "
    "g = Gemm <transB = 1> (h, cr, a) gi, gf, gj, go_ = Split <axis = 1> (g, fours) "
    "i1 = Sigmoid(gi) f1 = Sigmoid(gf) j1 = Tanh(gj) o1 = Sigmoid(go_) u = Mul(f1, m) "
    "v = Mul(i1, j1) m1 = Add(u, v) t = Tanh(m1) h1 = Mul(o1, t)"
)
_STATES = "float[b,s,3] x, float[b,2] h0, float[b,2] c0"
_RESULTS = "float[b,s,2] y, float[b,2] e, float[b,2] f"


def _model(nodes: str, outputs: str = _RESULTS, inputs: str = _STATES) -> onnx.ModelProto:
    model = parse(f"agraph ({inputs}) => ({outputs}) <{_CONSTANTS}> {{ {nodes} }}")
    rng = np.random.default_rng(0)
    words = set(nodes.replace("(", " ").replace(",", " ").replace(")", " ").split())
    model.graph.initializer.extend(
        onnx.numpy_helper.from_array(rng.standard_normal(shape).astype(np.float32), name)
        for name, shape in _SHAPES.items()
        if name in words
    )
    return model


def _optimized(model: onnx.ModelProto, patterns: str) -> onnx.ModelProto:
    """The model after the pattern; equal on a value."""
    after = optimize(model, patterns=patterns, strict=True)
    rng, sizes = np.random.default_rng(1), {"b": 2, "s": 4}
    feeds = {
        value.name: rng.standard_normal(
            [dim.dim_value or sizes[dim.dim_param] for dim in value.type.tensor_type.shape.dim]
        ).astype(np.float32)
        for value in model.graph.input
    }
    for expected, result in zip(run(model, feeds), run(after, feeds), strict=True):
        np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)
    return after


def _loop(body: str = _STEP, old: str = "", new: str = "") -> str:
    text = _LOOP.replace("BODY", body)
    assert old in text
    return text.replace(old, new) if old else text


@pytest.mark.parametrize(("body", "pattern"), [(_STEP, "LoopRecurrent"), (_CELL, "LoopLSTM")])
def test_a_loop_becomes_one_operator(body: str, pattern: str) -> None:
    after = _optimized(_model(_loop(body)), pattern)
    inputs = ["Transpose", "Unsqueeze", "Unsqueeze"]
    results = ["Squeeze", "Squeeze", "Squeeze", "Transpose"]
    assert sorted(types(after)) == sorted([*inputs, "LSTM", *results])


_BACKWARDS = {
    "from the length": "last = Sub(count, one) j = Sub(last, i)",
    "in another order": "negative = Neg(i) k1 = Add(negative, count) j = Sub(k1, one)",
    "from the end": "negative = Neg(i) j = Sub(negative, one)",
}


def _backwards(index: str, results: str = "float[b,2] e, float[b,2] f") -> onnx.ModelProto:
    body = f"{index} {_STEP}".replace("(x, i)", "(x, j)")
    nodes = (
        f"{_HEAD} e, f, y = Loop(count, go, h0, c0) <body = step (int64 i, bool c, float[b,2] h, "
        "float[b,2] m) => (bool on, float[b,2] h1, float[b,2] m1, float[b,2] after) { "
        f"on = Identity(c) {body} after = Identity(h1) }}>"
    )
    return _model(nodes, results)


@pytest.mark.parametrize("index", _BACKWARDS.values(), ids=list(_BACKWARDS))
def test_an_index_that_counts_down(index: str) -> None:
    after = _optimized(_backwards(index), "LoopRecurrent")
    (lstm,) = (node for node in after.graph.node if node.op_type == "LSTM")
    assert [a.s for a in lstm.attribute if a.name == "direction"] == [b"reverse"]


@pytest.mark.parametrize(
    "index",
    [
        "j = Sub(count, i)",
        "last = Sub(count, one) twice = Add(i, i) j = Sub(last, twice)",
        "j = Sub(i, one)",
        "j = Mul(i, one)",
    ],
)
def test_other_indices_are_kept(index: str) -> None:
    model = _backwards(index)
    assert "Loop" in types(optimize(model, patterns="LoopRecurrent", strict=True))


def test_states_of_an_index_that_counts_down_are_in_another_order() -> None:
    model = _backwards(_BACKWARDS["from the end"], _RESULTS.replace("float[b,s,2]", "float[s,b,2]"))
    assert "Loop" in types(optimize(model, patterns="LoopRecurrent", strict=True))
    model = _model(
        _loop(_STEP, "(x, i)", "(x, last)").replace("row =", "last = Sub(four, i) row =")
    )
    assert "Loop" in types(optimize(model, patterns="LoopRecurrent", strict=True))


def test_the_default_selection_has_operators_only() -> None:
    assert "LSTM" in types(optimize(_model(_loop())))
    assert "Loop" in types(optimize(_model(_loop(_CELL))))
    assert "LSTM" in types(optimize(_model(_loop(_CELL)), assume=["finite"]))


def test_a_tensor_that_the_body_reads_has_to_be_finite() -> None:
    nodes = (
        f"{_HEAD} e, f = Loop(count, go, h0, c0) <body = step (int64 i, bool c, float[b,2] h, "
        "float[b,2] m) => (bool on, float[b,2] h1, float[b,2] m1) "
        f"{{ on = Identity(c) {_CELL} }}>"
    )
    model = _model(nodes, "float[b,2] e, float[b,2] f")
    states = ["finite(h0)", "finite(c0)"]
    assert "Loop" in types(optimize(model, assume=states))
    assert "LSTM" in types(optimize(model, assume=[*states, "finite(x)"]))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (
            "after = SequenceInsert(before, h1)",
            "l = Unsqueeze(h1, o) after = SequenceInsert(before, l)",
        ),
        ("Gather <axis = 1> (x, i)", "Gather <axis = -2> (x, i)"),
        ("on = Identity(c)", "on = Identity(go)"),
        ("(xs, w, r, k, , hs, ms)", "(xs, w, r, , , hs, ms, p)"),
        ("<hidden_size = 2>", '<hidden_size = 2, activations = ["Tanh", "Relu", "Tanh"]>'),
    ],
)
def test_forms_of_loops(old: str, new: str) -> None:
    text = _loop(old=old, new=new)
    if "l = Uns" in new:
        text = text.replace(", new_axis = 1", "").replace("seq(float[b,2])", "seq(float[b,1,2])")
    assert types(_optimized(_model(text), "LoopRecurrent")).count("LSTM") == 1


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Loop(count, go, h0", "Loop(three, go, h0"),
        ("Gather <axis = 1> (x, i)", "Gather <axis = 1> (x, first)"),
        ("row = Gather <axis = 1> (x, i)", "n = Sub(three, i) row = Gather <axis = 1> (x, n)"),
        ("row = Gather <axis = 1> (x, i)", "row = MatMul(h, back)"),
        ("hs = Unsqueeze(h, z)", "hs = Unsqueeze(m, z)"),
        ("m1 = Squeeze(mn, z)", "m1 = Squeeze(hn, z)"),
        ("h1 = Squeeze(hn, z)", "h2 = Squeeze(hn, z) h1 = Tanh(h2)"),
        ("after = SequenceInsert(before, h1)", "after = SequenceInsert(before, m1)"),
        ("after = SequenceInsert(before, h1)", "after = SequenceInsert(before, h1, first)"),
        ("s = SequenceEmpty <dtype = 1> ()", "s = SequenceConstruct(h0)"),
        ("on = Identity(c)", "l = Less(i, one) on = Not(l)"),
    ],
)
def test_other_loops_stay(old: str, new: str) -> None:
    text = _loop(old=old, new=new)
    outputs = "float[b,?,2] y, float[b,2] e, float[b,2] f"
    model = _model(text, outputs)
    after = optimize(model, patterns="LoopRecurrent", strict=True)
    assert "Loop" in types(after)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("direction", [0, 1])
def test_scans(axis: int, direction: int) -> None:
    shape = "b,s,3" if axis else "s,b,3"
    result = "b,s,2" if axis else "s,b,2"
    nodes = (
        f"e, y = Scan <num_scan_inputs = 1, scan_input_axes = [{axis}], "
        f"scan_input_directions = [{direction}], scan_output_axes = [{axis - 3}], "
        f"scan_output_directions = [{direction}], body = step (float[b,2] h, float[b,3] row) => "
        "(float[b,2] h1, float[b,2] h2) { xs = Unsqueeze(row, z) hs = Unsqueeze(h, z) "
        "all, hn = GRU <hidden_size = 2, linear_before_reset = 1> (xs, gw, gr, , , hs) "
        "h1 = Squeeze(hn, z) h2 = Identity(h1) }> (h0, x)"
    )
    model = _model(nodes, f"float[b,2] e, float[{result}] y", f"float[{shape}] x, float[b,2] h0")
    after = _optimized(model, "LoopRecurrent")
    assert types(after).count("GRU") == 1
    turned = nodes.replace(
        f"scan_output_directions = [{direction}]", f"scan_output_directions = [{1 - direction}]"
    )
    model = _model(turned, f"float[b,2] e, float[{result}] y", f"float[{shape}] x, float[b,2] h0")
    assert types(_optimized(model, "LoopRecurrent")) == ["Scan"]


def test_initial_states_that_broadcast_stay() -> None:
    inputs = "float[b,s,3] x, float[1,2] h0, float[1,2] c0"
    text = (
        _loop().replace("float[b,2] h,", "float[?,2] h,").replace("float[b,2] m,", "float[?,2] m,")
    )
    assert "Loop" in types(optimize(_model(text, inputs=inputs), patterns="LoopRecurrent"))
