"""Runs on a GPU, whose kernels check no indices, and spread NaN otherwise: the CPU, called a GPU
here, stands in for one.
"""

import numpy as np
import pytest

from tests.support import parse
from xoptim.verification import RunError, Session, VerificationOptions
from xoptim.verification.inputs import reference
from xoptim.verification.inputs.dims import Sizes
from xoptim.verification.inputs.feeding import ReferenceRun, RunPlan, run_plan
from xoptim.verification.inputs.reference import run_reference

GATHER = "agraph (float[n,4] x, float[m] p) => (float[m,4] y) <int64 o = {0}, int64 i = {1}> "
GATHER += "{ s = Shape(p) e = Gather(s, o) r = Range(o, e, i) y = Gather(x, r) }"


@pytest.fixture
def unchecked(monkeypatch: pytest.MonkeyPatch) -> list[Sizes]:
    """Makes the original run on whatever it is given, and notes the sizes that kernels of the CPU
    refuse.
    """
    sizes: list[Sizes] = []

    def run(session: Session, plan: RunPlan, limit: float | None = None) -> ReferenceRun:
        try:
            return run_plan(session, plan, limit)
        except RunError:
            sizes.append(plan.sizes)
            return ReferenceRun(
                plan.source, plan.sizes, plan.seed, plan.feeds, [np.zeros((1, 4), np.float32)], 0.0
            )

    monkeypatch.setattr(reference, "run_plan", run)
    return sizes


@pytest.fixture
def _gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reference, "CUDA", "CPUExecutionProvider")


def runs_of(body: str) -> list[ReferenceRun]:
    return run_reference(parse(body), VerificationOptions()).runs


def test_indices_out_of_range_would_run(unchecked: list[Sizes]) -> None:
    assert any(run.sizes["m"] > run.sizes["n"] for run in runs_of(GATHER))
    assert unchecked


@pytest.mark.usefixtures("_gpu")
def test_sizes_are_those_that_a_processor_accepts(unchecked: list[Sizes]) -> None:
    assert all(run.sizes["m"] <= run.sizes["n"] for run in runs_of(GATHER))
    assert not unchecked


@pytest.mark.usefixtures("_gpu")
def test_what_no_processor_runs_is_run_all_the_same(unchecked: list[Sizes]) -> None:
    assert runs_of(
        "agraph (float[n,4] x) => (float[1,4] y) <int64[1] i = {1000}> { y = Gather(x, i) }"
    )
    assert unchecked


def test_nan_is_omitted_where_convolutions_spread_it(monkeypatch: pytest.MonkeyPatch) -> None:
    body = "agraph (float[n,1,4,4] x, float[2,1,3,3] w) => (float[n,2,2,2] y) { y = Conv(x, w) }"
    assert "odd" in {run.source for run in runs_of(body)}
    monkeypatch.setattr(reference, "CUDA", "CPUExecutionProvider")
    assert "odd" not in {run.source for run in runs_of(body)}
    assert "odd" in {
        run.source for run in runs_of("agraph (float[n,4] x) => (float[n,4] y) { y = Neg(x) }")
    }
