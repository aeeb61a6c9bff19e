"""The table of onnxruntime's graph transformers."""

import pytest

import xoptim
from lab.reach.peers import operators
from lab.reach.transformers import COLUMNS, TARGET, Form, count, page, read_forms, results
from tests.support import in_parts

_PARTS = 12
_FORMS = read_forms()
_FIRST = 2 + COLUMNS.index("default")


def _rows() -> list[list[str]]:
    lines = TARGET.read_text(encoding="utf-8").splitlines()
    cells = [line.strip("| ").split(" | ") for line in lines if line.startswith("| ")]
    return cells[1:]


@in_parts("part", _PARTS)
def test_xoptim_leaves_the_nodes_of_the_page(part: int) -> None:
    for form, row in list(zip(_FORMS, _rows(), strict=True))[part::_PARTS]:
        for (column, result), cell in zip(results(form), row[_FIRST:], strict=False):
            assert str(operators(result).total()) == cell, (form, column)


def test_each_form_with_more_nodes_has_a_reason() -> None:
    for form, row in zip(_FORMS, _rows(), strict=True):
        basic, extended, default, _, fast = map(int, row[3:8])
        assert (basic < default or extended < fast) == bool(form.reason), form


def test_a_form_is_counted_in_all_columns() -> None:
    form = Form("Fusion", "agraph (float[a,2] x) => (float[a,2] y) { t = Relu(x) y = Relu(t) }")
    line = count(form)
    assert line.nodes["original"] == 2
    assert line.nodes["default"] == 1
    assert not line.is_behind()
    assert "| Fusion | Relu Relu | 2 |" in page([line])


@pytest.mark.slow
@in_parts("part", 4)
def test_results_compute_the_same(part: int) -> None:
    for form in _FORMS[part::4]:
        report = xoptim.verify(form.proto(), xoptim.optimize(form.proto()))
        assert report.status == "equal", form
