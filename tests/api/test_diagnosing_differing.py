"""Differences of two models."""

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from tests.support import parse
from xoptim import diff, diff_values

CHAIN = """agraph (float[n,4] x, bool c) => (float[n,4] y) <float[4] w = {1, 2, 3, 4}> {
    ["add"] a = Add(x, w) ["soft"] b = Softmax <axis = 1> (a)
    ["if"]
      y = If (c) <then_branch = t () => (p) { p = Neg(b) },
      else_branch = e () => (q) { q = Abs(b) }>
}"""


def told(first: str | onnx.ModelProto, second: str | onnx.ModelProto) -> list[str]:
    models = [parse(each) if isinstance(each, str) else each for each in (first, second)]
    return [str(each) for each in diff(*models)]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("", "", []),
        ("a = Add(x, w)", "other = Add(x, w)", ["~ node 'soft': Softmax: operands a → other"]),
        ("axis = 1", "axis = 0", ["~ node 'soft': Softmax: axis 1 → 0"]),
        ("{1, 2, 3, 4}", "{1, 2, 3, 5}", ["~ initializer 'w'"]),
        ("p = Neg(b)", "p = Exp(b)", ["~ node 'if': If: subgraph then_branch"]),
        ("p = Neg(b)", "p = Neg(a)", ["~ node 'if': If: subgraph then_branch"]),
        ("float[n,4] x", "float[n,5] x", ["~ input 'x': float[n, 4] → float[n, 5]"]),
        (
            '["add"] a = Add(x, w)',
            '["sub"] a = Sub(x, w)',
            ["- node 'add': Add", "+ node 'sub': Sub"],
        ),
    ],
)
def test_one_change(old: str, new: str, expected: list[str]) -> None:
    if "other" in new:  # a name that changes everywhere is not a difference
        assert told(CHAIN, CHAIN.replace(old, new).replace("(a)", "(other)")) == []
        return
    found = told(CHAIN, CHAIN.replace(old, new) if old else CHAIN)
    assert len(found) == len(expected), found
    assert all(text.startswith(part) for text, part in zip(found, expected, strict=True)), found


def test_names_of_constants_and_order_do_not_matter() -> None:
    first = (
        "agraph (float[2] x) => (float[2] y) <float[2] v = {1, 2}> { a = Neg(x) b = Abs(x) "
        "c = Mul(a, v) y = Add(c, b) }"
    )
    second = (
        "agraph (float[2] x) => (float[2] y) <float[2] w = {1, 2}> { q = Abs(x) p = Neg(x) "
        "r = Mul(p, w) y = Add(r, q) }"
    )
    assert told(first, second) == [
        "- initializer 'v': float[2], content " + told(first, second)[0][-16:],
        "+ initializer 'w': float[2], content " + told(first, second)[0][-16:],
    ]


def test_equal_nodes_are_counted() -> None:
    first = "agraph (float[2] x) => (float[2] y) { a = Neg(x) b = Neg(x) y = Add(a, b) }"
    second = "agraph (float[2] x) => (float[2] y) { a = Neg(x) y = Add(a, a) }"
    assert told(first, second) == ["- node 'b': Neg"]


def test_operator_sets_and_functions() -> None:
    first, second = parse(CHAIN, 18), parse(CHAIN, 19)
    second.functions.append(
        onnx.parser.parse_function(
            '<domain: "acme", opset_import: ["" : 18]> Twice (v) => (u) { u = Add(v, v) }'
        )
    )
    assert told(first, second)[0] == "~ operator set 'ai.onnx': 18 → 19"
    assert told(first, second)[1].startswith("+ function 'acme::Twice'")


def test_the_first_value_that_differs() -> None:
    text = (
        "agraph (float[n,4] x) => (float[n,4] y) { a = Add(x, w) b = Neg(a) c = Exp(x) "
        "y = Mul(b, c) }"
    )
    models = parse(text), parse(text.replace("Neg", "Abs"))
    for model in models:
        model.graph.initializer.append(numpy_helper.from_array(np.ones(4, np.float32), "w"))
    found = diff_values(*models)
    assert [(each.name, each.operator, each.is_first) for each in found] == [
        ("b", "Neg", True),
        ("y", "Mul", False),
    ]
    assert diff_values(models[0], models[0]) == []
    assert [each.name for each in diff_values(*models, atol=1e9)] == []
