"""`xoptim.tune` on small models, with given times; and the files that it writes."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import xoptim
from tests.precision.models import network, words
from tests.support import parse
from tests.tuning.fakes import MODEL, Timed, by_groups
from xoptim.facts.errors import ModelError
from xoptim.optimizing import verified
from xoptim.precision.options import PrecisionOptions
from xoptim.tuning import TuneOptions, read_settings, settings_path
from xoptim.tuning.choices import Choice, default_recipe
from xoptim.tuning.tuning import Tuned
from xoptim.verification import FeedError, LoadError, RunError

pytestmark = pytest.mark.slow


def types_of(tuned: Tuned) -> list[str]:
    return [node.op_type for node in tuned.model.graph.node]


def tuned(text: str = MODEL, **changes: Any) -> Tuned:
    return xoptim.tune(parse(text), TuneOptions(threads=1, dims={"n": 3}), **changes)


def test_a_family_that_makes_the_model_slower_is_dropped(timed: Timed) -> None:
    timed(by_groups(shapes=0.8, movement=1.3))
    found = tuned()
    report = found.report
    assert report.changes == ("without movement",)
    assert report.is_faster
    assert report.ratio.value == pytest.approx(0.8)
    assert types_of(found).count("Transpose") == 2
    assert report.optimization.verification[0].ok
    assert not report.is_original


def test_patterns_of_the_target_are_used_where_they_are_faster(timed: Timed) -> None:
    timed(lambda choice: 0.9 if "activations (onnxruntime)" in choice.recipe.without else 0.6)
    found = tuned()
    assert found.report.changes == ("default+onnxruntime",)
    assert "QuickGelu" in types_of(found)


def test_settings_of_the_session(timed: Timed) -> None:
    timed(lambda choice: 1.0 if choice.settings.memory_pattern else 0.9)
    found = tuned()
    assert found.report.changes == ("memory pattern off",)
    assert not found.settings.memory_pattern
    assert found.report.label == "memory pattern off"


def test_where_nothing_is_faster_the_smallest_result_is_written(timed: Timed) -> None:
    timed(lambda choice: 1.0)
    found = tuned()
    assert not found.report.is_faster
    assert found.report.changes == ()
    assert found.report.label in ("default", "default+onnxruntime")
    assert len(types_of(found)) < 7
    assert found.settings.memory_pattern


def test_where_everything_is_slower_the_original_is_written(timed: Timed) -> None:
    timed(lambda choice: 1.5 if choice.recipe.rewrites else 1.0)
    found = tuned()
    assert found.report.is_original
    assert found.report.label == "original"
    assert types_of(found) == [node.op_type for node in parse(MODEL).graph.node]
    assert xoptim.verify(parse(MODEL), found.model, exactness="exact").ok


def test_noise_changes_nothing(timed: Timed) -> None:
    timed(by_groups(shapes=0.9, movement=1.2), noise=5.0)
    assert tuned().report.changes == ()


def test_the_budget_is_a_limit(timed: Timed) -> None:
    meters = timed(by_groups(movement=1.3), most=0)
    report = tuned().report
    assert [trial.label for trial in report.trials] == ["default"]
    assert report.not_tried > 0
    assert [len(meter.passes) for meter in meters] == [3]


def test_a_first_result_that_cannot_be_run_is_left(timed: Timed) -> None:
    """Equal as it is written, but the runtime refuses it with its own optimizations."""
    settings = TuneOptions(threads=1).bench.settings
    timed(by_groups(), failing={Choice(default_recipe(), settings): "it fails"})
    report = tuned().report
    assert report.is_original
    assert report.refuted == (("default", "it fails"),)


def test_a_model_that_is_not_equal_is_refused(
    timed: Timed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The result of the default patterns is said to differ; the original is left."""
    timed(lambda choice: 0.5 if choice.recipe.rewrites else 1.0)
    optimize_verified = verified.optimize_verified

    def wrong(model: Any, options: Any, how: Any) -> Any:
        verified = optimize_verified(model, options, how)
        if options.patterns is not None:
            verified.reports = [xoptim.verify(parse(MODEL), parse(MODEL.replace("Relu", "Neg")))]
        return verified

    monkeypatch.setattr("xoptim.workflow.stages.optimize_verified", wrong)
    report = tuned().report
    assert report.is_original
    assert [label for label, _ in report.refuted] == ["default"]


def test_reports_are_json(timed: Timed) -> None:
    timed(by_groups(movement=1.3, shapes=0.8))
    found = json.loads(json.dumps(tuned().report.to_json()))
    assert found["is_faster"] is True
    assert found["chosen"] == "without movement"
    assert found["changes"] == ["without movement"]
    assert found["ratio"] == pytest.approx(0.8)
    assert len(found["interval"]) == 2
    assert found["settings"]["providers"] == ["CPUExecutionProvider"]
    assert found["tried"][0]["label"] == "default"
    assert found["not_tried"] == 0
    assert found["sizes"] == {"n": 3}
    assert found["verification"][0]["status"] == "equal"


@pytest.mark.slow
def test_two_runs_agree(timed: Timed) -> None:
    meters = timed(by_groups(movement=1.3, shapes=0.8))
    first, second = tuned(), tuned()
    assert first.model.SerializeToString() == second.model.SerializeToString()
    assert meters[0].passes[0] == meters[1].passes[0]
    assert [trial.label for trial in first.report.trials] == [
        trial.label for trial in second.report.trials
    ]


# -------------------------------------------------------------------- files


def test_both_files_are_written(timed: Timed, tmp_path: Path) -> None:
    timed(lambda choice: 1.0 if choice.settings.memory_pattern else 0.9)
    target = tmp_path / "fast.onnx"
    assert set(tuned().save(target)) == {target, settings_path(target)}
    assert not read_settings(settings_path(target)).memory_pattern
    (y,) = xoptim.session(target).run(None, {"x": np.ones((2, 4), np.float32)})
    assert y.shape == (2, 4)


def test_a_failure_leaves_no_file(
    timed: Timed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    timed(lambda choice: 1.0)
    found = tuned()
    with pytest.raises(ModelError, match="cannot write"):
        found.save(tmp_path / "missing" / "fast.onnx")
    settings_path(tmp_path / "fast.onnx").mkdir()
    with pytest.raises(ModelError, match="folder"):
        found.save(tmp_path / "fast.onnx")
    assert [path.name for path in tmp_path.iterdir()] == ["fast.onnx.session.json"]


def test_external_weights(timed: Timed, tmp_path: Path) -> None:
    model = parse("g (float[n,64] x) => (float[n,64] y) { t = MatMul(x, w) u = Neg(t) y = Neg(u) }")
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.eye(64, dtype=np.float32), "w"))
    path = tmp_path / "model.onnx"
    onnx.save(model, path, save_as_external_data=True, location="weights", size_threshold=0)
    timed(lambda choice: 0.5 if choice.recipe.rewrites else 1.0)
    found = xoptim.tune(path, threads=1)
    target = tmp_path / "other" / "fast.onnx"
    target.parent.mkdir()
    found.save(target)
    (y,) = xoptim.session(target).run(None, {"x": np.ones((2, 64), np.float32)})
    assert y.tolist() == np.ones((2, 64)).tolist()


# -------------------------------------------------------------------- without a model that runs


@pytest.mark.parametrize(
    ("text", "changes", "error"),
    [
        ("g (float[2] x) => (float[2] y) { y = NoSuch(x) }", {}, LoadError),
        (MODEL, {"dims": {"q": 1}}, FeedError),
        (
            "g (float[2,3] x) => (float[2,2] y) { y = MatMul(x, x) }",
            {"dims": {}},
            (RunError, LoadError),
        ),
    ],
)
def test_models_that_do_not_run(text: str, changes: Any, error: Any) -> None:
    with pytest.raises(error):
        tuned(text, **{"dims": {}, **changes})


def test_results_that_are_not_evidence(timed: Timed) -> None:
    """A result of NaN verifies nothing: the original is returned, and the report says so."""
    timed(lambda choice: 0.5 if choice.recipe.rewrites else 1.0)
    found = tuned(
        "g (float[n,4] x) => (float[n,4] y) { one = Exp(x) a = Neg(one) t = Log(a) b = Neg(t) "
        "y = Neg(b) }"
    )
    assert found.report.is_original
    assert not found.report.optimization.verification[0].ok


def test_the_budget_is_positive() -> None:
    with pytest.raises(ValueError, match="positive"):
        TuneOptions(budget=0.0)


def rounded(**options: Any) -> Tuned:
    """A network tuned with fewer bits, whatever takes longer alone."""
    precision = PrecisionOptions(
        **{"goal": "size", "tolerance": 0.5, "feeds": [words(), words(seed=1)], **options}
    )
    return xoptim.tune(
        network(layers=2), TuneOptions(threads=1, feeds=words(), precision=precision)
    )


def test_fewer_bits_where_they_are_faster(timed: Timed) -> None:
    timed(lambda choice: 0.3 if choice.recipe.scheme == "int8" else 0.9)
    found = rounded()
    assert found.report.changes[0] == "int8"
    assert "MatMulInteger" in types_of(found) or "DynamicQuantizeMatMul" in types_of(found)
    assert found.report.quantized is not None
    assert found.report.quantized.to_json()["scheme"] == "int8"
    assert "Int8Operands" in found.report.optimization.applied
    assert found.report.optimization.verification[0].ok
    assert "int4" in {trial.label for trial in found.report.trials}


def test_floats_only_unless_asked(timed: Timed) -> None:
    timed(lambda choice: 0.9)
    found = xoptim.tune(network(layers=2), TuneOptions(threads=1, feeds=words()))
    assert not {"int8", "int4"} & {trial.label for trial in found.report.trials}
    assert found.report.to_json()["precision"] is None


def test_products_are_measured_with_the_threads_of_the_result() -> None:
    assert TuneOptions(threads=1).checks.threads == TuneOptions(threads=1).bench.threads == 1
