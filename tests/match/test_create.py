from typing import Any

import numpy as np
import pytest
from onnx import TensorProto

from tests.support import load, text_of, verify
from xoptim.match.view import GraphView, PatternRewriter

TEXT = """agraph (float[n,3] x, float16[n] h, int64[n] i, bool[n,3] b,
  double[n] d) => (float[n,3] y)
<float[3] w = {1, 2, 3}> { [relu] y = Relu(x) }"""
FLOAT, INT64, DOUBLE, BOOL = np.float32, np.int64, np.float64, np.bool_


def rewriter(opset: int = 18) -> PatternRewriter:
    return PatternRewriter(load(TEXT, opset).graph)


def stored(g: GraphView, name: str) -> np.ndarray:
    array = g.get_computed_constant(name)
    assert array is not None
    return array


def test_make_node_leaves_the_graph_alone() -> None:
    model = load(TEXT)
    before = text_of(model)
    g = GraphView(model.graph)
    node = g.make_node("Elu", ["x"], ["z"], name="relu", doc_string="why", alpha=0.5, other=None)
    assert (node.input, node.output, node.attribute) == (("x",), ("z",), {"alpha": 0.5})
    assert (node.name, node.doc_string, node.graph) == ("relu_1", "why", None)
    assert text_of(model) == before
    verify(model)


def test_names() -> None:
    g = rewriter()
    assert g.make_node("Relu", "x").input == ("x",)
    assert g.make_node("Relu", "x", "z").output == ("z",)
    first, second = g.make_node("Split", ["x"], 2).output
    assert first != second
    assert g.unique_name("x") == "x_1"
    assert g.unique_name("fresh") == "fresh"
    assert g.make_node("Relu", ["x"]).name != g.make_node("Relu", ["x"]).name
    assert g.make_node("Clip", ["x", "", ""]).input == ("x",), (
        "operands left out at the end are not written"
    )


def test_a_missing_operator_set_is_imported() -> None:
    g = rewriter()
    nodes = [
        g.make_node("Gelu", ["x"], domain="com.microsoft"),
        g.make_node("Thing", ["x"], domain="other"),
    ]
    assert g.opsets == {"": 18}, "a node that is never used must leave no trace"
    for node in nodes:
        g.graph.insert(node, g.graph.nodes.last)
    assert g.opsets == {"": 18, "com.microsoft": 1, "other": 1}


@pytest.mark.parametrize(
    ("op_type", "attributes", "opset", "as_input"),
    [
        ("Squeeze", {"axes": [1]}, 12, None),
        ("Squeeze", {"axes": [1]}, 13, (1, [1])),
        ("Unsqueeze", {"axes": 0}, 13, (1, [0])),
        ("ReduceSum", {"axes": [1]}, 12, None),
        ("ReduceSum", {"axes": [1]}, 13, (1, [1])),
        ("ReduceMean", {"axes": [1]}, 17, None),
        ("ReduceMean", {"axes": [1]}, 18, (1, [1])),
        ("ReduceSumSquare", {"axes": [0, 1]}, 18, (1, [0, 1])),
        ("Split", {"split": [1, 2]}, 13, (1, [1, 2])),
        ("Pad", {"pads": [0, 1]}, 10, None),
        ("Pad", {"pads": [0, 1]}, 11, (1, [0, 1])),
        ("Pad", {"value": 2.0}, 11, (2, 2.0)),
        ("Clip", {"max": 6.0}, 6, None),
        ("Clip", {"max": 6.0}, 11, (2, 6.0)),
        ("TopK", {"k": 3}, 11, (1, [3])),
        ("Slice", {"axes": [1]}, 9, None),
        ("Slice", {"axes": [1]}, 10, (3, [1])),
    ],
)
def test_attributes_that_became_inputs(
    op_type: str, attributes: dict[str, Any], opset: int, as_input: tuple[int, Any] | None
) -> None:
    g = rewriter(opset)
    node = g.make_node_check_opset(op_type, ["x"], **attributes)
    if as_input is None:
        assert (node.input, node.attribute) == (("x",), attributes)
        return
    place, value = as_input
    assert (len(node.input), node.attribute) == (place + 1, {})
    assert node.input[1:place] == ("",) * (place - 1)
    array = stored(g, node.input[place])
    assert array.tolist() == value
    assert array.dtype == (FLOAT if isinstance(value, float) else INT64)


def test_an_attribute_may_be_given_as_a_result() -> None:
    g = rewriter(18)
    assert g.make_node_check_opset("Clip", ["x"], min="w").input == ("x", "w")
    assert g.op.Clip("x", max=None) in g.created[0].output
    assert g.created[0].input == ("x",)
    half = g.make_node_check_opset("Clip", ["h"], min=0)
    assert stored(g, half.input[1]).dtype == np.float16


def test_only_the_standard_domain_is_adapted() -> None:
    node = rewriter(18).make_node_check_opset("Squeeze", ["x"], domain="com.microsoft", axes=[1])
    assert (node.input, node.attribute) == (("x",), {"axes": [1]})


@pytest.mark.parametrize(
    ("op_type", "operands", "place", "dtype"),
    [
        ("Add", ("x", 1), 1, FLOAT),
        ("Add", (1, "x"), 0, FLOAT),
        ("Add", ("h", 0.5), 1, np.float16),
        ("Add", ("i", 1), 1, INT64),
        ("Add", ("d", 1), 1, DOUBLE),
        ("Pow", ("x", 2), 1, FLOAT),
        ("And", ("b", True), 1, BOOL),
        ("Where", ("b", "x", 0.0), 2, FLOAT),
        ("Where", ("b", 0.0, "d"), 1, DOUBLE),
        ("Where", ("b", 0.0, 1.0), 1, FLOAT),
        ("Gather", ("x", 0), 1, INT64),
        ("Range", (0, "i", 1), 0, INT64),
        ("Add", (1, 2), 0, INT64),
        ("Add", (1.0, 2), 0, FLOAT),
        ("Max", ("h", 0.0, 1.0), 2, np.float16),
    ],
)
def test_numbers_take_the_type_that_fits(
    op_type: str, operands: tuple[Any, ...], place: int, dtype: type
) -> None:
    g = rewriter()
    getattr(g.op, op_type)(*operands)
    array = stored(g, g.created[0].input[place])
    assert (array.dtype, array.shape) == (np.dtype(dtype), ())
    assert float(array) == float(operands[place])


def test_numbers_next_to_an_operator_without_schema() -> None:
    g = rewriter()
    g.op.Thing("h", 0.5, 2, domain="other")
    assert [stored(g, name).dtype for name in g.created[0].input[1:]] == [np.float16, np.float16]


def test_an_operator_whose_name_is_no_name_in_python() -> None:
    g = rewriter()
    g.op["class"]("h", domain="other", **{"from": 1})
    node = g.created[-1]
    assert (node.op_type, node.domain, dict(node.attribute)) == ("class", "other", {"from": 1})
    assert g.op["Relu"]("h") != "h"


def test_building_with_operators() -> None:
    g = rewriter()
    first, second = g.op.Split("x", axis=1, outputs=2)
    total = g.op.Add(first, g.op.Mul(second, 2))
    assert isinstance(total, str)
    assert [n.op_type for n in g.created] == ["Split", "Mul", "Add"]
    assert g.get_type(total) == TensorProto.FLOAT, "facts about what is built are there at once"
    array = g.op.Concat("w", np.arange(3, dtype=np.float32), axis=0)
    assert stored(g, g.created[-1].input[1]).tolist() == [0, 1, 2]
    assert g.op.Clip("x", None, 6.0) != array
    assert g.created[-1].input[1] == ""
    assert g.op.Relu("x", outputs=["named"], name="mine") == "named"
    assert g.created[-1].name == "mine"
    assert g.make_initializer("w", [1.5]) == "w_1"
    assert g.make_initializer("", 1, source="Pattern") == "Pattern"
    with pytest.raises(AttributeError):
        g.op.__wrapped__  # noqa: B018
