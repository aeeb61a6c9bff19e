import pytest

from tests.support import load, node_of, replace, types, verify
from xoptim.facts.errors import Declined
from xoptim.graph.edit import find_place, find_places
from xoptim.graph.graph import Graph
from xoptim.graph.node import Node

ROW = "agraph (float[n] x) => (float[n] y) { a = Neg(x) b = Abs(a) c = Exp(x) y = Add(b, c) }"


@pytest.fixture
def graph() -> Graph:
    return load(ROW).graph


def names(*nodes: Node | None) -> list[str]:
    return ["start" if node is None else node.op_type for node in nodes]


def test_a_new_node_stands_where_the_last_removed_one_was(graph: Graph) -> None:
    gone = [node_of(graph, "Neg"), node_of(graph, "Abs")]
    assert find_place(graph, gone, [Node("Relu", ["x"], ["b"])]) == (
        None,
        [],
    ), "before them is nothing that stays"
    place, moved = find_place(graph, [node_of(graph, "Exp")], [Node("Relu", ["x"], ["c"])])
    assert (names(place), moved) == (["Abs"], [])
    place, moved = find_place(
        graph, [node_of(graph, "Exp")], [Node("Relu", ["a"], ["c"])], node_of(graph, "Neg")
    )
    assert (names(place), moved) == (["Neg"], []), "the given place, which computes its operand"


def test_a_new_node_stands_after_its_operands_and_before_its_readers(graph: Graph) -> None:
    place, moved = find_place(
        graph, [node_of(graph, "Neg")], [Node("Relu", ["x"], ["a"])], node_of(graph, "Exp")
    )
    assert (names(place), moved) == (["start"], []), "the given place stands behind a reader"
    new = [Node("Relu", ["x"], ["t"]), Node("Log", ["t"], ["c"])]
    assert names(find_place(graph, [node_of(graph, "Exp")], new)[0]) == ["Abs"], (
        "operands that are new themselves do not count"
    )


def test_readers_before_an_operand_move_behind_the_place(graph: Graph) -> None:
    place, moved = find_place(graph, [node_of(graph, "Neg")], [Node("Add", ["x", "c"], ["a"])])
    assert (names(place), names(*moved)) == (["Exp"], ["Abs"])


def test_an_operand_that_depends_on_a_new_result_is_a_cycle(graph: Graph) -> None:
    with pytest.raises(Declined, match="cycle"):
        find_place(graph, [node_of(graph, "Neg")], [Node("Add", ["x", "b"], ["a"])])


def test_new_nodes_on_both_sides_of_a_node_that_stays_are_placed_one_by_one(graph: Graph) -> None:
    gone = [node_of(graph, "Neg"), node_of(graph, "Add")]
    new = [
        Node("Relu", ["x"], ["a"]),
        Node("Log", ["x"], ["l"]),
        Node("Sum", ["b", "c", "l"], ["y"]),
    ]
    with pytest.raises(Declined, match="cycle"):
        find_place(graph, gone, new)
    places, moved = find_places(graph, gone, new)
    assert (names(*places), moved) == (["start", "Relu", "Exp"], [])
    replace(graph, gone, new)
    assert types(graph) == ["Relu", "Log", "Abs", "Exp", "Sum"]
    verify(graph.model)


def test_a_node_that_stays_between_two_new_ones_and_reads_the_last_is_a_cycle(graph: Graph) -> None:
    new = [Node("Relu", ["b"], ["t"]), Node("Log", ["t"], ["a"])]
    with pytest.raises(Declined, match="cycle"):
        find_places(graph, [node_of(graph, "Neg")], new)


def test_new_nodes_that_stay_together_follow_each_other(graph: Graph) -> None:
    new = [Node("Relu", ["a"], ["t"]), Node("Log", ["t"], ["b"])]
    places, moved = find_places(graph, [node_of(graph, "Abs")], new)
    assert (names(*places), moved) == (["Neg", "Relu"], [])
    assert find_places(graph, [node_of(graph, "Add")], []) == ([], [])
