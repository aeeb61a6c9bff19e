"""The nodes that compute a result from given values."""

from onnx import helper

from xoptim.precision.subgraphs import original_subgraph


def test_what_given_values_are_computed_from_is_not_computed_again() -> None:
    nodes = [
        helper.make_node("Exp", ["x"], ["a"]),
        helper.make_node("Neg", ["a"], ["b"]),
        helper.make_node("Shape", ["a"], ["sizes"]),
        helper.make_node("Reshape", ["b", "sizes"], ["y"]),
    ]
    makers = {node.output[0]: node for node in nodes}
    subgraph = original_subgraph(makers, "y", ["b"])
    assert [node.op_type for node in subgraph.nodes] == ["Shape", "Reshape"]
    assert subgraph.reads == ["a", "b"]


def test_nodes_come_after_those_that_they_read() -> None:
    nodes = [
        helper.make_node("Exp", ["x"], ["a"]),
        helper.make_node("Neg", ["a"], ["b"]),
        helper.make_node("Add", ["b", "a"], ["y"]),
    ]
    makers = {node.output[0]: node for node in nodes}
    assert original_subgraph(makers, "y", ["x"]).nodes == nodes


def test_bodies_read_values_of_the_graph_around_them() -> None:
    body = helper.make_graph([helper.make_node("Add", ["a", "a"], ["sum"])], "body", [], [])
    nodes = [
        helper.make_node("Exp", ["x"], ["a"]),
        helper.make_node("If", ["condition"], ["y"], then_branch=body, else_branch=body),
    ]
    makers = {node.output[0]: node for node in nodes}
    assert original_subgraph(makers, "y", ["a", "condition"]).reads == ["a", "condition"]
    assert len(original_subgraph(makers, "y", ["condition"]).nodes) == len(nodes)
