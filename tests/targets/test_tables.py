import datetime

import pytest

from tests.support import parse
from xoptim.targets import every
from xoptim.targets.listing import listed, with_numbers
from xoptim.targets.tables import limits_of, table_of


def test_each_target_that_needs_a_table_has_one() -> None:
    asked = {each.name for each in every() if each.table and not each.is_standard}
    assert asked == {name for name in asked if table_of(name) is not None}


@pytest.mark.parametrize(
    ("name", "count"), [("webgpu", 100), ("webnn", 100), ("coreml", 40), ("nnapi", 40)]
)
def test_tables_have_many_operators(name: str, count: int) -> None:
    table = table_of(name)
    assert table is not None
    assert len(table.operators) > count
    assert {"Add", "MatMul", "Softmax"} <= table.operators.keys()
    assert all(first <= last for ranges in table.operators.values() for first, last in ranges)
    assert table.origin.startswith("onnxruntime")
    assert datetime.date.fromisoformat(table.date).year >= 2026


def test_targets_without_a_table() -> None:
    assert table_of("cpu") is None
    assert limits_of("cpu", "Add", "") is None


@pytest.mark.parametrize(
    ("text", "opset", "expected"),
    [
        ("y = Add(x, x)", 18, ""),
        ("y = Det(x)", 18, "Det is not in its table of operators"),
        ("y = Add(x, x)", 6, "Add of operator set 6 is not in its table of operators"),
    ],
)
def test_objections(text: str, opset: int, expected: str) -> None:
    table = table_of("webgpu")
    assert table is not None
    (node,) = listed(
        *with_numbers(parse(f"agraph (float[2,2] x) => (float[2,2] y) {{ {text} }}", opset=opset))
    )
    assert table.objection(node) == expected


def test_the_newest_set_of_an_operator() -> None:
    table = table_of("webnn")
    assert table is not None
    limited = {
        name: last for name in table.operators if (last := limits_of("webnn", name, "")) is not None
    }
    assert all(isinstance(last, int) for last in limited.values())
    assert limits_of("webnn", "Add", "") is None


def test_what_webgpu_answered() -> None:
    """Its provider has kernels of LSTM and GRU below operator set 22, and none of Det."""
    table = table_of("webgpu")
    assert table is not None
    assert "asked" in table.origin
    assert limits_of("webgpu", "LSTM", "") == limits_of("webgpu", "GRU", "") == 21
    assert "Det" not in table.operators
