"""Cells of LSTM, GRU and RNN written out step by step, as exporters unroll Python loops."""

import re
from collections.abc import Callable, Sequence

import numpy as np
import onnx
import pytest

from tests.support import parse, run, types
from xoptim import optimize

_FEATURES, _HIDDEN, _BATCH = 3, 2, 2
_SHAPES = {
    "w": (8, 3), "r": (8, 2), "k": (8,), "l": (8,), "u": (8, 3), "v": (5, 8),
    "gw": (6, 3), "gr": (6, 2), "gk": (6,), "gl": (6,), "wn": (3, 2), "rn": (2, 2), "kn": (2,),
    "rn2": (2, 2), "rn3": (2, 2), "wt": (3, 8), "wz": (3, 4), "rz": (2, 4), "kz": (4,),
    "back": (2, 3), "column": (2, 1), "first": (3, 1),
    **{f"w{gate}": (2, 3) for gate in "ifgo"}, **{f"r{gate}": (2, 2) for gate in "ifgo"},
    **{f"k{gate}": (2,) for gate in "ifgo"},
}  # fmt: skip
_CONSTANTS = (
    "int64[4] fours = {2, 2, 2, 2}, int64[3] threes = {2, 2, 2}, int64[2] pairs = {2, 2}, "
    "int64[1] a0 = {0}, int64[1] a1 = {1}, int64[1] width = {2}, "
    "float one = {1}, float nothing = {0}, "
    + ", ".join(f"int64 n{place} = {{{place}}}" for place in range(5))
)


def _input(step: int, axis: int = 1) -> str:
    return f"x{step} = Gather <axis = {axis}> (x, n{step})"


def _update(step: int, gates: Sequence[str] = "ifgo", memory: str = "") -> str:
    """The elementwise operators of an LSTM."""
    i, f, g, o = gates
    memory = memory or f"c{step}"
    return (
        f"i{step} = Sigmoid({i}{step}_) f{step} = Sigmoid({f}{step}_) g{step} = Tanh({g}{step}_) "
        f"o{step} = Sigmoid({o}{step}_) p{step} = Mul(f{step}, {memory}) "
        f"q{step} = Mul(i{step}, g{step}) c{step + 1} = Add(p{step}, q{step}) "
        f"t{step} = Tanh(c{step + 1}) h{step + 1} = Mul(o{step}, t{step})"
    )


def _split(name: str, step: int, order: str = "ifgo") -> str:
    return f"{', '.join(f'{gate}{step}_' for gate in order)} = Split <axis = 1> ({name}, fours)"


def _lstm(step: int, order: str = "ifgo", w: str = "w", axis: int = 1) -> str:
    """As ``LSTMCell`` is exported."""
    return (
        f"{_input(step, axis)} a{step}_ = Gemm <transB = 1> (x{step}, {w}, k) "
        f"b{step}_ = Gemm <transB = 1> (h{step}, r, l) s{step} = Add(b{step}_, a{step}_) "
        f"{_split(f's{step}', step, order)} {_update(step)}"
    )


def _joined(step: int) -> str:
    """One matrix for the input and the state."""
    return (
        f"{_input(step)} y{step} = Concat <axis = 1> (x{step}, h{step}) "
        f"m{step} = MatMul(y{step}, v) s{step} = Add(m{step}, k) "
        f"{_split(f's{step}', step)} {_update(step)}"
    )


def _apart(step: int) -> str:
    """Two matrices for each gate."""
    gates = (
        f"{gate}a{step} = Gemm <transB = 1> (x{step}, w{gate}, k{gate}) "
        f"{gate}{step}_ = Gemm <transB = 1> (h{step}, r{gate}, {gate}a{step}) "
        for gate in "ifgo"
    )
    return f"{_input(step)} {''.join(gates)} {_update(step)}"


def _ahead(step: int) -> str:
    """The products of all inputs come from one MatMul before."""
    return (
        f"a{step}_ = Gather <axis = 1> (all, n{step}) b{step}_ = Gemm <transB = 1> (h{step}, r, l) "
        f"s{step} = Add(a{step}_, b{step}_) {_split(f's{step}', step)} {_update(step)}"
    )


def _gru(step: int) -> str:
    """As ``GRUCell`` is exported."""
    s = step
    return (
        f"{_input(s)} a{s}_ = Gemm <transB = 1> (x{s}, gw, gk) "
        f"ar{s}, az{s}, an{s} = Split <axis = 1> (a{s}_, threes) "
        f"b{s}_ = Gemm <transB = 1> (h{s}, gr, gl) "
        f"br{s}, bz{s}, bn{s} = Split <axis = 1> (b{s}_, threes) "
        f"r{s}_ = Add(br{s}, ar{s}) r{s} = Sigmoid(r{s}_) z{s}_ = Add(bz{s}, az{s}) "
        f"z{s} = Sigmoid(z{s}_) m{s} = Mul(bn{s}, r{s}) j{s} = Add(an{s}, m{s}) t{s} = Tanh(j{s}) "
        f"d{s} = Sub(h{s}, t{s}) e{s} = Mul(d{s}, z{s}) h{s + 1} = Add(e{s}, t{s})"
    )


def _gru_by_hand(step: int) -> str:
    """The state is reset before it is multiplied, and both gates have one Sigmoid."""
    s = step
    return (
        f"{_input(s)} a{s}_ = MatMul(x{s}, wz) b{s}_ = MatMul(h{s}, rz) s{s} = Add(a{s}_, b{s}_) "
        f"k{s} = Add(s{s}, kz) y{s} = Sigmoid(k{s}) r{s}, z{s} = Split <axis = 1> (y{s}, pairs) "
        f"v{s} = Mul(r{s}, h{s}) m{s} = MatMul(v{s}, rn) u{s} = MatMul(x{s}, wn) "
        f"j{s}_ = Add(u{s}, m{s}) j{s} = Add(j{s}_, kn) t{s} = Tanh(j{s}) d{s} = Sub(one, z{s}) "
        f"e{s} = Mul(d{s}, t{s}) f{s} = Mul(z{s}, h{s}) h{s + 1} = Add(e{s}, f{s})"
    )


def _rnn(step: int) -> str:
    return (
        f"{_input(step)} a{step}_ = MatMul(x{step}, wn) b{step}_ = MatMul(h{step}, rn) "
        f"s{step} = Add(a{step}_, b{step}_) k{step} = Add(s{step}, kn) h{step + 1} = Tanh(k{step})"
    )


def _model(
    nodes: str, outputs: str, inputs: str = "float[2,3,3] x, float[2,2] h0, float[2,2] c0"
) -> onnx.ModelProto:
    """A model with random weights."""
    model = parse(f"agraph ({inputs}) => ({outputs}) <{_CONSTANTS}> {{ {nodes} }}")
    rng = np.random.default_rng(0)
    taken = {value.name for value in model.graph.input}
    read = {name for node in model.graph.node for name in node.input} - taken
    model.graph.initializer.extend(
        onnx.numpy_helper.from_array(rng.standard_normal(shape).astype(np.float32), name)
        for name, shape in _SHAPES.items()
        if name in read
    )
    return model


def _optimized(model: onnx.ModelProto, patterns: str, **sizes: int) -> onnx.ModelProto:
    """The model after the pattern; equal on a value."""
    after = optimize(model, patterns=patterns, strict=True)
    rng = np.random.default_rng(1)
    feeds = {
        value.name: rng.standard_normal(
            [dim.dim_value or sizes[dim.dim_param] for dim in value.type.tensor_type.shape.dim]
        ).astype(np.float32)
        for value in model.graph.input
    }
    for expected, result in zip(run(model, feeds), run(after, feeds), strict=True):
        np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)
    return after


def _operator(model: onnx.ModelProto, op_type: str) -> onnx.NodeProto:
    (node,) = (node for node in model.graph.node if node.op_type == op_type)
    return node


@pytest.mark.parametrize(
    ("cell", "pattern", "operator"),
    [
        (_lstm, "UnrolledLSTM", "LSTM"),
        (lambda step: _lstm(step, "ofig"), "UnrolledLSTM", "LSTM"),
        (_joined, "UnrolledLSTM", "LSTM"),
        (_apart, "UnrolledLSTM", "LSTM"),
        (_gru, "UnrolledGRU", "GRU"),
        (_gru_by_hand, "UnrolledGRU", "GRU"),
        (_rnn, "UnrolledRNN", "RNN"),
    ],
)
def test_cells_become_one_operator(cell: Callable[[int], str], pattern: str, operator: str) -> None:
    nodes = " ".join(map(cell, range(3)))
    after = _optimized(_model(nodes.replace("h3", "y"), "float[2,2] y"), pattern)
    inputs = ["Unsqueeze"] * (2 if operator == "LSTM" else 1)
    assert sorted(types(after)) == sorted([*inputs, "Transpose", operator, "Squeeze"])


def test_the_gru_resets_the_product_or_the_state() -> None:
    for cell, expected in ((_gru, 1), (_gru_by_hand, 0)):
        model = _model(" ".join(map(cell, range(2))).replace("h2", "y"), "float[2,2] y")
        node = _operator(_optimized(model, "UnrolledGRU"), "GRU")
        values = {attribute.name: attribute.i for attribute in node.attribute}
        assert values.get("linear_before_reset", 0) == expected


@pytest.mark.parametrize("axis", [0, 1])
def test_states_are_stacked(axis: int) -> None:
    rows = " ".join(f"e{step} = Unsqueeze(h{step}, a{axis})" for step in (1, 2, 3))
    nodes = " ".join(_lstm(step, axis=axis) for step in range(3))
    shape, inputs = ("2,3,2", "2,3,3") if axis else ("3,2,2", "3,2,3")
    model = _model(
        f"{nodes} {rows} y = Concat <axis = {axis}> (e1, e2, e3)",
        f"float[{shape}] y, float[2,2] h3, float[2,2] c3",
        f"float[{inputs}] x, float[2,2] h0, float[2,2] c0",
    )
    after = _optimized(model, "UnrolledLSTM")
    assert "Concat" not in types(after)
    assert types(after).count("Transpose") == 2 * axis
    assert types(after).count("LSTM") == 1


def test_steps_go_backwards() -> None:
    rows = " ".join(f"e{step} = Unsqueeze(h{step}, a0)" for step in (1, 2, 3))
    order = {0: 2, 1: 1, 2: 0}
    cells = (
        _lstm(step, axis=0).replace(f"(x, n{step})", f"(x, n{order[step]})") for step in range(3)
    )
    model = _model(
        f"{' '.join(cells)} {rows} y = Concat <axis = 0> (e3, e2, e1)",
        "float[3,2,2] y, float[2,2] h2",
        "float[3,2,3] x, float[2,2] h0, float[2,2] c0",
    )
    after = _optimized(model, "UnrolledLSTM")
    assert "Concat" not in types(after)
    direction = [item.s for item in _operator(after, "LSTM").attribute if item.name == "direction"]
    assert direction == [b"reverse"]


_ZEROS = (
    "d = Shape <start = 0, end = 1> (x) e = Concat <axis = 0> (d, width) h0 = ConstantOfShape(e) "
)


@pytest.mark.parametrize(
    ("cell", "pattern"), [(_lstm, "UnrolledLSTM"), (_gru, "UnrolledGRU"), (_apart, "UnrolledLSTM")]
)
def test_zeros_are_no_initial_state(cell: Callable[[int], str], pattern: str) -> None:
    nodes = _ZEROS + " ".join(map(cell, range(3))).replace("c0)", "h0)").replace("h3", "y")
    after = _optimized(_model(nodes, "float[b,2] y", "float[b,3,3] x"), pattern, b=4)
    operator = pattern.removeprefix("Unrolled")
    assert types(after) == ["Transpose", operator, "Squeeze"]
    assert len(_operator(after, operator).input) == 4


def test_a_first_step_without_its_state_begins_at_zero() -> None:
    # as constants are folded: no product, and nothing that is kept
    first = (
        f"{_input(0)} s0 = Gemm <transB = 1> (x0, w, k) {_split('s0', 0)} i0 = Sigmoid(i0_) "
        "g0 = Tanh(g0_) o0 = Sigmoid(o0_) c1 = Mul(i0, g0) t0 = Tanh(c1) h1 = Mul(o0, t0)"
    )
    others = " ".join(map(_lstm, (1, 2))).replace("r, l)", "r)").replace("h3", "y")
    after = _optimized(_model(f"{first} {others}", "float[2,2] y"), "UnrolledLSTM")
    assert types(after) == ["Transpose", "LSTM", "Squeeze"]


def test_one_initial_state_serves_the_batch() -> None:
    nodes = " ".join(map(_lstm, range(3))).replace("h3", "y")
    expand = "d = Shape(start) h0 = Expand(s, d) "
    for shape in ("1,2", "2"):
        inputs = f"float[2,3,3] x, float[2,2] start, float[1,2] s, float[{shape}] c0"
        after = _optimized(_model(expand + nodes, "float[2,2] y", inputs), "UnrolledLSTM")
        assert types(after).count("LSTM") == 1
        assert types(after).count("Gemm") == 0


def test_products_that_were_computed_ahead_are_part_of_the_operator() -> None:
    ahead = "m = MatMul(x, wt) all = Add(m, k) "
    nodes = ahead + " ".join(map(_ahead, range(3))).replace("h3", "y")
    after = _optimized(_model(nodes, "float[2,2] y"), "UnrolledLSTM")
    assert "MatMul" not in types(after)
    assert types(after).count("LSTM") == 1


def _one_column(step: int) -> str:
    """The product of the state is one number for each sequence, which is added to each column."""
    gates = (
        f"{gate}a{step} = MatMul(h{step}, column) "
        f"{gate}{step}_ = Gemm <transB = 1> (x{step}, w{gate}, {gate}a{step})"
        for gate in "ifgo"
    )
    return f"{_input(step)} {' '.join(gates)} {_update(step)}"


def _one_column_ahead(step: int) -> str:
    """The same for the product of the input."""
    gates = (
        f"{gate}a{step} = Gather <axis = 1> (all{gate}, n{step}) "
        f"{gate}b{step} = MatMul(h{step}, r{gate}) "
        f"{gate}{step}_ = Add({gate}a{step}, {gate}b{step})"
        for gate in "ifgo"
    )
    return f"{' '.join(gates)} {_update(step)}"


@pytest.mark.parametrize("cell", [_one_column, _one_column_ahead])
def test_a_column_that_is_added_to_all_columns_is_no_product(cell: Callable[[int], str]) -> None:
    ahead = " ".join(
        f"m{gate} = MatMul(x, first) all{gate} = Add(m{gate}, k{gate})" for gate in "ifgo"
    )
    nodes = f"{ahead} {' '.join(map(cell, range(3)))}".replace("h3", "y")
    assert "LSTM" not in types(_optimized(_model(nodes, "float[2,2] y"), "UnrolledLSTM"))


def test_layers_follow_each_other() -> None:
    nodes = [" ".join(map(_rnn, range(3)))]
    second = nodes[0].replace("wn", "rn2").replace("rn)", "rn3)")
    for name in ("a", "b", "s", "k", "h"):
        second = re.sub(rf"\b{name}(\d_?)", rf"z{name}\1", second)
    second = re.sub(r"x\d = Gather <axis = 1> \(x, n\d\)", "", second)
    second = re.sub(r"\bx(\d)", lambda match: f"h{int(match[1]) + 1}", second)
    model = _model(f"{nodes[0]} {second.replace('zh3', 'y').replace('zh0', 'h0')}", "float[2,2] y")
    after = _optimized(model, "UnrolledRNN+default")
    assert types(after).count("RNN") == 2
    assert not {"Tanh", "Concat", "Gather"} & {*types(after)}


@pytest.mark.parametrize("steps", [(0, 2, 1), (1, 2), (2, 3), (0, 0, 0)])
def test_inputs_in_another_order_or_of_some_steps(steps: Sequence[int]) -> None:
    cells = (
        _lstm(step).replace(f"(x, n{step})", f"(x, n{place})") for step, place in enumerate(steps)
    )
    nodes = " ".join(cells).replace(f"h{len(steps)}", "y")
    model = _model(nodes, "float[2,2] y", "float[2,4,3] x, float[2,2] h0, float[2,2] c0")
    after = _optimized(model, "UnrolledLSTM")
    assert types(after).count("LSTM") == 1
    assert ("Concat" in types(after)) == (steps in ((0, 2, 1), (0, 0, 0)))


@pytest.mark.parametrize(
    ("old", "new", "outputs"),
    [
        ("g1 = Tanh(g1_)", "g1 = Sigmoid(g1_)", ""),
        ("t1 = Tanh(c2)", "t1 = Sigmoid(c2)", ""),
        ("f1 = Sigmoid(f1_)", "f1 = HardSigmoid(f1_)", ""),
        ("Tanh(c2)", "Tanh(q1)", ""),
        ("(x1, w, k)", "(x1, u, k)", ""),
        ("(h1, r, l)", "(h0, r, l)", ""),
        ("(x1, w, k)", "(x1, w, l)", ""),
        ("Gemm <transB = 1> (h1, r, l)", "Gemm <transB = 1, alpha = 2.0> (h1, r, l)", ""),
        ("o1 = Sigmoid(o1_)", "o1 = Sigmoid(i1_)", ""),
        ("x1 = Gather <axis = 1> (x, n1)", "x1 = MatMul(h1, back)", ""),
        ("x2 = Gather <axis = 1> (x, n2)", "x2 = MatMul(h1, back)", ""),
        ("t1 =", "t1 =", ", float[2,2] c2"),
        ("t1 =", "t1 =", ", float[2,2] g1"),
        ("t1 =", "t1 =", ", float[2,8] s0"),
    ],
)
def test_other_cells_stay(old: str, new: str, outputs: str) -> None:
    nodes = " ".join(map(_lstm, range(3))).replace("h3", "y")
    assert old in nodes
    model = _model(nodes.replace(old, new), f"float[2,2] y{outputs}")
    assert "LSTM" not in types(_optimized(model, "UnrolledLSTM"))


@pytest.mark.parametrize(
    ("cell", "old", "new"),
    [
        (_gru, "d1 = Sub(h1, t1)", "d1 = Sub(t1, h1)"),
        (_gru, "Mul(d1, z1)", "Mul(d1, r1)"),
        (_gru, "m1 = Mul(bn1, r1)", "m1 = Mul(an1, r1)"),
        (_gru, "j1 = Add(an1, m1)", "j1 = Add(bn1, m1)"),
        (_gru_by_hand, "Mul(z1, h1)", "Mul(z1, h0)"),
        (_gru_by_hand, "v1 = Mul(r1, h1)", "v1 = Mul(r1, h0)"),
        (_gru_by_hand, "d1 = Sub(one, z1)", "d1 = Sub(nothing, z1)"),
        (_gru_by_hand, "d1 = Sub(one, z1)", "d1 = Sub(one, r1)"),
    ],
)
def test_other_gates_stay(cell: Callable[[int], str], old: str, new: str) -> None:
    nodes = " ".join(map(cell, range(3))).replace("h3", "y")
    assert old in nodes
    model = _model(nodes.replace(old, new), "float[2,2] y")
    assert "GRU" not in types(_optimized(model, "UnrolledGRU"))


@pytest.mark.parametrize("memory", ["h1", "c0"])
def test_a_step_with_another_memory_begins_the_operator(memory: str) -> None:
    nodes = " ".join(map(_lstm, range(3))).replace("h3", "y")
    model = _model(nodes.replace("Mul(f1, c1)", f"Mul(f1, {memory})"), "float[2,2] y")
    after = _optimized(model, "UnrolledLSTM")
    assert types(after).count("LSTM") == 1
    assert types(after).count("Gemm") == 2


def test_gates_that_change_places_are_another_valid_cell() -> None:
    nodes = " ".join(map(_gru, range(3))).replace("h3", "y")
    for step in range(3):
        nodes = nodes.replace(f"ar{step}, az{step}", f"az{step}, ar{step}")
        nodes = nodes.replace(f"br{step}, bz{step}", f"bz{step}, br{step}")
    assert "GRU" in types(_optimized(_model(nodes, "float[2,2] y"), "UnrolledGRU"))


def test_weights_that_are_inputs_or_large_stay() -> None:
    nodes = " ".join(map(_lstm, range(3))).replace("h3", "y")
    inputs = "float[2,3,3] x, float[2,2] h0, float[2,2] c0, float[8,3] w"
    after = _optimized(_model(nodes, "float[2,2] y", inputs), "UnrolledLSTM")
    assert "LSTM" not in types(after)
    model = _model(nodes, "float[2,2] y")
    for tensor in model.graph.initializer:
        if tensor.name == "k":
            large = np.full(8, 1e8, np.float32)
            tensor.CopyFrom(onnx.numpy_helper.from_array(large, "k"))
    assert "LSTM" not in types(optimize(model, patterns="UnrolledLSTM", strict=True))


def test_batches_for_which_a_kernel_is_slower_stay() -> None:
    for batch, cell, pattern in ((9, _gru, "GRU"), (65, _rnn, "RNN")):
        nodes = " ".join(map(cell, range(2))).replace("h2", "y")
        inputs = f"float[{batch},3,3] x, float[{batch},2] h0"
        model = _model(nodes, f"float[{batch},2] y", inputs)
        assert pattern not in types(_optimized(model, f"Unrolled{pattern}"))
    model = _model(nodes, "float[b,2] y", "float[b,3,3] x, float[b,2] h0")
    assert "RNN" not in types(_optimized(model, "UnrolledRNN", b=3))


def test_numbers_that_may_be_nan_keep_the_cells() -> None:
    model = _model(" ".join(map(_lstm, range(2))).replace("h2", "y"), "float[2,2] y")
    assert "LSTM" not in types(optimize(model))
    assert "LSTM" in types(optimize(model, assume=["finite"]))
    assert "LSTM" not in types(optimize(model, assume=["finite(x)"]))
    finite = [f"finite({name})" for name in ("x", "h0", "c0")]
    assert "LSTM" in types(optimize(model, assume=finite))


@pytest.mark.parametrize("opset", [7, 9, 12, 13, 14, 22, 25])
def test_operator_sets(opset: int) -> None:
    weights = _model(" ".join(map(_rnn, range(2))), "float[2,2] h2").graph.initializer
    nodes = " ".join(map(_rnn, range(2))).replace("h2", "y")
    model = parse(
        "agraph (float[2,3,3] x, float[2,2] h0) => (float[2,2] y) "
        f"<int64 n0 = {{0}}, int64 n1 = {{1}}> {{ {nodes} }}",
        opset,
    )
    model.graph.initializer.extend(item for item in weights if item.name in ("wn", "rn", "kn"))
    after = _optimized(model, "UnrolledRNN")
    assert types(after).count("RNN") == 1
    onnx.checker.check_model(after, full_check=True)


def test_a_first_step_of_one_sequence_stays() -> None:
    model = parse(
        "agraph (float[1,3] a, float[2,3] x) => (float[2,2] y) "
        "<float[3,2] w = {1, 2, 3, 4, 5, 6}, float[2,2] r = {1, 2, 3, 4}> { m = MatMul(a, w) "
        "h = Tanh(m) n = MatMul(x, w) k = MatMul(h, r) s = Add(n, k) y = Tanh(s) }"
    )
    assert types(optimize(model, patterns="UnrolledRNN", strict=True)) == types(model)
