"""The verbs, and what they keep up to date."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from onnx import TensorProto

from tests.support import load, node_of, types, verify
from xoptim.facts.errors import RewriteError
from xoptim.graph.graph import Graph
from xoptim.graph.node import Node
from xoptim.graph.tensors import Tensor

NESTED = """agraph (bool c, float[n] x) => (float[n] y, float[n] z) <float[1] w = {2}> {
  a = Relu(x)
  b = Add(a, w)
  y = If (c) <
    then_branch = t () => (float[n] p) {
      inner = Add(a, b)
      p = If (c) <
        then_branch = tt () => (float[n] q) { k = Mul(inner, a) q = Neg(k) },
        else_branch = te () => (float[n] q) { q = Neg(b) }
      >
    },
    else_branch = e () => (float[n] p) { p = Mul(a, a) }
  >
  z = Neg(b)
}"""


class Log:
    def __init__(self) -> None:
        self.seen: list[tuple[str, str]] = []

    def inserted(self, node: Node) -> None:
        self.seen.append(("inserted", node.op_type))

    def removed(self, node: Node) -> None:
        assert node.graph is None
        self.seen.append(("removed", node.op_type))

    def touched(self, node: Node) -> None:
        self.seen.append(("touched", node.op_type))


def test_questions() -> None:
    model = load(NESTED)
    graph = model.graph
    verify(model)
    assert graph.producer("a") is node_of(graph, "Relu")
    assert graph.producer("x") is None
    assert [n.op_type for n in graph.consumers("a")] == ["Add"]
    assert sorted(n.op_type for n in graph.captures("a")) == ["Add", "Mul", "Mul"]
    assert graph.use_count("a") == 1
    assert graph.is_captured("b")
    assert not graph.is_captured("x")
    assert (
        graph.is_output("y"),
        graph.is_output("b"),
        graph.is_input("x"),
        graph.is_input("w"),
    ) == (True, False, True, False)
    assert [graph.defines(name) for name in ("x", "w", "a", "inner", "")] == [
        True,
        True,
        True,
        False,
        False,
    ]
    assert all(graph.is_needed(name) for name in ("a", "b", "y", "z", "x", "w"))
    outer, then_branch, nested, *_ = model.graphs()
    assert outer is graph
    assert nested.scope("inner") is then_branch
    assert nested.scope("w") is graph
    assert nested.scope("nothing") is None
    assert [n.op_type for n in graph.of_type("If")] == ["If"]
    assert nested.tensor("w") is graph.initializers["w"]
    assert nested.info_of("a").dtype == TensorProto.FLOAT
    assert [len(list(g.nodes)) for g in model.graphs()] == [4, 2, 2, 1, 1]


def test_a_node_that_reads_a_result_twice() -> None:
    model = load("agraph (float[n] x) => (float[n] y) { t = Neg(x) y = Add(t, t) }")
    graph = model.graph
    assert graph.use_count("t") == 2
    assert len(graph.consumers("t")) == 1
    graph.set_inputs(node_of(graph, "Add"), ("t", "x"))
    assert graph.use_count("t") == 1
    verify(model)
    assert graph.sweep() == 0
    graph.set_inputs(node_of(graph, "Add"), ("x", "x"))
    assert graph.sweep() == 1
    assert types(graph) == ["Add"]
    verify(model)


def test_listeners_hear_of_every_change() -> None:
    model = load("agraph (float[n] x) => (float[n] y) { t = Neg(x) u = Abs(t) y = Relu(u) }")
    log = Log()
    model.listeners.append(log)
    graph = model.graph
    neg = node_of(graph, "Neg")
    graph.insert(Node("Exp", ["t"], ["e"]), neg)
    assert log.seen == [("inserted", "Exp")]
    log.seen.clear()
    graph.remove(node_of(graph, "Exp"))
    assert log.seen == [("touched", "Neg"), ("removed", "Exp")]
    log.seen.clear()
    graph.rename("t", "x")
    assert ("touched", "Abs") in log.seen
    assert ("touched", "Neg") in log.seen, "its result has other readers now"
    log.seen.clear()
    graph.rename_output(node_of(graph, "Abs"), "u", "v")
    assert {name for _, name in log.seen} == {"Abs", "Relu"}
    assert node_of(graph, "Relu").input == ("v",)
    verify(model)


def test_insert_refuses_a_name_that_is_taken() -> None:
    for taken in ("x", "w", "a", "y"):
        model = load(NESTED)
        with pytest.raises(RewriteError, match=f"'{taken}' is already"):
            model.graph.insert(Node("Neg", ["x"], [taken]), None)
        verify(model)


def test_removing_a_node_with_subgraphs_releases_what_they_capture() -> None:
    model = load(NESTED)
    graph = model.graph
    graph.remove(node_of(graph, "If"))
    assert not graph.is_captured("a")
    assert not graph.is_captured("b")
    graph.insert(Node("Identity", ["z"], ["y"]), graph.nodes.last)
    verify(model)


def test_rename_reaches_subgraphs_at_every_depth() -> None:
    model = load(NESTED)
    graph = model.graph
    graph.rename("a", "x")
    assert not graph.is_needed("a")
    assert graph.is_captured("x")
    nested = list(model.graphs())[2]
    assert nested.nodes.first is not None
    assert nested.nodes.first.input == ("inner", "x")
    verify(model)
    assert graph.sweep() == 1
    verify(model)


def test_rename_output_reaches_subgraphs() -> None:
    model = load(NESTED)
    graph = model.graph
    graph.rename_output(node_of(graph, "Relu"), "a", "fresh")
    assert graph.producer("a") is None
    assert graph.info_of("fresh").dtype == TensorProto.FLOAT
    verify(model)


def test_the_output_of_a_subgraph_may_be_a_result_of_the_enclosing_graph() -> None:
    model = load(
        "agraph (bool c, float[n] x) => (float[n] y) { a = Relu(x) b = Neg(a) "
        "y = If (c) <then_branch = t () => (a) { }, else_branch = e () "
        "=> (float[n] p) { p = Abs(b) }> }"
    )
    graph = model.graph
    assert graph.is_captured("a")
    assert graph.is_needed("a")
    assert graph.captures("a") == [node_of(graph, "If")]
    verify(model)
    graph.rename("a", "x")
    assert [body.outputs for body in node_of(graph, "If").bodies.values()] == [["x"], ["p"]]
    assert not graph.is_needed("a")
    verify(model)
    graph.remove(node_of(graph, "If"))
    assert not graph.is_captured("x"), "nothing refers to it any more"


def test_what_training_refers_to_is_never_renamed() -> None:
    model = load("agraph (float[n] x) => (float[n] y) { t = Neg(x) y = Abs(t) }")
    model.graph.pinned.add("t")
    with pytest.raises(RewriteError, match="renamed"):
        model.graph.rename("t", "x")
    assert model.graph.is_needed("t")
    assert model.graph.is_captured("t")
    verify(model)


def test_sweep_goes_back_as_far_as_needed() -> None:
    chain = " ".join(f"t{i + 1} = Neg(t{i})" for i in range(50))
    model = load(f"agraph (float[n] t0) => (float[n] y) {{ {chain} y = Abs(t50) }}")
    graph = model.graph
    graph.set_inputs(node_of(graph, "Abs"), ("t0",))
    assert graph.sweep() == 50
    assert types(graph) == ["Abs"]
    verify(model)


def test_constants() -> None:
    text = """agraph (float[n] x, float[1] o) => (y) <float[2] w = {1, 2}, float[1] o = {3}> {
      a = Constant <value = float[1] {4}> ()
      b = Constant <value_float = 5.0> ()
      c = Constant <value_ints = [6, 7]> ()
      d = Constant <value_string = "s"> ()
      e = Constant <value_floats = [8.0]> ()
      f = Constant <value_int = 9> ()
      g = Constant <value_strings = ["t", "u"]> ()
      y = Neg(x)
    }"""
    graph = load(text).graph

    def value(name: str) -> object:
        tensor = graph.tensor(name)
        return None if tensor is None else tensor.numpy().tolist()

    assert [value(n) for n in "wabcdefg"] == [[1, 2], [4], 5, [6, 7], "s", [8], 9, ["t", "u"]]
    assert value("x") is value("y") is value("nothing") is None
    assert graph.initializers["o"].numpy().tolist() == [3]
    assert value("o") is None, "a caller may give another value"
    graph.insert(Node("Constant", [], ["h"], {"value": np.arange(2)}), None)
    assert value("h") == [0, 1]


VERBS = ("insert", "remove", "rename", "rename_output", "set_inputs", "sweep", "initializer")


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(VERBS), *[st.integers(0, 1 << 20)] * 4), max_size=25))
def test_random_verbs_keep_the_tables_right(moves: list[tuple[str, int, int, int, int]]) -> None:
    model = load(NESTED)
    for verb, *numbers in moves:
        graphs = list(model.graphs())
        graph = graphs[numbers[0] % len(graphs)]
        _apply(graph, verb, numbers[1:])
        verify(model)
    model.graph.sweep()
    verify(model)


def _apply(graph: Graph, verb: str, numbers: list[int]) -> None:
    nodes = list(graph.nodes)
    place = numbers[0] % (len(nodes) + 1)
    before = [name for node in nodes[: place - (verb == "set_inputs")] for name in node.output]
    visible = [*graph.inputs, *graph.initializers, *before, "x", "w"]
    first, second = visible[numbers[1] % len(visible)], visible[numbers[2] % len(visible)]
    node = nodes[place % len(nodes)] if nodes else None
    if verb == "insert":
        fresh = graph.model.names.fresh("new")
        graph.insert(Node("Add", [first, second], [fresh]), nodes[place - 1] if place else None)
    elif verb == "initializer":
        graph.add_initializer(
            graph.model.names.fresh("k"), Tensor.from_array(np.zeros(1, np.float32))
        )
    elif verb == "sweep":
        graph.sweep()
    elif node is None:
        return
    elif verb == "remove":
        if not any(graph.is_needed(name) for name in node.output):
            graph.remove(node)
    elif verb == "set_inputs" and place == len(nodes) and node.op_type != "If":
        graph.set_inputs(nodes[-1], (second,) if len(nodes[-1].input) == 1 else (first, second))
    elif verb == "rename" and place:
        graph.rename(nodes[place - 1].output[0], next(iter(graph.inputs or ["x"])))
    elif verb == "rename_output" and not graph.is_output(node.output[0]):
        graph.rename_output(node, node.output[0], graph.model.names.fresh("renamed"))
