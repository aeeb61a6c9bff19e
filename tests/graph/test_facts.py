import numpy as np
from onnx import TensorProto

from tests.support import load
from xoptim.facts.shapes import UNKNOWN, Info
from xoptim.graph.facts import Definitions, FactTable, can_fold
from xoptim.graph.node import Node
from xoptim.graph.tensors import Tensor

FLOAT = Info(TensorProto.FLOAT, (2,))


def tables() -> tuple[Definitions, FactTable]:
    definitions = Definitions(None)
    definitions.inputs["x"] = FLOAT
    definitions.initializers["w"] = Tensor.from_array(np.ones(2, np.float32))
    facts = FactTable(definitions, None)
    facts.add(["x", "w"])
    return definitions, facts


def test_facts_live_as_long_as_their_value() -> None:
    definitions, facts = tables()
    node = Node("Neg", ["w"], ["a"])
    facts.add(definitions.add_results([node]))
    assert facts.known("a") is UNKNOWN
    facts.learn("a", FLOAT)
    facts.add(["a"])
    assert facts.known("a") is FLOAT, "adding a value again does not change the facts about it"
    assert facts.learn_constness(node)
    assert not facts.learn_constness(node), "it is not new any longer"
    facts.remember({"a": np.ones(2)})
    facts.mark_dependent(["a"])
    facts.drop(definitions.remove_results(node))
    assert (facts.known("a"), facts.is_computed("a"), facts.evaluated("a")) == (
        None,
        False,
        "unasked",
    )
    assert not facts.depends_on_caller("a")
    assert [name for name, _ in facts.items()] == ["x", "w"]


def test_facts_follow_a_value_that_is_renamed() -> None:
    definitions, facts = tables()
    node = Node("Neg", ["w"], ["a"])
    facts.add(definitions.add_results([node]))
    facts.learn("a", FLOAT)
    facts.learn_constness(node)
    facts.remember({"a": None})
    facts.mark_dependent(["a"])
    facts.move("a", "b")
    assert (facts.known("a"), facts.is_computed("a"), facts.depends_on_caller("a")) == (
        None,
        False,
        False,
    )
    assert (facts.known("b"), facts.is_computed("b"), facts.depends_on_caller("b")) == (
        FLOAT,
        True,
        True,
    )
    assert (facts.evaluated("a"), facts.evaluated("b")) == ("unasked", None)


def test_a_node_is_constant_when_all_its_operands_are() -> None:
    definitions, facts = tables()
    first, second = Node("Add", ["w", "w"], ["a"]), Node("Clip", ["a", "", "w"], ["b"])
    definitions.add_results([first, second])
    assert not facts.has_constant_inputs(second), "its operand is not known to be constant yet"
    assert facts.learn_constness(first)
    assert facts.learn_constness(second)
    assert not facts.has_constant_inputs(Node("Add", ["w", "x"], ["c"]))
    assert not facts.has_constant_inputs(Node("Constant", [], ["c"], {"value_int": 1}))
    assert not facts.has_constant_inputs(Node("RandomUniformLike", ["w"], ["c"]))
    assert can_fold(first)


def test_a_subgraph_sees_the_facts_of_the_graphs_around_it() -> None:
    definitions, facts = tables()
    node = Node("Neg", ["w"], ["a"])
    definitions.add_results([node])
    facts.learn_constness(node)
    facts.mark_dependent(["a"])
    inside = Definitions(definitions)
    inner = FactTable(inside, facts)
    assert (inner.is_computed("a"), inner.depends_on_caller("a")) == (True, True)
    inside.inputs["a"] = FLOAT
    assert (inner.is_computed("a"), inner.depends_on_caller("a")) == (
        False,
        False,
    ), "another value hides it"


def test_dependence_on_the_caller_spreads_to_results() -> None:
    _, facts = tables()
    facts.mark_dependent(["w"])
    facts.learn_dependence(Node("Neg", ["x"], ["a"]), ["x"])
    facts.learn_dependence(Node("Add", ["x", "w"], ["b"]), ["x", "w"])
    assert (facts.depends_on_caller("a"), facts.depends_on_caller("b")) == (False, True)


def test_dequantized_weights_are_not_constants() -> None:
    """A pattern that computed with them would store wide weights in place of narrow ones."""
    graph = load(
        "agraph (float[2] x) => (float[2] y) <int8[2] w = {1, 2}, float s = {0.5}> "
        "{ d = DequantizeLinear(w, s) n = Neg(d) e = Neg(s) m = Mul(n, e) y = Add(x, m) }"
    ).graph
    assert [name for name in ("d", "n", "e", "m") if graph.is_computed(name)] == ["e"]
