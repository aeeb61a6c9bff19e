import numpy as np
from onnx import TensorProto

from xoptim.facts.shapes import Info
from xoptim.graph.facts import Definitions
from xoptim.graph.node import Node
from xoptim.graph.tensors import Tensor

FLOAT = Info(TensorProto.FLOAT, (2,))


def nested() -> tuple[Definitions, Definitions]:
    outer = Definitions(None)
    outer.inputs["x"] = FLOAT
    outer.initializers["w"] = Tensor.from_array(np.ones(2, np.float32))
    return outer, Definitions(outer)


def test_a_name_is_defined_in_one_graph_and_resolved_from_those_inside_it() -> None:
    outer, inner = nested()
    outer.add_results([Node("Split", ["x"], ["a", "", "b"])])
    assert [outer.defines(name) for name in ("x", "w", "a", "b", "")] == [
        True,
        True,
        True,
        True,
        False,
    ]
    assert [inner.defines(name) for name in ("x", "w", "a")] == [False, False, False]
    assert [inner.resolves(name) for name in ("x", "w", "a", "nothing")] == [
        True,
        True,
        True,
        False,
    ]
    inner.inputs["p"] = FLOAT
    assert (inner.is_input("p"), inner.is_input("x"), outer.resolves("p")) == (True, False, False)


def test_results_follow_their_nodes() -> None:
    definitions = Definitions(None)
    first, second = Node("Split", ["x"], ["a", "b"]), Node("Neg", ["x"], ["a"])
    assert definitions.add_results([first]) == ["a", "b"]
    assert definitions.add_results([second]) == ["a"], "it takes over the result"
    assert definitions.remove_results(first) == ["b"]
    assert definitions.producer("a") is second
    definitions.rename_result("a", "c")
    assert (definitions.producer("a"), definitions.producer("c")) == (None, second)
    definitions.clear()
    assert not definitions.defines("c")


def test_an_inner_value_hides_a_constant_of_the_same_name() -> None:
    outer, inner = nested()
    assert inner.tensor("w") is outer.initializers["w"]
    inner.inputs["w"] = FLOAT
    assert inner.tensor("w") is None
    del inner.inputs["w"]
    inner.add_results([Node("Neg", ["x"], ["w"])])
    assert inner.tensor("w") is None


def test_the_value_of_a_node_is_read_once_and_dropped_with_it() -> None:
    definitions = Definitions(None)
    node = Node("Constant", [], ["k"], {"value_int": 3})
    definitions.add_results([node])
    tensor = definitions.tensor("k")
    assert tensor is not None
    assert definitions.tensor("k") is tensor
    definitions.remove_results(node)
    assert definitions.tensor("k") is None
    definitions.add_results([node])
    assert definitions.tensor("k") is not tensor


def test_an_initializer_that_a_caller_may_override_is_not_a_constant() -> None:
    outer, inner = nested()
    assert not inner.sees_overridable()
    outer.overridable.add("w")
    assert inner.tensor("w") is None
    assert inner.sees_overridable()
