"""Benchmarks of small models: the figures, the values, the comparison."""

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnx
import pytest

from tests.bench.test_rounds import Clock
from tests.support import parse
from tests.verification.test_fatal import PRODUCT
from xoptim.bench import BenchOptions, BenchReport, Loading, bench
from xoptim.bench.measure import profile
from xoptim.verification import FeedError, LoadError, RunError, Session

NEG = "g (float[N,N] x) => (float[N,N] y) { y = Neg(x) }"
NEG_TWICE = "g (float[N,N] x) => (float[N,N] y) { a = Neg(x) b = Neg(a) y = Neg(b) }"
MATMULS = (
    "g (float[N,N] x) => (float[N,N] y) { a = MatMul(x, x) b = MatMul(a, x) y = MatMul(b, x) }"
)
QUICK = BenchOptions(seconds=0.01, passes=1, threads=1, dims={"N": 8})


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests do not look at the values of the figures: nothing is warmed up, and loading is not
    measured.
    """
    monkeypatch.setattr("xoptim.bench.rounds._WARM_SECONDS", 0.0)
    monkeypatch.setattr("xoptim.bench.rounds._TURN_SECONDS", 0.0)
    monkeypatch.setattr("xoptim.bench.measure.measure_loading", lambda *_: Loading(0.5, 2_000_000))


def measured(*texts: str, **changes: object) -> BenchReport:
    return bench([parse(text) for text in texts], QUICK, **changes)  # type: ignore[arg-type]


def test_figures() -> None:
    report = measured(NEG, NEG_TWICE)
    first, second = report.models
    assert [first.label, second.label] == ["model 1", "model 2"]
    assert 0 < first.best <= first.median
    assert first.rounds == second.rounds >= 5
    assert first.spread >= 0
    assert first.loading == (0.5, 2_000_000)
    assert first.ratio is None
    assert first.comparison is None
    assert second.ratio is not None
    assert second.ratio.interval.low <= second.ratio.interval.high
    assert second.comparison is not None
    assert second.comparison.ok
    assert report.is_equal
    assert report.sizes == {"N": 8}


def test_more_work_takes_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock moves when a model runs, by a time that belongs to the name of its graph."""
    clock = Clock()
    seconds = {"g": 0.001, "h": 0.004}

    def runner(session: Session, _: object) -> Callable[[], None]:
        name = session._session.get_modelmeta().graph_name
        return clock.model(name, seconds[name])

    monkeypatch.setattr(Session, "runner", runner)
    monkeypatch.setattr("xoptim.bench.rounds.time", SimpleNamespace(perf_counter=lambda: clock.now))
    monkeypatch.setattr("xoptim.bench.measure.clock_for", lambda _: lambda: clock.now)
    report = measured(NEG, MATMULS.replace("g (", "h (", 1), compare=False)
    assert report.models[1].ratio is not None
    assert report.models[1].ratio.value == pytest.approx(4.0, rel=1e-3)
    assert report.models[1].ratio.is_difference
    assert report.models[0].best == pytest.approx(0.001)
    assert report.is_equal  # nothing was compared
    assert report.models[1].comparison is None


def test_other_results_are_reported() -> None:
    report = measured(NEG, "g (float[N,N] x) => (float[N,N] y) { y = Abs(x) }")
    assert not report.is_equal
    assert report.models[1].comparison is not None
    assert report.models[1].comparison.status == "different"


def test_without_loading() -> None:
    report = measured(NEG, NEG_TWICE, loading=False)
    assert report.models[0].loading is None
    assert report.to_json()["models"][0]["load_ms"] is None


def test_json() -> None:
    report = measured(NEG, NEG_TWICE)
    found = json.loads(json.dumps(report.to_json()))
    assert found["sizes"] == {"N": 8}
    assert found["level"] == "all"
    assert found["models"][0]["ratio"] is None
    assert len(found["models"][1]["interval"]) == 2
    assert found["models"][1]["median_ms"] == pytest.approx(1e3 * report.models[1].median)
    latency = report.latency().to_json()
    assert set(latency) == {
        "provider",
        "threads",
        "before_ms",
        "after_ms",
        "ratio",
        "interval",
        "sizes",
    }
    assert latency["threads"] == 1
    assert latency["after_ms"] == found["models"][1]["median_ms"]


def test_values_of_the_user() -> None:
    feeds = {"x": np.full((3, 3), 2, np.float32)}
    assert bench([parse(NEG)], QUICK, feeds=feeds, dims={}).sizes == {"N": 3}
    with pytest.raises(FeedError, match="no input 'z'"):
        bench([parse(NEG)], QUICK, feeds={"z": feeds["x"]})
    with pytest.raises(RunError):
        bench([parse(MATMULS)], QUICK, feeds={"x": np.ones((2, 3), np.float32)}, dims={})


def test_steps_are_reported() -> None:
    steps: list[str] = []
    measured(NEG, NEG, on_step=steps.append)
    assert steps == ["choosing values", "measuring: 0 of 1", "loading", "comparing"]


def test_models_that_cannot_be_measured() -> None:
    with pytest.raises(ValueError, match="no model"):
        bench([], QUICK)
    with pytest.raises(LoadError):
        measured("g (float[N] x) => (float[N] y) { y = NoSuchOperator(x) }")
    with pytest.raises(FeedError, match=r"'model 2': .*inputs.* x, z"):
        measured(NEG, "g (float[N,N] z) => (float[N,N] y) { y = Neg(z) }", compare=False)


@pytest.mark.parametrize("wrong", [{"seconds": 0.0}, {"passes": 0}])
def test_options_are_checked(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="positive"):
        BenchOptions(**wrong)  # type: ignore[arg-type]


def test_files_and_external_weights(tmp_path: Path) -> None:
    """A protobuf with its weights in a file is written elsewhere.

    It stays as it is, and so does the file.
    """
    model = parse("g (float[N,64] x) => (float[N,64] y) <float[64,64] w> { y = MatMul(x, w) }")
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.eye(64, dtype=np.float32), "w"))
    path = tmp_path / "model.onnx"
    onnx.save(model, path, save_as_external_data=True, location="weights", size_threshold=0)
    light = onnx.load(path, load_external_data=False)
    before = light.SerializeToString()
    report = bench({"file": str(path), "protobuf": light}, QUICK, base_dirs={"protobuf": tmp_path})
    assert [each.label for each in report.models] == ["file", "protobuf"]
    assert report.is_equal
    assert light.SerializeToString() == before
    assert {each.name for each in tmp_path.iterdir()} == {"model.onnx", "weights"}


def test_a_file_that_is_given_twice_has_two_labels(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(parse(NEG).SerializeToString())
    assert [each.label for each in bench([path, path], QUICK).models] == [str(path), f"{path} (2)"]


def test_models_at_which_an_optimization_ends_the_process() -> None:
    """Without the settings that `xoptim.verification.runs.fatal` makes safe, onnxruntime ends
    pytest.
    """
    options = BenchOptions(seconds=0.01, passes=1, threads=1, dims={"t": 2, "b": 3})
    report = bench([parse(PRODUCT, 13), parse(PRODUCT, 13)], options)
    assert report.is_equal
    assert "MatMul" in " ".join(profile([parse(PRODUCT, 13)], options)["model 1"])
