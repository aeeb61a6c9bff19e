import numpy as np
import pytest

from tests.engine.rules import tuned
from tests.support import load, node_of, parse, same_results, types, verify
from xoptim.api.optimizing import optimize
from xoptim.engine.options import OptimizationOptions
from xoptim.graph.redirect import redirect
from xoptim.optimizing.builder import GraphBuilder
from xoptim.passes.cleanup import (
    DropUnreadResults,
    RemoveInitializers,
    RemoveUnused,
    remove_identities,
)
from xoptim.testing.runtime import RUNTIME


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        ("a = Identity(x) y = Neg(a)", ["Neg"]),
        ("a = Neg(x) y = Identity(a)", ["Neg"]),
        ("a = Identity(x) b = Identity(a) c = Identity(b) y = Neg(c)", ["Neg"]),
        ("a = Neg(x) b = Identity(a) c = Abs(a) y = Add(b, c)", ["Neg", "Abs", "Add"]),
        ("y = Identity(x)", ["Identity"]),
        ("y = Identity(w)", ["Identity"]),
        ("a = Identity(w) y = Add(x, a)", ["Add"]),
        ("a = Identity(o) y = Add(x, a)", ["Add"]),
        ("y = test.Identity(x)", ["Identity"]),
    ],
)
def test_identities(nodes: str, expected: list[str]) -> None:
    text = (
        "agraph (float[2] x, float[2] o) "
        f"=> (float[2] y) <float[2] w = {{1, 2}}, float[2] o = {{1, 1}}> {{ {nodes} }}"
    )
    proto = parse(text, domains={"test": 1})
    after = tuned(proto, None)
    assert types(after) == expected
    if "test." not in nodes:
        same_results(proto, after, {"x": np.array([1, -2], np.float32)})
    assert "Identity" in types(tuned(proto, None, remove_identity=False))


def test_identities_of_outputs() -> None:
    text = (
        "agraph (float[2] x) => (float[2] y, float[2] z, float[2] a) { a = Neg(x) y = Identity(a) "
        "z = Identity(a) }"
    )
    after = tuned(text, None)
    assert types(after) == ["Neg", "Identity", "Identity"], "three outputs need three names"
    same_results(parse(text), after, {"x": np.array([1, -2], np.float32)})
    read = (
        "agraph (float[2] x) => (float[2] y, float[2] z) { a = Neg(x) y = Identity(a) z = Abs(a) }"
    )
    after = tuned(read, None)
    assert types(after) == ["Neg", "Abs"]
    assert [o.name for o in after.graph.output] == ["y", "z"]


def test_identities_in_subgraphs() -> None:
    text = """agraph (bool c, float[2] x) => (float[2] y) {
      a = Identity(x) b = Neg(a) d = Identity(b)
      y = If (c) <then_branch = t () => (float[2] p) { p = Identity(d) },
                  else_branch = e () => (float[2] p) { k = Identity(a) m = Abs(k) p = Identity(m) }>
    }"""
    after = tuned(text, None)
    assert types(after) == ["Neg", "If"]
    branches = [attribute.g for attribute in after.graph.node[1].attribute]
    assert [types(branch) for branch in branches] == [
        ["Identity"],
        ["Abs"],
    ], "a branch gives no result of another graph"
    for condition in (True, False):
        same_results(
            parse(text), after, {"c": np.array(condition), "x": np.array([1, -2], np.float32)}
        )


def test_unused_nodes_and_initializers() -> None:
    text = """agraph (bool c, float[2] x, float[2] o) => (float[2] y)
    <float[2] w = {1, 2}, float[2] v = {3, 4}, float[2] o = {1, 1}> {
      a = Neg(x) b = Exp(a) d = Add(b, w) y = Abs(x)
      e = If (c) <then_branch = t () => (float[2] p) { p = Add(d, v) },
        else_branch = u () => (float[2] p) { p = Abs(b) }>
    }"""
    after = tuned(text, None)
    assert types(after) == ["Abs"]
    assert [t.name for t in after.graph.initializer] == ["o"], "a caller may give o"
    untouched = tuned(text, None, remove_unused=False)
    assert untouched == parse(text)


def test_a_node_is_used_when_one_of_its_results_is() -> None:
    model = load(
        "agraph (float[4] x) => (float[2] y) { a, b = Split <axis = 0, num_outputs = 2> (x) "
        "y = Neg(b) c = Abs(a) }"
    )
    assert RemoveUnused().run_on(model.graph) == 1
    assert types(model) == ["Split", "Neg"]
    verify(model)


def test_redirect() -> None:
    text = """agraph (float[2] x) => (float[2] y, float[2] z) <float[2] w = {1, 2}>
    { a = Neg(x) y = Abs(x) b = Exp(y) z = Add(a, b) }"""
    model = load(text)
    graph = model.graph
    assert not redirect(graph, "y", "z"), "both are outputs"
    assert not redirect(graph, "y", "x"), "an input is not an output"
    assert not redirect(graph, "y", "w")
    verify(model)
    assert types(model) == ["Neg", "Abs", "Exp", "Add"]
    assert redirect(graph, "y", "a"), "the output takes the name over"
    assert types(model) == ["Neg", "Exp", "Add"]
    assert node_of(graph, "Add").input == ("y", "b")
    verify(model)
    assert redirect(graph, "b", "x")
    assert graph.sweep() == 1
    verify(model)


def test_pinned_names_stay() -> None:
    model = load(
        "agraph (float[2] x) => (float[2] y) <float[2] w = {1, 2}> { a = Identity(x) y = Neg(a) "
        "b = Abs(x) }"
    )
    model.graph.pinned.update(("a", "b", "w"))
    assert remove_identities(list(model.graph.nodes)) == 0
    assert RemoveUnused().run_on(model.graph) == 0
    assert RemoveInitializers().run_on(model.graph) == 0
    verify(model)


def test_optional_results_that_nothing_reads() -> None:
    text = (
        "agraph (float[2,1,3] x, float[1,8,3] w, float[1,8,2] r) => (float[1,1,2] h) "
        "{ y, h, c = LSTM <hidden_size = 2> (x, w, r) }"
    )
    model = load(text)
    assert DropUnreadResults().run_on(model.graph) == 2
    verify(model)
    assert node_of(model, "LSTM").output == ("", "h")
    proto = parse(text)
    feeds = {
        "x": np.ones((2, 1, 3), np.float32),
        "w": np.ones((1, 8, 3), np.float32),
        "r": np.ones((1, 8, 2), np.float32),
    }
    same_results(proto, tuned(proto, None), feeds)


@pytest.mark.parametrize(
    ("nodes", "outputs"),
    [
        ("y, m = LayerNormalization(x, s)", ["y"]),
        ("y, m, v = LayerNormalization(x, s) z = Neg(v)", ["y", "", "v"]),
        ("y, m = Dropout(x)", ["y"]),
        ("y, m = MaxPool <kernel_shape = [1]> (x)", ["y", "m"]),
        ("k, i = TopK(x, n) y = Neg(k)", ["k", "i"]),
        ("k, i = Split <num_outputs = 2> (x) y = Neg(k)", ["k", "i"]),
    ],
)
def test_results_that_may_be_omitted(nodes: str, outputs: list[str]) -> None:
    outs = "float[1,1,4] y, float[1,1,1] z" if "z =" in nodes else "float[p,q,r] y"
    text = (
        f"agraph (float[1,1,4] x) => ({outs}) <float[4] s = {{1, 2, 3, 4}}, "
        f"int64[1] n = {{2}}> {{ {nodes} }}"
    )
    model = load(text)
    DropUnreadResults().run_on(model.graph)
    verify(model)
    assert list(next(iter(model.graph.nodes)).output) == outputs


def test_results_of_nodes_that_are_not_the_operator() -> None:
    call = (
        'agraph (float[4] x) => (float[4] y) { y, m = Dropout(x) } <domain: "", opset_import: ["" :'
        " 18]> Dropout (a) => (b, c) { b = Neg(a) c = Abs(a) }"
    )
    model = load(call)
    assert DropUnreadResults().run_on(model.graph) == 0, "a local function"
    odd = load(
        "agraph (float[1,4] x) => (float[1,4] y) <float[4] s = {1, 2, 3, 4}> { "
        "y, m = LayerNormalization <foo = 1> (x, s) }"
    )
    assert DropUnreadResults().run_on(odd.graph) == 0, "it has an attribute that does not exist"
    verify(odd)


@pytest.mark.parametrize(
    ("inputs", "nodes", "kept"),
    [
        ("float[2] x, float[2] z", "y = Neg(x)", ["x"]),
        ("float[2] x, float[2] z", "a = Abs(z) y = Neg(x)", ["x"]),
        ("float[2] x, float[2] z", "y = Identity(x) w = Identity(z)", ["x", "z"]),
        ("float[2] x, float[2,3] z", "s = Shape(z) w = Cast <to = 1> (s) y = Neg(x)", ["x"]),
        ("float[2] x, float[2] k", "y = Neg(x)", ["x", "k"]),
        (
            "float[2] x, bool c, float[2] z",
            (
                "y = If(c) <then_branch = t () => (float[2] p) { p = Abs(z) }, "
                "else_branch = e () => (float[2] q) { q = Neg(x) }>"
            ),
            ["x", "c", "z"],
        ),
        ("seq(float[2]) q, float[2] x", "y = Neg(x)", ["x"]),
    ],
)
def test_unused_inputs(inputs: str, nodes: str, kept: list[str]) -> None:
    ends = "float[2] y, float[2] w" if "w =" in nodes else "float[2] y"
    proto = parse(f"agraph ({inputs}) => ({ends}) <float[2] k = {{1, 2}}> {{ {nodes} }}")
    gr = GraphBuilder(proto, optimization_options=OptimizationOptions(drop_unused_inputs=True))
    gr.optimize()
    verify(gr.model)
    assert [value.name for value in gr.to_onnx(optimize=False).graph.input] == kept
    assert not gr.report().unused_inputs
    assert sorted((*gr.report().dropped_inputs, *kept)) == sorted(
        value.name for value in proto.graph.input
    )
    plain = GraphBuilder(proto)
    plain.optimize()
    assert plain.report().unused_inputs == gr.report().dropped_inputs
    assert [value.name for value in plain.to_onnx(optimize=False).graph.input] == [
        value.name for value in proto.graph.input
    ]


def test_an_input_that_training_reads_stays() -> None:
    proto = parse("agraph (float[2] x, float[2] z) => (float[2] y) { y = Neg(x) }")
    proto.training_info.add().algorithm.node.add(op_type="Relu", input=["z"], output=["w"])
    after = optimize(proto, drop_unused_inputs=True)
    assert [value.name for value in after.graph.input] == ["x", "z"]


def test_initializers_of_an_old_format_are_no_unused_inputs() -> None:
    proto = parse(
        "agraph (float[2] x, float[2] w, float[2] v) "
        "=> (float[2] y) <float[2] w = {1, 2}, float[2] v = {1, 1}> { a = Neg(v) y = Add(x, w) }",
        ir_version=3,
        opset=8,
    )
    after = optimize(proto, drop_unused_inputs=True)
    assert [value.name for value in after.graph.input if value.name == "x"] == ["x"]
    gr = GraphBuilder(proto)
    gr.optimize()
    assert gr.report().unused_inputs == ()


@pytest.mark.parametrize("removes", [False, True])
@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("y = Cast<to = 21>(x) z = DequantizeLinear(y, s)", ["Cast", "DequantizeLinear"]),
        (
            "t = Transpose(x) u = Transpose(t) y = Cast<to = 21>(f) z = DequantizeLinear(u, s)",
            ["Cast", "DequantizeLinear"],
        ),
        ("t = Cast<to = 21>(f) y = Cast<to = 21>(t) z = Cast<to = 1>(y)", ["Cast", "Cast"]),
        (
            "y = Cast<to = 21>(f) t = Cast<to = 21>(f) z = DequantizeLinear(t, s)",
            ["Cast", "DequantizeLinear"],
        ),
    ],
)
def test_no_copy_of_4_bits_is_left(body: str, expected: list[str], removes: bool) -> None:
    """Onnxruntime has no Identity for these types."""
    model = parse(
        "agraph (uint4[4] x, float[4] f) "
        f"=> (uint4[4] y, float[4] z) <float s = {{0.5}}> {{ {body} }}",
        opset=21,
    )
    after = optimize(model, remove_identity=removes, strict=True)
    assert "Identity" not in types(after)
    if removes:
        assert types(after) == expected
    assert not isinstance(RUNTIME.load(after), str)


def test_equal_outputs_of_4_bits_stay() -> None:
    model = parse(
        "agraph (float[4] f) => (uint4[4] y, uint4[4] z) { y = Cast<to = 21>(f) "
        "z = Cast<to = 21>(f) }",
        opset=21,
    )
    assert types(optimize(model, strict=True)) == ["Cast", "Cast"]
