"""Every input from outside gives a result or an error that names the mistake.

The inputs here are the same each time, and short; ``make fuzz-loaders`` goes on for an hour, guided
by coverage if the extra ``fuzz`` is installed.
"""

import random
import subprocess
import sys
from pathlib import Path

import onnx
import pytest

from lab.fuzzing import run
from lab.fuzzing.mutation import mutate
from lab.fuzzing.run import REGRESSIONS
from lab.fuzzing.targets import MEANT, TARGETS, Target, feed
from tests.support import parse
from xoptim.verification import FeedError, load_test_data

ROOT = Path(__file__).parents[2]
KNOWN = sorted(path for path in REGRESSIONS.glob("*/*") if path.is_file())
MOST_CALLS = 10_000_000
"""Five times as many as the longest of them makes."""
RUNS = 600
"""Inputs of each target."""


@pytest.mark.parametrize("path", KNOWN, ids=[f"{path.parent.name}-{path.name}" for path in KNOWN])
def test_what_once_broke(path: Path) -> None:
    """Inputs that once ended in an internal error, or not at all: counted in calls, not in
    seconds.
    """
    left = iter(range(MOST_CALLS))

    def count(*_: object) -> None:
        assert next(left, None) is not None, f"more than {MOST_CALLS} calls"

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        feed(path.parent.name, path.read_bytes())
    finally:
        sys.setprofile(before)


def test_test_data_is_read_from_its_own_files_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """External data would be looked for in the current folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "other.bin").write_bytes(b"\0" * 8)
    tensor = onnx.TensorProto(
        data_type=onnx.TensorProto.FLOAT, dims=[2], data_location=onnx.TensorProto.EXTERNAL
    )
    tensor.external_data.add(key="location", value="other.bin")
    for value, of in (
        (tensor, "float[n]"),
        (onnx.SequenceProto(elem_type=1, tensor_values=[tensor]), "seq(float[n])"),
    ):
        (tmp_path / "input_0.pb").write_bytes(value.SerializeToString())
        with pytest.raises(FeedError, match="another file"):
            load_test_data(tmp_path, parse(f"agraph ({of} x) => ({of} y) {{ y = Identity(x) }}"))


@pytest.mark.slow
def test_mutations(tmp_path: Path) -> None:
    """In a process of its own, should it crash."""
    words = [
        sys.executable,
        "-m",
        "lab.fuzzing.run",
        "--runs",
        str(RUNS),
        "--save",
        str(tmp_path),
    ]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines() == [f"{name}: {RUNS} inputs" for name in TARGETS]
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", TARGETS)
def test_seeds(name: str) -> None:
    """Most seeds are read without any error: what is mutated goes deep."""
    seeds = TARGETS[name].seeds()
    refused = 0
    for data in seeds:
        try:
            TARGETS[name].run(data)
        except MEANT:
            refused += 1
    assert refused <= len(seeds) / 3


def test_the_corpus_is_small() -> None:
    seeds = [data for target in TARGETS.values() for data in target.seeds()]
    assert sum(map(len, seeds)) + sum(path.stat().st_size for path in KNOWN) < 100_000
    assert {path.parent.name for path in KNOWN} <= TARGETS.keys()


@pytest.mark.parametrize("name", TARGETS)
def test_mutations_are_repeatable_and_new(name: str) -> None:
    target = TARGETS[name]
    seed = max(target.seeds(), key=len)
    first, second = (
        [mutate(seed, random.Random(n), target.kind) for n in range(60)] for _ in range(2)
    )
    assert first == second
    assert len({*first} - {seed}) > 40


def test_mutations_of_models_are_models_for_the_most_part() -> None:
    target = TARGETS["model"]
    seed = max(target.seeds(), key=len)
    loaded = 0
    for n in range(60):
        try:
            onnx.load_from_string(mutate(seed, random.Random(n), target.kind))
            loaded += 1
        except Exception:  # protobuf raises what it likes
            continue
    assert loaded > 30


@pytest.mark.parametrize("data", [b"", b"\0", b"\xff" * 40])
@pytest.mark.parametrize("kind", ["bytes", "text", onnx.ModelProto])
def test_anything_can_be_mutated(data: bytes, kind: str | type[onnx.ModelProto]) -> None:
    assert all(isinstance(mutate(data, random.Random(n), kind), bytes) for n in range(40))


def _raising(data: bytes) -> None:
    if len(data) % 2:
        raise LookupError("a defect")


def _endless(_: bytes) -> None:
    while True:
        pass


@pytest.mark.parametrize(
    ("target", "message"), [(_raising, "LookupError: a defect"), (_endless, "more than 0.1 s")]
)
def test_what_breaks_is_kept(
    target: object,
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(
        "lab.fuzzing.targets.TARGETS",
        {"toy": Target(target, lambda: [b"a", b"bb"], "bytes")},  # type: ignore[arg-type]
    )
    monkeypatch.setattr(run, "MAX_SECONDS", 0.1)
    assert run.main(["toy", "--runs", "2", "--save", str(tmp_path)]) in (1, 2)
    kept = sorted(tmp_path.iterdir())
    assert kept[0].name == "crash-toy-1"
    assert kept[0].read_bytes() == b"a"
    assert message in capsys.readouterr().out


def test_the_exit_status_of_many_failures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system keeps 8 bits of it: 256 failures once looked like none."""
    target = Target(_raising, lambda: [b"a"], "bytes")
    monkeypatch.setattr("lab.fuzzing.targets.TARGETS", {"toy": target})
    monkeypatch.setattr("lab.fuzzing.mutation.mutate", lambda data, rng, kind: data)
    assert run.main(["toy", "--runs", "256", "--save", str(tmp_path)]) == 1
    assert len(list(tmp_path.iterdir())) == 256
