"""Dynamic dimensions that are fixed inside are named."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from tests.support import parse, values_in
from xoptim.diagnose.dimensions import try_dimensions
from xoptim.diagnose.export import diagnose_export
from xoptim.graph.sources import Source
from xoptim.verification import VerificationOptions
from xoptim.verification.errors import RunStoppedError
from xoptim.verification.inputs.feeding import RunPlan

OPTIONS = VerificationOptions(assignments=1, extremes=False)
CHUNK = """agraph (float[batch,seq,1] x) => (float[batch,16] y) <int64[2] row = {0, 16}> {
    y = Reshape(x, row) }"""
SQUARE = "agraph (float[n,64] x) => (float[n,n] y) { t = Transpose(x) y = MatMul(x, t) }"
PAST = """agraph (float[batch,seq] x, float[batch,past] p, float[batch,total] mask)
    => (float[?,?] y) { c = Concat <axis = 1> (p, x) y = Add(c, mask) }"""


def test_a_length_that_is_fixed_inside() -> None:
    batch, seq = diagnose_export(Source(parse(CHUNK)), OPTIONS).trials
    assert not batch.is_frozen
    assert seq.works == [16]
    sizes = ["1", "2", "3", "17", "24", "64", "128", "512"]
    assert values_in(str(seq))[:10] == ["16", *sizes, ""]
    assert ": Reshape '': " in str(seq)


def test_lengths_that_depend_on_each_other_are_sound() -> None:
    export = diagnose_export(Source(parse(PAST)), OPTIONS)
    assert [trial.name for trial in export.trials] == ["batch", "seq", "past", "total"]
    assert export.is_sound
    assert all(512 in trial.works for trial in export.trials)


def test_an_assignment_that_fails_is_tried_once(monkeypatch: pytest.MonkeyPatch) -> None:
    trials: list[tuple[tuple[str, int], ...]] = []

    def error(_: object, sizes: Mapping[str, int]) -> str:
        trials.append(tuple(sorted(sizes.items())))
        return "no"

    monkeypatch.setattr("xoptim.diagnose.dimensions._Trials._error_at", error)
    try_dimensions(parse("agraph (float[n] x) => (float[n] y) { y = Relu(x) }"), None, OPTIONS)
    assert trials
    assert len(trials) == len({*trials})


def test_a_size_that_exceeds_the_memory_is_no_failure() -> None:
    options = replace(OPTIONS, memory_limit=200_000)
    (trial,) = try_dimensions(parse(SQUARE), None, options)
    assert (trial.works, trial.fails, trial.error) == ([1, 2, 3, 16, 17, 24, 64, 128], [], "")


def test_a_run_that_takes_too_long_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(_: object, plan: RunPlan, limit: float) -> None:
        if plan.sizes["n"] >= 64:
            raise RunStoppedError(f"a run was stopped after {limit:g} seconds")

    monkeypatch.setattr("xoptim.diagnose.dimensions.run_plan", run)
    (trial,) = try_dimensions(parse(SQUARE), None, OPTIONS)
    assert (trial.works, trial.fails, trial.error) == ([1, 2, 3, 16, 17, 24], [], "")


def test_a_model_that_does_not_run() -> None:
    text = "agraph (float[3,4] x) => (float[k] y) <int64[1] s = {0}> { y = Reshape(x, s) }"
    export = diagnose_export(Source(parse(text)), OPTIONS)
    assert "Reshape" in export.error
    assert not export.is_sound
