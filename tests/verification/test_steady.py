import re
import sys
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

import xoptim
from tests.support import parse
from xoptim.system.machine import filled_memory
from xoptim.verification import VerificationOptions, verify_models
from xoptim.verification.runs.session import Session, Value
from xoptim.verification.runs.session_settings import SessionSettings

UNWRITTEN = """agraph (float[2,a] x, float[b,3] e) => (float[2,c] y) {{
    j = Concat <axis = 1> (x, e) y = {}(j) }}"""
"""The kernel of Concat leaves the columns of an empty operand unwritten."""
VALUES = {"x": np.ones((2, 4000), np.float32), "e": np.ones((0, 3), np.float32)}
fills_memory = pytest.mark.skipif(sys.platform != "linux", reason="memory is filled on Linux only")


@fills_memory
@pytest.mark.parametrize("assignments", [1, 2])
def test_an_original_that_reads_memory_that_nobody_wrote(assignments: int) -> None:
    options = VerificationOptions(feeds=VALUES, assignments=assignments)
    report = verify_models(parse(UNWRITTEN.format("Neg")), parse(UNWRITTEN.format("Exp")), options)
    assert report.status == "not verified"
    assert re.match("the original .*not deterministic.*'y': ", report.reason)
    written = {**VALUES, "e": np.ones((2, 3), np.float32)}
    options = replace(options, feeds=written)
    report = verify_models(parse(UNWRITTEN.format("Neg")), parse(UNWRITTEN.format("Exp")), options)
    assert report.status == "different"


@fills_memory
def test_memory_is_filled_for_a_while() -> None:
    model = parse(UNWRITTEN.format("Identity"))

    def last() -> float:
        (found,) = Session(model).run(VALUES)
        return float(np.asarray(found)[0, -1])

    with filled_memory():
        first = last()
    with filled_memory():
        assert last() != first
    assert first > 1e29
    again = Session(model).run({**VALUES, "e": np.ones((2, 3), np.float32)})
    assert np.asarray(again[0])[0, -1] == 1


BEFORE = "agraph (float[n] x) => (float[n] y) { m = Neg(x) y = Neg(m) }"
AFTER = "agraph (float[n] x) => (float[n] y) { y = Identity(x) }"


def changed(monkeypatch: pytest.MonkeyPatch, change: Callable[[str, int, int], int]) -> None:
    """Add a number to the results of a session: by the first operator of its model and its level,
    such as ``Neg off``, the number of such sessions before, and the size of the input.
    """
    make, run = Session.__init__, Session.run
    made_so_far: list[str] = []
    kinds: dict[int, tuple[str, int]] = {}

    def made(self: Session, model, settings=None, **named):  # type: ignore[no-untyped-def]
        make(self, model, settings, **named)
        kind = f"{model.graph.node[0].op_type} {(settings or SessionSettings()).level}"
        kinds[id(self)] = kind, made_so_far.count(kind)
        made_so_far.append(kind)

    def ran(self: Session, feeds: dict[str, Value], limit: float | None = None) -> list[Value]:
        by = change(*kinds[id(self)], len(np.asarray(feeds["x"])))
        return [np.asarray(each) + np.float32(by) for each in run(self, feeds, limit)]

    monkeypatch.setattr(Session, "__init__", made)
    monkeypatch.setattr(Session, "run", ran)


def test_each_run_that_differs_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    options = VerificationOptions(rtol=1e-5)

    def change(kind: str, before: int, size: int) -> int:
        return before if kind == "Neg off" and size == 3 else kind == "Identity off"

    changed(monkeypatch, change)
    report = verify_models(parse(BEFORE), parse(AFTER), options)
    assert report.status == "not verified"
    assert re.match("the original .*not deterministic.*'y': ", report.reason)
    changed(monkeypatch, lambda kind, *_: kind == "Identity off")
    assert verify_models(parse(BEFORE), parse(AFTER), options).status == "different"


def test_a_difference_under_optimizations_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    changed(
        monkeypatch,
        lambda kind, before, _: before if kind == "Neg all" else kind == "Identity all",
    )
    report = verify_models(parse(BEFORE), parse(AFTER))
    assert report.status == "not verified"
    assert re.match("the original .*not deterministic.*'y': ", report.reason)


@fills_memory
def test_a_model_that_is_compared_with_a_function() -> None:
    model = parse(UNWRITTEN.format("Neg"))
    options = VerificationOptions(feeds=VALUES)
    report = xoptim.verify(lambda x, e: np.ones((2, 4003), np.float32), model, options)
    assert report.status == "not verified"
    assert re.match("the model .*not deterministic.*'y': ", report.reason)


def test_a_model_whose_rounding_seems_to_be_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second session measures rounding, and reads another number from unwritten memory."""
    changed(monkeypatch, lambda kind, before, _: 10**9 if kind == "Neg off" and before else 0)
    report = xoptim.verify(np.exp, parse(BEFORE))
    assert report.status == "not verified"
    assert re.match("the model .*not deterministic.*'y': ", report.reason)
