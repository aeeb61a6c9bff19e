"""The measurement: values, facts about a model, the number of challengers that fit into memory."""

import pytest

from tests.support import parse
from tests.tuning.fakes import MODEL
from xoptim import OptimizationOptions
from xoptim.bench import BenchOptions
from xoptim.graph.sources import Source
from xoptim.tuning import measurement as module
from xoptim.tuning.candidates import Candidates
from xoptim.tuning.choices import SELECTION, UNTOUCHED, Recipe, default_recipe
from xoptim.tuning.measurement import Budget, Measurement, SideBySide


@pytest.fixture
def measurement(brief: None) -> Measurement:
    """The measurement of a small model."""
    candidates = Candidates(Source(parse(MODEL)), OptimizationOptions(patterns=SELECTION))
    return Measurement(candidates, BenchOptions(threads=1, dims={"n": 3}), Budget(1000.0))


def test_the_original_runs_on_the_values(measurement: Measurement) -> None:
    assert measurement.runs[0].sizes == {"n": 3}
    assert measurement.original.recipe == UNTOUCHED
    assert measurement.original.settings.level == "all"
    assert isinstance(measurement.meter(), SideBySide)


def test_facts(measurement: Measurement) -> None:
    found = measurement.study([default_recipe(), Recipe()])
    assert {"movement", "activations (onnxruntime)"} <= found.groups.keys()
    assert "convolutions" not in found.groups
    assert {"Relu", "QuickGelu"} <= found.shares.keys()
    assert all(0 <= share <= 1 for share in (*found.shares.values(), *found.groups.values()))
    assert found.groups["activations (onnxruntime)"] == found.shares["QuickGelu"] > 0


@pytest.mark.parametrize(
    ("free", "expected"), [(None, 4), (1 << 40, 4), (48, 4), (40, 3), (28, 1), (0, 1)]
)
def test_challengers_that_fit_into_memory(
    monkeypatch: pytest.MonkeyPatch, free: int | None, expected: int
) -> None:
    """Half of the free memory is for sessions, of twice the weights each: four bytes here."""
    monkeypatch.setattr(module, "weight_bytes", lambda _: 2)
    monkeypatch.setattr(module, "available_memory", lambda: free)
    candidates = Candidates(Source(parse(MODEL)), OptimizationOptions())
    monkeypatch.setattr(module, "run_reference", lambda *_: type("R", (), {"runs": [None]}))
    assert Measurement(candidates, BenchOptions(), Budget(1.0)).rules.max_challengers == expected
