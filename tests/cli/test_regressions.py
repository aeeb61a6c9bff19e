"""``xopt check --against REVISION`` with limits for size and time."""

import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from tests.cli.command import RELU, Xopt, write
from tests.cli.commands.test_check import commit, needs_git
from tests.support import parse, values_in
from xoptim import save
from xoptim.bench import BenchOptions, BenchReport, Interval, ModelTimes, Ratio
from xoptim.verification.inputs.archives import Archive


def stored(size: int) -> None:
    """Write a MatMul by a matrix in external data."""
    model = parse(f"agraph (float[n,{size}] x) => (float[n,{size}] y) {{ y = MatMul(x, w) }}")
    matrix = numpy_helper.from_array(np.eye(size, dtype=np.float32), "w")
    model.graph.initializer.append(matrix)
    save(model, "model.onnx", external=True)


def grown(factor: float) -> None:
    """Write the small model with a note that makes its file larger by a factor."""
    write(RELU)
    path = Path("model.onnx")
    model = onnx.load(path)
    model.doc_string = "x" * int((factor - 1) * path.stat().st_size)
    onnx.save(model, path)


@needs_git
def test_a_larger_file_fails_beyond_the_limit(xopt: Xopt) -> None:
    write(RELU)
    commit()
    grown(1.5)
    words = "check", "model.onnx", "--against", "main"
    assert xopt(*words).code == 0
    assert xopt(*words, "--max-larger", "60%").code == 0
    outcome = xopt(*words, "--max-larger", "20%")
    assert outcome.code == 1
    same, larger = outcome.out.splitlines()
    assert re.match("ok  model.onnx: .* main: equal", same)
    assert larger.startswith("failed  model.onnx: size: ")
    assert values_in(larger)[-1] == "+20"


@needs_git
def test_external_data_counts(xopt: Xopt) -> None:
    stored(64)
    commit()
    stored(128)
    outcome = xopt("check", "model.onnx", "--against", "main", "--max-larger", "50%")
    assert re.search("^failed .* size: ", outcome.out, re.MULTILINE)


@needs_git
@pytest.mark.parametrize(("bounds", "code"), [((1.02, 1.2), 0), ((1.06, 1.2), 1), ((0.5, 0.6), 0)])
def test_a_slower_model_fails_beyond_noise(
    xopt: Xopt, monkeypatch: pytest.MonkeyPatch, bounds: tuple[float, float], code: int
) -> None:
    """Only an interval that is above the limit as a whole fails."""

    def measured(models: list[Path], options: BenchOptions) -> BenchReport:
        former, model = models
        assert former.name == model.name
        assert former != model
        times = [
            ModelTimes(str(path), 0.1, 0.1, 0.0, 3, None, ratio)
            for path, ratio in ((former, None), (model, Ratio(1.1, Interval(*bounds))))
        ]
        return BenchReport(tuple(times), {}, options)

    monkeypatch.setattr("xoptim.cli.regressions.bench", measured)
    write(RELU)
    commit()
    outcome = xopt("check", "model.onnx", "--against", "main", "--max-slower", "5%")
    assert outcome.code == code
    assert "time ratio: " in outcome.out


@needs_git
def test_both_models_are_measured(xopt: Xopt) -> None:
    write(RELU)
    commit()
    words = "check", "model.onnx", "--against", "main"
    outcome = xopt(*words, "--max-slower", "100%", "--seconds", "0.05s")
    assert (outcome.code, outcome.err) == (0, "")
    assert "time ratio: " in outcome.out


@needs_git
def test_models_with_other_inputs_are_not_measured(xopt: Xopt) -> None:
    write(RELU)
    commit()
    write(RELU.replace(" x)", " x, float[n,4] z)").replace("Relu(x)", "Add(x, z)"))
    outcome = xopt("check", "model.onnx", "--against", "main", "--max-slower", "10%")
    assert outcome.code == 1
    assert re.search("^failed .* time: ", outcome.out, re.MULTILINE)


@needs_git
def test_values_are_read_once_for_all_models(xopt: Xopt, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[Path] = []

    def counted(path: Path, words: str) -> Archive:
        opened.append(path)
        return Archive(path, words)

    monkeypatch.setattr("xoptim.cli.verification.Archive", counted)
    write(RELU)
    write(RELU, "other.onnx")
    np.savez("inputs.npz", x=np.ones((2, 4), np.float32))
    commit()
    words = "check", "--against", "main", "--feeds", "inputs.npz"
    assert xopt(*words, "model.onnx").code == 0
    once = len(opened)
    assert once > 0
    assert xopt(*words, "model.onnx", "other.onnx", "model.onnx").code == 0
    assert len(opened) == 2 * once
