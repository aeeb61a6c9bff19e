"""Drawings of models."""

from tests.support import load
from xoptim.reporting.drawing import draw, scopes_of, to_json

BRANCHES = """agraph (bool b, float[2] x) => (float[2] y) {
    k = Constant <value = float[2] {1, 2}> ()
    y = If (b) <then_branch = t () => (float[2] r) { r = Add (x, k) },
      else_branch = e () => (float[2] r) { r = Neg (x) }>
}"""


def test_nodes_and_values() -> None:
    drawing = draw(
        load("agraph (float[n,3] x) => (float[n,3] y) { a = Softmax <axis = 0> (x) y = Relu (a) }")
    )
    first, second = drawing.nodes
    assert (first.op_type, first.name, first.attributes) == ("Softmax", "a", "axis = 0")
    assert [drawing.values[value] for value in (*first.inputs, *first.outputs)] == [
        ("x", "float[n,3]"),
        ("a", "float[n,3]"),
    ]
    assert drawing.inputs == first.inputs
    assert drawing.outputs == second.outputs
    assert drawing.producers()[first.outputs[0]] == 0
    assert drawing.readers()[first.outputs[0]] == [(1, 0)]


def test_branches_have_values_of_their_own() -> None:
    drawing = draw(load(BRANCHES))
    assert [node.op_type for node in drawing.nodes] == ["Constant", "Add", "Neg", "If"]
    constant, add, negate, branch = drawing.nodes
    assert constant.is_constant
    assert add.path == ("If y", "then_branch")
    assert negate.path == ("If y", "else_branch")
    assert branch.path == ("If y",)
    assert branch.inputs[1:] == [*add.outputs, *negate.outputs]
    assert add.outputs != negate.outputs, "they have the same name"
    assert drawing.values[add.inputs[1]][1] == "float[2] = [1.0, 2.0]"


def test_scopes() -> None:
    model = load(
        "agraph (float[n] x) => (float[n] y) { a = Neg(x) b = Abs(a) c = Exp(b) d = Relu(c) "
        "e = Sin(d) y = Cos(e) }"
    )
    names = ("/a/b/Neg", "/a/b/Abs", "/a/b/Exp", "/a/few/Relu", "/a/few/Sin", "Cos")
    for node, name in zip(model.graph.nodes, names, strict=True):
        node.name = name
    whole, outer, inner = scopes_of(draw(model))
    assert (whole.label, whole.parent, whole.nodes, whole.scopes) == ("", -1, [5], [1])
    assert (outer.label, outer.parent, outer.nodes, outer.scopes) == (
        "a",
        0,
        [3, 4],
        [2],
    ), "a scope of two nodes is dissolved"
    assert (inner.label, inner.path, inner.parent, inner.nodes) == ("b", ("a", "b"), 1, [0, 1, 2])


def test_json_shares_words() -> None:
    found = to_json(draw(load("agraph (float[n] x) => (float[n] y) { a = Relu (x) y = Relu (a) }")))
    assert found["words"] == ["Relu", "", "float[n]"]
    assert [node[0] for node in found["nodes"]] == [0, 0]
