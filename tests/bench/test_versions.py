"""One model with several versions of onnxruntime; here, all are the installed one.

`xoptim.bench.version_worker` runs the model.
"""

import os
import sys
from pathlib import Path

import onnxruntime
import pytest

from tests.support import parse
from xoptim import save
from xoptim.bench import BenchOptions, bench_versions
from xoptim.bench.environments import InstallError, python_with_onnxruntime
from xoptim.bench.versions import VersionProcess
from xoptim.verification.errors import FeedError, LoadError, ProviderUnavailable, RunError

RELU = "agraph (float[n,4] x) => (float[n,4] y) { y = Relu(x) }"
QUICK = BenchOptions(seconds=0.01, threads=1, passes=2, dims={"n": 3})
HERE = f"onnxruntime {onnxruntime.__version__}"


def installed(_: str) -> Path:
    """The Python of this process."""
    return Path(sys.executable)


def test_versions_take_turns() -> None:
    steps: list[str] = []
    times = bench_versions(
        parse(RELU), ["1.30", "1.32"], QUICK, python_of=installed, on_step=steps.append
    )
    first, second = times.report.models
    assert (first.label, second.label) == (HERE, f"{HERE} (2)")
    assert (first.ratio, second.comparison) == (None, None)
    assert second.ratio is not None
    assert second.ratio.interval.low <= second.ratio.value <= second.ratio.interval.high
    assert first.rounds == second.rounds >= 10, "five rounds in each of two passes"
    assert first.loading is not None
    assert times.report.sizes == {"n": 3}
    assert steps[:3] == [
        "preparing onnxruntime 1.30",
        "preparing onnxruntime 1.32",
        "choosing values",
    ]
    assert [*times.operators] == [HERE, f"{HERE} (2)"]
    assert all({*operators} == {"Relu"} for operators in times.operators.values())


def test_several_settings() -> None:
    times = bench_versions(
        parse(RELU), ["1.30", "1.32"], QUICK, python_of=installed, at=[{"n": 2}, {"n": 5}]
    )
    assert [setting.sizes for setting in times.report.at] == [{"n": 2}, {"n": 5}]
    assert times.report.models[1].ratio is not None


def test_strings_are_passed() -> None:
    text = "agraph (string[n] x) => (string[n] y) { y = Identity(x) }"
    times = bench_versions(parse(text), ["1.30", "1.32"], QUICK, python_of=installed)
    assert len(times.report.models) == 2


@pytest.mark.parametrize("kind", ["bfloat16", "seq(float[n])"])
def test_values_that_cannot_be_passed(kind: str) -> None:
    declared = kind if "(" in kind else f"{kind}[n]"
    made = "SequenceLength(x)" if "(" in kind else "Shape(x)"
    model = parse(f"agraph ({declared} x) => (int64 y) {{ y = {made} }}")
    with pytest.raises(FeedError, match=r"input 'x' .*type"):
        bench_versions(model, ["1.30", "1.32"], QUICK, python_of=installed)


def test_only_on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "xoptim.bench.versions.resolve_providers", lambda _: ["CUDA", "CPUExecutionProvider"]
    )
    with pytest.raises(ProviderUnavailable, match="CPU only"):
        bench_versions(parse(RELU), ["1.30", "1.32"], QUICK, python_of=installed)


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    """A Python with an onnxruntime that does not work."""
    python = tmp_path / "python"
    python.write_text(f"#!{sys.executable}\nimport sys\nsys.exit(7)\n")
    python.chmod(0o755)
    return python


@pytest.mark.skipif(sys.platform == "win32", reason="a script is a program on POSIX only")
def test_a_process_that_ends(broken: Path) -> None:
    with pytest.raises(LoadError, match=r"'model 1' .*onnxruntime 1\.30: .*exit code 7$"):
        bench_versions(parse(RELU), ["1.30"], QUICK, python_of=lambda _: broken)


def test_a_model_that_a_version_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message of that version is in the error, in one line."""
    save(parse(RELU), tmp_path / "model.onnx")
    load = VersionProcess.load
    monkeypatch.setattr(
        VersionProcess, "load", lambda self, task: load(self, {**task, "model": "missing.onnx"})
    )
    with pytest.raises(LoadError, match=r"onnxruntime 1\.30: .*missing\.onnx") as caught:
        bench_versions(tmp_path / "model.onnx", ["1.30"], QUICK, python_of=installed)
    assert "\n" not in str(caught.value)


def test_a_run_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    load = VersionProcess.load

    def load_and_end(self: VersionProcess, task: dict[str, object]) -> None:
        load(self, task)
        self._process.kill()

    monkeypatch.setattr(VersionProcess, "load", load_and_end)
    with pytest.raises(RunError, match=f" {HERE}: .*ended"):
        bench_versions(parse(RELU), ["1.30"], QUICK, python_of=installed)


@pytest.mark.slow
@pytest.mark.skipif(os.environ.get("BATTERIES") != "all", reason="installs two versions")
def test_two_real_versions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    try:
        pythons = {version: python_with_onnxruntime(version) for version in ("1.30", "1.32")}
    except InstallError as error:
        pytest.skip(str(error))
    times = bench_versions(parse(RELU), list(pythons), QUICK, python_of=pythons.__getitem__)
    assert [model.label[:16] for model in times.report.models] == [
        "onnxruntime 1.30",
        "onnxruntime 1.32",
    ]
    assert python_with_onnxruntime("1.30") == pythons["1.30"], "it is used again"
