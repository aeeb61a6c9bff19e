"""Dispatch of command lines, and exit codes of commands."""

import logging
import os
import re
import subprocess
import sys
from pathlib import Path
from pkgutil import iter_modules
from types import SimpleNamespace

import pytest

from tests.cli.command import ONLY, RELU, TRANSPOSES, Xopt, files, types_in, write
from xoptim.cli import commands, main as cli
from xoptim.cli.commands import COMMANDS, GROUPS
from xoptim.cli.exit_codes import UNREAD
from xoptim.system.signals import ENDING


def shell(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A real process."""
    return subprocess.run(
        [sys.executable, "-m", "xoptim", *words],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def test_a_model_is_the_default_command(xopt: Xopt) -> None:
    write(TRANSPOSES)
    assert xopt("model.onnx").code == 0
    assert types_in("model.opt.onnx") == ["Relu"]
    assert xopt("optimize", "model.onnx", "-o", "named.onnx").code == 0
    assert Path("named.onnx").read_bytes() == Path("model.opt.onnx").read_bytes()


def test_options_may_come_first(xopt: Xopt) -> None:
    write(TRANSPOSES)
    assert xopt("-q", "--no-verify", "-o", "first.onnx", "model.onnx").code == 0
    assert types_in("first.onnx") == ["Relu"]


@pytest.mark.usefixtures("brief")
@pytest.mark.parametrize(
    "words",
    [
        ("model.onnx", "-O2"),
        ("fast", "model.onnx", "-O2"),
        ("fast", "model.onnx", "--tune"),
        ("-O2", "model.onnx"),
    ],
)
def test_words_for_tuning(xopt: Xopt, words: tuple[str, ...]) -> None:
    write(TRANSPOSES)
    assert xopt(*words, "--threads", "1", "--budget", "0.1").code == 0
    assert files() == {"model.onnx", "model.opt.onnx", "model.opt.onnx.session.json"}


def test_a_warning_is_shown_once(xopt: Xopt, monkeypatch: pytest.MonkeyPatch) -> None:
    """In each command, however often the engine gives it."""
    write(TRANSPOSES)

    def warn(*_: object) -> None:
        for text in ("of one", "of one", "of another"):
            logging.getLogger("xoptim.graph").warning("a warning %s", text)

    monkeypatch.setattr("xoptim.workflow.stages.Optimize._check_sizes_fit", warn)
    for _ in range(2):
        assert xopt("model.onnx").err.splitlines() == [
            "xopt: warning: a warning of one",
            "xopt: warning: a warning of another",
        ]


def test_a_model_that_is_called_like_a_command(xopt: Xopt) -> None:
    write(TRANSPOSES, "list")
    assert "patterns" in xopt("list").out.splitlines()[-1]
    assert xopt("./list", "-q").code == 0
    assert types_in("list.opt.onnx") == ["Relu"]


def test_a_folder_named_fast(xopt: Xopt) -> None:
    write(TRANSPOSES)
    Path("fast").mkdir()
    assert xopt("fast", "model.onnx", "-q").code == 0
    assert types_in("model.opt.onnx") == ["Relu"]


def test_help_lists_each_command_once() -> None:
    grouped = [name for names in GROUPS.values() for name in names]
    modules = [each.name for each in iter_modules(commands.__path__)]
    assert sorted(grouped) == sorted(name.replace("_", "-") for name in modules)
    assert sorted(grouped) == list(COMMANDS)
    assert [command.name for command in COMMANDS.values()] == list(COMMANDS)
    assert [*GROUPS["Commands"]][:5] == ["optimize", "explain", "verify", "bench", "tune"]


def test_help_has_the_first_sentence_of_each_command() -> None:
    sentences = {name: text for group in GROUPS.values() for name, text in group.items()}
    assert sentences == {
        name: command.get_short_help_str(limit=200) for name, command in COMMANDS.items()
    }


@pytest.mark.parametrize("words", [("--help",), ("-h",), ("optimize", "--help"), ("verify", "-h")])
def test_help(xopt: Xopt, words: tuple[str, ...]) -> None:
    outcome = xopt(*words)
    assert outcome.code == 0
    assert "Usage: xopt" in outcome.out
    assert outcome.err == ""


def test_the_list_of_commands_is_not_cut(xopt: Xopt) -> None:
    printed = " ".join(xopt("--help").out.split())
    first = [
        " ".join((command.help or "").split()).partition(". ")[0].rstrip(".")
        for command in COMMANDS.values()
    ]
    assert [each for each in first if each not in printed] == []


def test_no_words_at_all(xopt: Xopt) -> None:
    outcome = xopt()
    assert outcome.code == 2
    assert "xopt model.onnx" in outcome.out
    assert outcome.err == ""


def test_a_fault_of_our_own_is_one_line_too(xopt: Xopt, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("two\nlines")

    write(RELU)
    monkeypatch.setattr("xoptim.cli.commands.optimize.print_summary", fail)
    outcome = xopt("model.onnx", "--dry-run")
    assert (outcome.code, outcome.out) == (2, "")
    assert "(RuntimeError: two lines)" in outcome.err
    assert outcome.err.count("\n") == 1
    assert "Traceback" in xopt("model.onnx", "--dry-run", "-v").err


def test_out_of_memory(xopt: Xopt, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise MemoryError

    write(RELU)
    monkeypatch.setattr("xoptim.optimizing.verified.GraphBuilder", fail)
    assert xopt("model.onnx").error.startswith("out of memory; ")


def test_the_script_returns_the_code_of_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli, "run", lambda: 7)
    with pytest.raises(SystemExit) as end:
        cli.main()
    assert end.value.code == 7


def test_python_module() -> None:
    """A version, but maybe not `xoptim.__version__`: metadata of another installation may lie in
    the folder of the tests.
    """
    assert re.fullmatch(r"xopt, version \d+\.\d+(\.\S+)?\n", shell("--version").stdout)


def test_a_process_with_a_narrow_character_set() -> None:
    """The arrow between the sizes and the name of the file are shown as well as they can be."""
    write(TRANSPOSES, "modèle.onnx")
    done = shell("modèle.onnx", *ONLY, PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stderr) == (0, "")
    assert "  mod?le.opt.onnx\n" in done.stdout
    assert types_in("modèle.opt.onnx") == ["Relu"]


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device that is always full")
def test_the_summary_cannot_be_written() -> None:
    """The model can, so the message does not say that nothing was written."""
    write(TRANSPOSES)
    with open("/dev/full", "w") as full:
        words = [sys.executable, "-m", "xoptim", "model.onnx", *ONLY]
        done = subprocess.run(
            words, stdout=full, stderr=subprocess.PIPE, text=True, check=False, timeout=300
        )
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert done.stderr.endswith(f": {os.strerror(28)}\n")
    assert types_in("model.opt.onnx") == ["Relu"]


@pytest.mark.skipif(sys.platform == "win32", reason="a folder in use can be removed on POSIX only")
def test_the_current_folder_is_gone(xopt: Xopt, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("gone").mkdir()
    monkeypatch.chdir("gone")
    Path("../gone").resolve().rmdir()
    assert xopt("list", "--patterns", "Cast").code == 0
    assert "'model.onnx'" in xopt("model.onnx").error


def test_nobody_reads_the_output() -> None:
    """As `xopt list | head` does: the process ends as if the signal had killed it, and says
    nothing.
    """
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "xoptim", "list"],
            stdout=writer,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            timeout=300,
        )
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (UNREAD, "")


def test_ignored_exceptions_are_reported_but_for_a_lack_of_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[SimpleNamespace] = []
    monkeypatch.setattr("sys.__unraisablehook__", seen.append)
    monkeypatch.setattr("sys.unraisablehook", None)
    monkeypatch.setattr(ENDING, "_watched", [])
    with monkeypatch.context() as patch:
        patch.setattr("signal.signal", lambda *_: None)
        ENDING.by_exception()
    for kind in (MemoryError, ValueError):
        sys.unraisablehook(SimpleNamespace(exc_type=kind, exc_value=kind()))
    assert [each.exc_type for each in seen] == [ValueError]
