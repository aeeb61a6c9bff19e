"""``xopt batch``: its options, those that it passes on, the table, and signals."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import click
import pytest

from tests.batching.fakes import SCRIPT, files, runs, write
from tests.cli.command import Xopt
from tests.cli.test_progress import MOVES
from tests.support import values_in
from xoptim.batching import workers
from xoptim.batching.store import RESULTS
from xoptim.cli.commands.batch import _NAMING_FILES, SHARED, batch_command

INTERRUPTIBLE = f"""
import signal
# a shell makes its background jobs ignore it
signal.signal(signal.SIGINT, signal.default_int_handler)
from xoptim.batching import workers
workers.CODE = {SCRIPT!r}
from xoptim.cli.main import main
main()
"""


@pytest.fixture(autouse=True)
def _fake_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes of models run a script in place of ``xopt``."""
    monkeypatch.setattr(workers, "CODE", SCRIPT)


def passed_on(result: str = "out/a.onnx") -> Any:
    """The limit of memory, and the command line without the files, of the process that wrote a
    result.
    """
    memory, words, _ = json.loads(Path(result).read_text())
    assert words[:2] == ["--no-config", "optimize"]
    return memory, words[2:]


def test_the_table(xopt: Xopt) -> None:
    write(Path("in"), a="fine", sub__b="crash", c="doubtful")
    outcome = xopt("batch", "in", "-o", "out", "--jobs", "2")
    assert outcome.code == 2
    assert files(Path("out")) == {RESULTS, "a.onnx", "c.onnx"}
    table = [line.split() for line in outcome.out.splitlines()]
    assert ["a.onnx", "done", "3", "→", "1", "300", "B", "→", "100", "B"] in [
        row[:10] for row in table
    ]
    assert any(
        row[:2] == ["sub/b.onnx", "crashed"] and row[-3:] == ["ended", "by", "SIGKILL"]
        for row in table
    )
    counts = next(line for line in outcome.out.splitlines() if "unchanged" in line)
    assert values_in(counts)[:4] == ["1", "1", "1", "0"]
    assert {line.split()[1] for line in outcome.err.splitlines()} == {
        "a.onnx:",
        "c.onnx:",
        "sub/b.onnx:",
    }
    again = xopt("batch", "in", "-o", "out")
    assert "2 unchanged" in again.out
    assert runs(Path("in")) == {"a": 1, "b": 2, "c": 1}
    assert xopt("batch", "in", "-o", "out", "-q") == (2, "", "")


def test_remarks(xopt: Xopt) -> None:
    """Each once, those about most models first; all are in the records."""
    many = " ".join(f"note{number}" for number in range(12))
    write(Path("in"), a="fine", **dict.fromkeys("bcdef", "remarkable"), g=f"remarkable {many}")
    lines = xopt("batch", "in", "-o", "out", "-j", "2").out.splitlines()
    first = lines.index("hint: use it (b.onnx, c.onnx, d.onnx, 3 more)")
    assert lines[first - 1] == ""
    notes = [f"note{number} (g.onnx)" for number in range(11)]
    assert lines[first + 1 : first + 12] == notes
    assert values_in(lines[first + 12]) == ["1"]
    assert RESULTS in lines[first + 12]
    record = json.loads(Path("out", RESULTS).read_text().splitlines()[-1])
    assert record["remarks"] == ["hint: use it", *many.split()]


def test_options_of_the_optimizer(xopt: Xopt) -> None:
    write(Path("in"), a="fine")
    Path("rules.txt").touch()
    words = [
        "--patterns",
        "default-Gelu",
        "--drop",
        "A",
        "--drop",
        "B",
        "--no-verify",
        "--inline",
        "--rewrite",
        "rules.txt",
    ]
    assert xopt("batch", "in", "-o", "out", *words, "--memory", "1.5GB", "-q").code == 0
    memory, got = passed_on()
    assert memory == "1500000000"
    rules = f"--rewrite={Path('rules.txt').absolute()}"
    assert sorted(got) == sorted(
        ["--patterns=default-Gelu", "--drop=A", "--drop=B", "--no-verify", "--inline", rules]
    )
    Path("rules.txt").write_text("changed")
    xopt("batch", "in", "-o", "out", *words, "--memory", "1.5GB", "-q")
    assert runs(Path("in")) == {"a": 2}, "a file that an option names has changed"


def test_the_address_of_a_metric(xopt: Xopt) -> None:
    write(Path("in"), a="fine")
    address = "xoptim.precision.metrics:error"
    words = ["--precision", "int8", "--metric", address]
    assert xopt("batch", "in", "-o", "out", *words, "-q").code == 0
    assert passed_on()[1] == ["--precision=int8", f"--metric={address}"]


def test_libraries_of_operators(xopt: Xopt, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package stands for its library, whose content counts."""
    write(Path("in"), a="fine")
    Path("ops.so").touch()
    package = ModuleType("onnxruntime_extensions")
    package.get_library_path = lambda: str(Path("ops.so").absolute())  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, package.__name__, package)
    words = ["batch", "in", "-o", "out", "--custom-op-lib", "onnxruntime-extensions", "-q"]
    assert xopt(*words).code == 0
    assert passed_on()[1] == [f"--custom-op-lib={Path('ops.so').absolute()}"]
    Path("ops.so").write_text("changed")
    assert xopt(*words).code == 0
    assert runs(Path("in")) == {"a": 2}


def test_settings(xopt: Xopt) -> None:
    """Those for ``xopt MODEL`` count, weaker than those for ``xopt batch``, which are weaker than
    the command line.
    """
    write(Path("in"), a="fine")
    Path("xoptim.toml").write_text(
        "jobs = 1\n"
        "seed = 1\n"
        "[optimize]\n"
        'patterns = "Cast"\n'
        "strict = true\n"
        "inline = true\n"
        "benchmark = true\n"
        "[batch]\n"
        'patterns = "Gelu"\n'
    )
    assert xopt("batch", "in", "-o", "out", "--seed", "2", "-q").code == 0
    assert sorted(passed_on()[1]) == ["--inline", "--patterns=Gelu", "--seed=2", "--strict"]
    assert xopt("--no-config", "batch", "in", "-o", "out", "-q").code == 0
    assert passed_on()[1] == []


def test_a_bar_on_terminals(xopt: Xopt, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("FORCE_COLOR", "1")
    write(Path("in"), a="fine")
    assert MOVES in xopt("batch", "in", "-o", "out").err
    assert xopt("batch", "in", "-o", "out", "-q").err == ""


def test_options_that_name_files_are_known() -> None:
    """A file counts by its content, and by its absolute path."""
    shared = [
        option
        for option in batch_command.params
        if isinstance(option, click.Option) and option.name in SHARED
    ]
    paths = {
        option.name
        for option in shared
        if isinstance(option.type, click.Path) or "FILE" in (option.metavar or "")
    }
    assert paths == set(_NAMING_FILES)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -9)]
)
def test_signals(xopt: Xopt, number: signal.Signals, code: int) -> None:
    """Models that are done stay so, processes end, and the same command goes on."""
    write(Path("in"), a="fine", b="slow", c="slow")
    words = [sys.executable, "-c", INTERRUPTIBLE, "batch", "in", "-o", "out", "-j", "2"]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as batch:
        assert batch.stderr is not None
        assert batch.stderr.readline().startswith("[1/3] a.onnx: done")
        while not Path("in/b.runs").exists():
            time.sleep(0.02)
        batch.send_signal(number)
        _, error = batch.communicate(timeout=300)
    assert batch.returncode == code
    if number != signal.SIGKILL:
        word = "interrupted" if number == signal.SIGINT else "terminated"
        assert error.splitlines()[-1].startswith(f"xopt: error: {word}; ")
        assert values_in(error.splitlines()[-1]) == ["1", "3"]
        with pytest.raises(ProcessLookupError):
            os.kill(int(Path("in/b.runs").read_text()), 0)
    write(Path("in"), b="fine", c="fine")
    assert "1 unchanged" in xopt("batch", "in", "-o", "out").out
    assert runs(Path("in"))["a"] == 1
    assert files(Path("out")) == {RESULTS, "a.onnx", "b.onnx", "c.onnx"}


def test_the_target_is_passed_on(xopt: Xopt) -> None:
    write(Path("in"), a="fine")
    words = ("--target", "webgpu", "--software-device", "-q", "-j", "1")
    assert xopt("batch", "in", "-o", "out", *words).code == 0
    assert sorted(passed_on()[1]) == ["--software-device", "--target=webgpu"]
