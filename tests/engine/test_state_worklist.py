from tests.engine.rules import chain
from tests.support import load, node_of
from xoptim.engine.state import Worklist
from xoptim.graph.node import Node


def taken(worklist: Worklist, graph: object, reach: int) -> dict[str, int]:
    return {node.output[0]: distance for node, distance in worklist.take(graph, reach).items()}  # type: ignore[arg-type]


def test_changes_wake_their_neighbourhood() -> None:
    model = load(chain(*["Neg"] * 9))
    graph = model.graph
    worklist = Worklist()
    model.listeners.append(worklist)
    nodes = list(graph.nodes)
    worklist.touched(nodes[4])
    assert taken(worklist, graph, 2) == {"t3": 2, "t4": 1, "t5": 0, "t6": 1, "t7": 2}
    assert taken(worklist, graph, 2) == {}, "they are forgotten then"
    worklist.add([nodes[0], nodes[8]])
    assert taken(worklist, graph, 0) == {"t1": 0, "t9": 0}
    worklist.add(nodes)
    worklist.clear()
    assert taken(worklist, graph, 3) == {}


def test_it_listens_to_the_graph() -> None:
    model = load(chain("Neg", "Abs", "Exp"))
    graph = model.graph
    worklist = Worklist()
    model.listeners.append(worklist)
    new = Node("Identity", ["t1"], ["n"])
    graph.insert(new, node_of(graph, "Neg"))
    assert worklist.identities == [new]
    assert taken(worklist, graph, 0) == {"n": 0}
    graph.remove(new)
    assert taken(worklist, graph, 0) == {"t1": 0}, "its result has fewer readers"
    graph.rename("t2", "t1")
    assert list(taken(worklist, graph, 0)) == ["t2", "t3"]


def test_other_graphs_keep_what_is_theirs() -> None:
    model = load(
        "agraph (bool c, float[n] x) => (float[n] y) { a = Neg(x) "
        "y = If (c) <then_branch = t () => (float[n] p) { p = Abs(a) }, else_branch = e () "
        "=> (float[n] p) { p = Exp(x) }> }"
    )
    body = next(g for g in model.graphs() if g.name == "t")
    worklist = Worklist()
    worklist.add([node_of(body, "Abs"), node_of(model, "Neg")])
    assert taken(worklist, model.graph, 1) == {"a": 0}
    assert taken(worklist, body, 1) == {"p": 0}


def test_a_crowd_is_not_woken() -> None:
    readers = " ".join(f"r{i} = Neg(a)" for i in range(40))
    model = load(f"agraph (float[n] x) => (float[n] y) {{ a = Exp(x) {readers} y = Add(r0, r1) }}")
    worklist = Worklist()
    worklist.add([node_of(model, "Exp")])
    assert taken(worklist, model.graph, 5) == {"a": 0}
