"""Runs on a GPU, whose kernels check no indices, and spread NaN otherwise: the CPU, called a GPU here, stands in for one."""

from collections.abc import Mapping

import numpy as np
import pytest

from tests.support import parse
from xoptim.validate import RunError, ValidationOptions, reference
from xoptim.validate.reference import run_reference
from xoptim.validate.runs import ReferenceRun
from xoptim.validate.session import Session, Value

GATHER = "agraph (float[n,4] x, float[m] p) => (float[m,4] y) <int64 o = {0}, int64 i = {1}> "
GATHER += "{ s = Shape(p) e = Gather(s, o) r = Range(o, e, i) y = Gather(x, r) }"


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> list[Mapping[str, Value]]:
    """Feeds that the kernels of the CPU refuse, which run nevertheless."""
    refused: list[Mapping[str, Value]] = []
    run, made = Session.run, Session.__init__

    def unchecked(self: Session, feeds: Mapping[str, Value], limit: float | None = None) -> list[Value]:
        try:
            return run(self, feeds, limit)
        except RunError:
            if id(self) != first[0]:
                raise
            refused.append(feeds)
            return [np.zeros((1, 4), np.float32)]

    def noting(self: Session, *args: object, **kwargs: object) -> None:
        made(self, *args, **kwargs)  # type: ignore[arg-type]
        first.append(id(self))

    first: list[int] = []
    monkeypatch.setattr(Session, "__init__", noting)
    monkeypatch.setattr(Session, "run", unchecked)
    return refused


def runs_of(body: str) -> list[ReferenceRun]:
    return run_reference(parse(body), ValidationOptions()).runs


def test_sizes_are_those_that_a_processor_accepts(gpu: list[object], monkeypatch: pytest.MonkeyPatch) -> None:
    assert any(run.sizes["m"] > run.sizes["n"] for run in runs_of(GATHER))  # indices out of range
    gpu.clear()
    monkeypatch.setattr(reference, "CUDA", "CPUExecutionProvider")
    assert all(run.sizes["m"] <= run.sizes["n"] for run in runs_of(GATHER))
    assert not gpu


def test_what_no_processor_runs_is_run_all_the_same(gpu: list[object], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reference, "CUDA", "CPUExecutionProvider")
    runs_of("agraph (float[n,4] x) => (float[1,4] y) <int64[1] i = {1000}> { y = Gather(x, i) }")
    assert gpu


def test_nan_is_left_out_where_convolutions_spread_it(monkeypatch: pytest.MonkeyPatch) -> None:
    body = "agraph (float[n,1,4,4] x, float[2,1,3,3] w) => (float[n,2,2,2] y) { y = Conv(x, w) }"
    assert "odd" in {run.source for run in runs_of(body)}
    monkeypatch.setattr(reference, "CUDA", "CPUExecutionProvider")
    assert "odd" not in {run.source for run in runs_of(body)}
    assert "odd" in {run.source for run in runs_of("agraph (float[n,4] x) => (float[n,4] y) { y = Neg(x) }")}
