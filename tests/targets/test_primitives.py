import pytest

from tests.support import parse
from xoptim.targets import primitives
from xoptim.targets.listing import listed, with_numbers
from xoptim.targets.primitives import replaced, with_primitives

MODEL = parse(
    "agraph (float[2] x) => (float[2] y) { t = Mish(x) u = Relu(t) y = Mish(u) }", opset=21
)


def test_operators_that_were_replaced() -> None:
    nodes = listed(*with_numbers(MODEL))
    assert replaced(nodes, {1}, {"xopt_node_1", ""}) == {("", "Mish")}
    assert replaced(nodes, {1}, {"xopt_node_1"}) == set(), (
        "they were merged into others, or are not needed"
    )
    assert replaced(nodes, {0, 1, 2}, {""}) == set()


def test_an_onnx_that_cannot_replace_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(primitives, "_CAN_EXPAND", False)
    assert replaced(listed(*with_numbers(MODEL)), set(), {""}) == set()


def test_new_nodes_have_the_name_of_the_one_that_they_come_from() -> None:
    model = parse("agraph (float[2] x) => (float[2] y) { t = Mish(x) y = Mish(t) }", opset=21)
    for name, node in zip("ab", model.graph.node, strict=True):
        node.name = name
    found = with_primitives(model, [("", "Mish")])
    assert found is not None
    assert [node.name for node in found.graph.node] == [
        f"{name}/{kind}" for name in "ab" for kind in ("Softplus", "Tanh", "Mul")
    ]
    assert [node.op_type for node in model.graph.node] == ["Mish", "Mish"]
