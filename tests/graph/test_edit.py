"""Replacing nodes: refused as a whole or done as a whole."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from tests.support import load, node_of, parse, replace, run, text_of, types, verify
from xoptim.api.optimizing import optimize
from xoptim.facts.errors import Declined, RewriteError
from xoptim.graph.export import export_model
from xoptim.graph.graph import Graph
from xoptim.graph.load import load_model
from xoptim.graph.model import Model
from xoptim.graph.node import Node

CHAIN = "agraph (float[n,3] x) => (float[n,3] y) { t = Neg(x) u = Abs(t) y = Relu(u) }"
Change = Callable[[Graph], tuple[Sequence[Node], Sequence[Node]]]


def order(graph: Graph | Model) -> str:
    return " ".join(types(graph))


def test_a_replacement_takes_the_place_of_what_goes() -> None:
    model = load(CHAIN)
    graph = model.graph
    replace(
        graph,
        [node_of(graph, "Neg"), node_of(graph, "Abs")],
        [Node("Exp", ["x"], ["v"]), Node("Log", ["v"], ["u"])],
    )
    assert order(graph) == "Exp Log Relu"
    assert graph.info_of("v").shape == graph.info_of("x").shape
    verify(model)


def test_a_node_in_both_lists_stays() -> None:
    model = load(CHAIN)
    graph = model.graph
    neg, relu = node_of(graph, "Neg"), node_of(graph, "Relu")
    new = Node("Exp", ["t"], ["u"])
    replace(graph, [neg, node_of(graph, "Abs")], [neg, new])
    assert list(graph.nodes) == [neg, new, relu]
    verify(model)


def test_nothing_may_take_the_place() -> None:
    model = load("agraph (float[n] x) => (float[n] y) { t = Neg(x) u = Abs(t) y = Relu(x) }")
    replace(model.graph, [node_of(model, "Abs"), node_of(model, "Neg")], [])
    assert order(model) == "Relu"
    verify(model)


REFUSED: dict[str, tuple[str, Change]] = {
    "a node that was not matched": (
        "was not matched",
        lambda g: ([node_of(g, "Neg")], [node_of(g, "Neg"), node_of(g, "Relu")]),
    ),
    "a node of another graph": (
        "not a node of this graph",
        lambda g: ([node_of(load(CHAIN), "Neg")], [Node("Neg", ["x"], ["t"])]),
    ),
    "a result goes that is read": (
        "'t' is removed but still read",
        lambda g: ([node_of(g, "Neg")], [Node("Neg", ["x"], ["other"])]),
    ),
    "an output goes": ("'y' is removed but still read", lambda g: ([node_of(g, "Relu")], [])),
    "a result that goes is read": (
        "reads 't'",
        lambda g: ([node_of(g, "Neg"), node_of(g, "Abs")], [Node("Abs", ["t"], ["u"])]),
    ),
    "an undefined name is read": (
        "reads 'nowhere'",
        lambda g: ([node_of(g, "Abs")], [Node("Add", ["t", "nowhere"], ["u"])]),
    ),
    "new nodes in the wrong order": (
        "reads 'v', which is not defined before it",
        lambda g: ([node_of(g, "Abs")], [Node("Log", ["v"], ["u"]), Node("Exp", ["t"], ["v"])]),
    ),
    "a name is taken": (
        "'t', which is already",
        lambda g: ([node_of(g, "Abs")], [Node("Split", ["t"], ["u", "t"])]),
    ),
    "an input is produced": (
        "'x', which is already",
        lambda g: ([node_of(g, "Abs")], [Node("Split", ["t"], ["u", "x"])]),
    ),
    "a name is produced twice": (
        "'u', which is already",
        lambda g: ([node_of(g, "Abs")], [Node("Neg", ["t"], ["u"]), Node("Abs", ["t"], ["u"])]),
    ),
    "the same node twice": (
        "already",
        lambda g: ([node_of(g, "Abs")], [(n := Node("Neg", ["t"], ["u"])), n]),
    ),
    "the type changes": (
        "its type from float to bool",
        lambda g: ([node_of(g, "Abs")], [Node("IsNaN", ["t"], ["u"])]),
    ),
    "the rank changes": (
        "its shape from",
        lambda g: ([node_of(g, "Abs")], [Node("ReduceMax", ["t"], ["u"], {"keepdims": 0})]),
    ),
    "a dimension changes": (
        "its shape from",
        lambda g: ([node_of(g, "Abs")], [Node("Concat", ["t", "t"], ["u"], {"axis": 1})]),
    ),
    "a new node reads what comes of it": (
        "cycle",
        lambda g: ([node_of(g, "Neg")], [Node("Add", ["x", "u"], ["t"])]),
    ),
    "a longer cycle": ("cycle", lambda g: ([node_of(g, "Neg")], [Node("Add", ["x", "y"], ["t"])])),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals_leave_the_graph_as_it_was(case: str) -> None:
    message, change = REFUSED[case]
    model = load(CHAIN)
    removed, added = change(model.graph)
    before, nodes = text_of(model), list(model.graph.nodes)
    with pytest.raises(RewriteError, match=message):
        replace(model.graph, removed, added)
    assert text_of(model) == before
    assert list(model.graph.nodes) == nodes
    verify(model)


def test_a_cycle_is_noticed_wherever_the_new_node_should_go() -> None:
    for place in ("Neg", "Abs", "Relu"):
        model = load(CHAIN)
        graph = model.graph
        before = text_of(model)
        with pytest.raises(RewriteError, match="cycle"):
            replace(
                graph,
                [node_of(graph, "Neg")],
                [Node("Add", ["x", "u"], ["t"])],
                node_of(graph, place),
            )
        assert text_of(model) == before


PARALLEL = """agraph (float[n] x) => (float[n] y, float[n] z) {
  a = Neg(x)
  y = Relu(a)
  p = Exp(x)
  b = Abs(p)
  z = Log(b)
}"""


def fuse(graph: Graph, insert_at: Node | None = None) -> None:
    """Neg and Abs by one node with two results, which reads what comes after a reader of the first
    one.
    """
    fused = Node("Pair", ["x", "p"], ["a", "b"], domain="test")
    replace(graph, [node_of(graph, "Neg"), node_of(graph, "Abs")], [fused], insert_at)


@pytest.mark.parametrize("place", [None, "Neg", "Relu", "Exp", "Abs", "Log"])
def test_fusing_results_in_parallel_moves_readers(place: str | None) -> None:
    model = load(PARALLEL)
    fuse(model.graph, None if place is None else node_of(model, place))
    verify(model)
    assert order(model) == "Exp Pair Relu Log"


def test_what_reads_the_readers_moves_too() -> None:
    model = load("""agraph (bool c, float[n] x) => (float[n] y, float[n] z, float[n] w) {
      a = Neg(x)
      r = Relu(a)
      y = If (c) <then_branch = t () => (float[n] q) { q = Abs(r) },
        else_branch = e () => (float[n] q) { q = Abs(a) }>
      z = Sin(y)
      p = Exp(x)
      w = Abs(p)
    }""")
    graph = model.graph
    replace(
        graph,
        [node_of(graph, "Neg"), node_of(graph, "Abs")],
        [Node("Pair", ["x", "p"], ["a", "w"], domain="test")],
    )
    verify(model)
    assert order(model) == "Exp Pair Relu If Sin"


def test_fusing_what_depends_on_each_other_is_a_cycle() -> None:
    model = load(
        "agraph (float[n] x) => (float[n] y, float[n] z) { a = Neg(x) r = Relu(a) b = Abs(r) "
        "y = Exp(b) z = Log(a) }"
    )
    before = text_of(model)
    with pytest.raises(RewriteError, match="cycle"):
        replace(
            model.graph,
            [node_of(model, "Neg"), node_of(model, "Abs")],
            [Node("Pair", ["x", "r"], ["a", "b"], domain="test")],
        )
    assert text_of(model) == before
    verify(model)


def test_a_capture_decides_the_place() -> None:
    text = """agraph (bool c, float[n] x) => (float[n] y, float[n] z) {
      a = Neg(x)
      y = If (c) <then_branch = t () => (float[n] q) { q = Abs(a) },
        else_branch = e () => (float[n] q) { q = Exp(x) }>
      z = Relu(a)
    }"""
    model = load(text)
    replace(
        model.graph,
        [node_of(model, "Neg"), node_of(model, "Relu")],
        [Node("Pair", ["x"], ["a", "z"], domain="test")],
        node_of(model, "Relu"),
    )
    assert order(model) == "Pair If"
    verify(model)


def test_a_captured_result_must_not_disappear() -> None:
    model = load(
        "agraph (bool c, float[n] x) => (float[n] y) { a = Neg(x) "
        "y = If (c) <then_branch = t () => (float[n] q) { q = Abs(a) }, else_branch = e () "
        "=> (a) { }> }"
    )
    before = text_of(model)
    with pytest.raises(RewriteError, match="'a' is removed"):
        replace(model.graph, [node_of(model, "Neg")], [])
    assert text_of(model) == before
    verify(model)


def test_the_output_of_a_subgraph_decides_the_place() -> None:
    model = load(
        "agraph (bool c, float[n] x) => (float[n] y, float[n] z) { a = Neg(x) "
        "y = If (c) <then_branch = t () => (a) { }, else_branch = e () "
        "=> (float[n] q) { q = Abs(x) }> z = Relu(a) }"
    )
    replace(
        model.graph,
        [node_of(model, "Neg"), node_of(model, "Relu")],
        [Node("Pair", ["x"], ["a", "z"], domain="test")],
    )
    assert order(model) == "Pair If"
    verify(model)


def test_replacing_in_a_subgraph_may_read_the_enclosing_graph() -> None:
    model = load(
        "agraph (bool c, float[n] x) => (float[n] y) { a = Neg(x) b = Abs(x) "
        "y = If (c) <then_branch = t () "
        "=> (float[n] q) { p = Exp(a) q = Relu(p) }, else_branch = e () => (float[n] q) { "
        "q = Abs(b) }> }"
    )
    body = list(model.graphs())[1]
    replace(body, list(body.nodes), [Node("Add", ["a", "b"], ["q"])])
    verify(model)
    assert sorted(n.op_type for n in model.graph.captures("b")) == ["Abs", "Add"]
    before = text_of(model)
    with pytest.raises(RewriteError, match="reads 'y'"):
        replace(body, list(body.nodes), [Node("Neg", ["y"], ["q"])])
    assert text_of(model) == before
    verify(model)


def test_a_new_node_may_have_subgraphs() -> None:
    text = """agraph (bool c, float[2] x) => (float[2] y) {
      a = Neg(x) b = Abs(x) r = Relu(a)
      y = If (c) <then_branch = t () => (float[2] q) { q = Exp(r) },
        else_branch = e () => (float[2] q) { q = Log(b) }>
    }"""
    model = load(text)
    old = node_of(model, "If")
    attributes = {
        "then_branch": old.attribute["else_branch"],
        "else_branch": old.attribute["then_branch"],
    }
    replace(model.graph, [old], [Node("Not", ["c"], ["d"]), Node("If", ["d"], ["y"], attributes)])
    verify(model)
    assert [n.op_type for n in model.graph.captures("r")] == ["Exp"]
    assert model.graph.sweep() == 0
    feeds = {"c": np.array(True), "x": np.array([1, -2], np.float32)}
    np.testing.assert_array_equal(run(export_model(model), feeds)[0], run(parse(text), feeds)[0])


@pytest.mark.parametrize("result", ["y", "wrong"])
def test_a_subgraph_at_any_depth_of_a_new_node_is_recorded_by_the_commit_only(result: str) -> None:
    text = """agraph (bool c, float[n] x) => (float[n] y) {
      a = Relu(x)
      y = If (c) <
        then_branch = t () => (float[n] p) {
          p = If (c) <
            then_branch = tt () => (float[n] q) { q = Neg(a) },
            else_branch = te () => (a) { }
          >
        },
        else_branch = e () => (float[n] p) { p = Exp(x) }
      >
    }"""
    model = load(text)
    graph = model.graph
    old = node_of(graph, "If")
    new = Node.from_proto(parse(text).graph.node[1])
    new.output = (result,)
    if result == "y":
        replace(graph, [old], [new])
    else:
        with pytest.raises(RewriteError, match="'y' is removed"):
            replace(graph, [old], [new])
    verify(model)


def test_a_subgraph_of_a_new_node_must_not_read_what_goes() -> None:
    model = load("""agraph (bool c, float[2] x) => (float[2] y) {
      a = Neg(x)
      y = If (c) <then_branch = t () => (float[2] q) { q = Exp(a) },
        else_branch = e () => (float[2] q) { q = Log(x) }>
    }""")
    old = node_of(model, "If")
    before = text_of(model)
    with pytest.raises(RewriteError, match="reads 'a'"):
        replace(
            model.graph, [old, node_of(model, "Neg")], [Node("If", ["c"], ["y"], old.attribute)]
        )
    assert text_of(model) == before
    verify(model)


def test_facts_of_readers_are_refined() -> None:
    model = load(
        "agraph (float[n,3] x, int64[k] s) => (y) { t = Reshape(x, s) u = Neg(t) y = Abs(u) }"
    )
    graph = model.graph
    unknown = graph.info_of("u").rank
    replace(graph, [node_of(graph, "Reshape")], [Node("Transpose", ["x"], ["t"])])
    assert unknown is None
    assert [str(d) for d in graph.info_of("u").shape or ()] == ["3", "n"]
    assert graph.info_of("y").rank == 2
    verify(model)


@settings(max_examples=80, deadline=None)
@given(st.integers(2, 14), st.lists(st.tuples(*[st.integers(0, 1 << 20)] * 4), max_size=8))
def test_random_fusions_give_an_order_that_runs_or_are_refused(
    size: int, moves: list[tuple[int, int, int, int]]
) -> None:
    nodes = " ".join(
        f"t{i} = Add(t{max(0, i - 1 - i % 3)}, t{max(0, i - 2)})" for i in range(1, size + 1)
    )
    model = load_model(parse(f"agraph (float[n] t0) => (float[n] t{size}) {{ {nodes} }}"))
    graph = model.graph
    for first, second, third, place in moves:
        known = list(graph.nodes)
        removed = list({known[first % len(known)]: None, known[second % len(known)]: None})
        names = ["t0", *(name for node in known if node not in removed for name in node.output)]
        reads = [names[third % len(names)], names[first % len(names)]]
        new = Node(
            "Fused", reads, [name for node in removed for name in node.output], domain="test"
        )
        before = text_of(model)
        try:
            replace(graph, removed, [new], known[place % len(known)] if place % 3 else None)
        except RewriteError:
            assert text_of(model) == before
        verify(model)


def test_an_operator_that_does_not_take_the_type() -> None:
    """The match ends, and nothing is wrong with the pattern: Expand takes no floats of 8 bits,
    which Cast gives.
    """
    text = (
        "agraph (float[3] x) => (float8e4m3fn[2,3] y) <int64[2] s = {2, 3}> { e = Expand(x, s) "
        "y = Cast <to = 17> (e) }"
    )
    graph = load(text, 21).graph
    new = [Node("Cast", ["x"], ["c"], {"to": 17}), Node("Expand", ["c", "s"], ["y"])]
    with pytest.raises(Declined, match=r"Expand .* float8e4m3fn"):
        replace(graph, list(graph.nodes), new)
    assert types(graph) == ["Expand", "Cast"]
    assert types(optimize(parse(text, 21), strict=True)) == ["Expand", "Cast"]


@pytest.mark.parametrize("trips", [0, 1, 5])
def test_a_removed_subgraph_may_hide_outer_values(trips: int) -> None:
    model = parse(f"""agraph (float[n] x, float[n] y, bool p) => (float[n] z, float[n] w) {{
        m = Constant <value_int = {trips}> ()
        w = Neg(x)
        z, r = Loop (m, p, y, x) <body = b (int64 i, bool c, float[n] y, float[n] x) =>
            (bool d, float[n] y2, float[n] x2)
            {{ d = Identity(c) y2 = Add(y, x) x2 = Identity(x) }}>
    }}""")
    result = optimize(model, strict=True)
    assert optimize(result, strict=True) == result
    feeds = {"x": np.arange(3, dtype=np.float32), "y": np.ones(3, np.float32), "p": np.array(True)}
    for expected, actual in zip(run(model, feeds), run(result, feeds), strict=True):
        np.testing.assert_array_equal(actual, expected)
