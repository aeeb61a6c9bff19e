"""Every conformance case that onnxruntime gets right is right after the optimization, with constants for inputs too.

A case is optimized here in one of its forms; ``make conformance`` tries all of them.
"""

import logging

import numpy as np
import pytest

from tests.conformance.cases import KINDS, Case, all_cases, with_constants
from tests.conformance.judging import Outcome, agree, judge, outcomes
from tests.conformance.page import MAY_DIFFER, PAGE, listed, render, summary, versions
from tests.support import parse

CHUNKS = 16


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(CHUNKS))
@pytest.mark.filterwarnings("ignore")
def test_optimized_models_give_the_outputs_of_the_suite(chunk: int, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)
    found = outcomes(chunk, CHUNKS)
    assert [fault for outcome in found for fault in outcome.faults] == []
    assert sum(not outcome.left_out for outcome in found) > len(found) / 2


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_the_page_lists_what_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    """For the versions that it names, as far as that does not depend on the machine."""
    caplog.set_level(logging.ERROR)
    page = PAGE.read_text(encoding="utf-8")
    if versions() not in page:
        pytest.skip("the page is about other versions of onnx and onnxruntime")
    found = [outcome for chunk in range(CHUNKS) for outcome in outcomes(chunk, CHUNKS)]
    shown, wanted = listed(page), listed(render(found))
    assert shown["all"] == wanted["all"]
    assert {case for case, reason in shown.items() if reason not in MAY_DIFFER} == {
        case for case, reason in wanted.items() if reason not in MAY_DIFFER
    }, "run `make conformance`"
    assert shown.keys() <= {outcome.case for outcome in found} | {"all"}


@pytest.mark.slow
def test_every_kind_is_there() -> None:
    kinds = [case.kind for case in all_cases()]
    assert set(kinds) == set(KINDS)
    assert len(kinds) > 1500
    assert len({(case.kind, case.name) for case in all_cases()}) == len(kinds)


def _case(text: str, feeds: list[np.ndarray], outputs: list[np.ndarray]) -> Case:
    return Case("toy", "toy", parse(text), ((feeds, outputs),))


X = np.array([-1, 2], np.float32)
TEXT = "agraph (float[2] x, float[2] y) => (float[2] z) { a = Add(x, y) z = Relu(a) }"


def test_how_a_case_is_judged() -> None:
    right = judge(_case(TEXT, [X, X], [np.array([0, 4], np.float32)]))
    assert right == Outcome("toy/toy", "", 6)
    assert judge(_case(TEXT, [X, X], [X])).left_out == "other numbers"
    assert [judge(_case(TEXT, [X, X], [np.array([0, 4], np.float32)]), form).runs for form in range(4)] == [2, 2, 2, 2]
    unknown = judge(_case("agraph (float[2] x) => (float[2] y) { y = Unheard(x) }", [X], [X]))
    assert unknown.left_out.startswith("unknown operator or version: ")
    page = render([right, right._replace(case="node/a", left_out="refused: so"), right._replace(case="node/b")])
    assert listed(page) == {"node/a": "refused", "all": "2"} | {"all": listed(page)["all"]}
    assert "3 cases, 2 right" in summary([right, right._replace(left_out="refused"), right])


def test_a_fault_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xoptim.optimize", lambda model, **_: parse(TEXT.replace("Relu", "Neg")))
    found = judge(_case(TEXT, [X, X], [np.array([0, 4], np.float32)]))
    assert found.faults[0] == "toy/toy with default: other numbers"


def test_inputs_become_constants() -> None:
    case = _case(TEXT, [X, X], [X])
    for spare, names in ((0, []), (1, ["x"])):
        model = with_constants(case, spare=spare)
        assert model is not None
        assert [value.name for value in model.graph.input] == names
    assert with_constants(case, spare=2) is None


def test_what_agrees() -> None:
    half = np.float16(1.0)
    assert agree([X, None], [X, None], 1e-3, 0)
    assert not agree([X], [X, X], 1e-3, 0)
    assert not agree(X, X.astype(np.float64), 1e-3, 0)
    assert not agree(X, X[:1], 1e-3, 0)
    assert agree(np.array(half), np.array(np.nextafter(half, np.float16(2))), 1e-4, 0)
    assert agree(np.array([np.nan]), np.array([np.nan]), 0, 0)
    assert agree({"a": 1.0}, {"a": 1.0}, 0, 0)
    assert agree(np.array(["a"], dtype=object), np.array(["a"], dtype=object), 0, 0)
    assert not agree(np.array([1]), np.array([2]), 9, 9)
