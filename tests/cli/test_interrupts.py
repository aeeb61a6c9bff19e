"""Ctrl-C, full disks and targets that cannot be written: existing files stay, and no other file is left behind."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import pytest

from tests.cli.command import RELU, TRANSPOSES, Xopt, files, write

pytestmark = pytest.mark.slow

LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (64, 64))
from xoptim.cli.main import main
main()
"""


class FullDisk:
    """A file on a disk without any room."""

    def __init__(self, stream: IO[bytes]) -> None:
        self.stream = stream

    def write(self, _: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def __enter__(self) -> FullDisk:
        return self

    def __exit__(self, *_: object) -> None:
        self.stream.close()


def fill_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    open_handle: Callable[..., IO[Any]] = os.fdopen
    monkeypatch.setattr("xoptim.graph.atomic_write.os.fdopen", lambda *given: FullDisk(open_handle(*given)))


def raising(error: BaseException) -> Callable[..., None]:
    def fail(*_: object, **__: object) -> None:
        raise error

    return fail


@pytest.mark.usefixtures("bad_patterns")
def test_ctrl_c_while_patterns_run(xopt: Xopt) -> None:
    write(RELU)
    Path("old.onnx").write_bytes(b"old")
    outcome = xopt("model.onnx", "-o", "old.onnx", "--patterns", "Impatient")
    assert (outcome.code, outcome.out, outcome.err.strip()) == (130, "", "xopt: error: interrupted; nothing was written")
    assert Path("old.onnx").read_bytes() == b"old"
    assert files() == {"model.onnx", "old.onnx"}


@pytest.mark.parametrize("place", ["onnx.ModelProto", "os.replace", "tempfile.mkstemp"])
@pytest.mark.parametrize("options", [("-o", "old.onnx"), ("--in-place",), ("-o", "old.onnx", "--external-data")])
def test_ctrl_c_while_the_result_is_written(
    xopt: Xopt, monkeypatch: pytest.MonkeyPatch, place: str, options: tuple[str, ...]
) -> None:
    given = write(TRANSPOSES).read_bytes()
    Path("old.onnx").write_bytes(b"old")
    with monkeypatch.context() as patch:
        if place == "onnx.ModelProto":
            patch.setattr(FullDisk, "write", raising(KeyboardInterrupt()))
            fill_disk(patch)
        else:
            patch.setattr(f"xoptim.graph.atomic_write.{place}", raising(KeyboardInterrupt()))
        outcome = xopt("model.onnx", *options, "--no-verify")
    assert (outcome.code, outcome.out, outcome.err.strip()) == (130, "", "xopt: error: interrupted; nothing was written")
    assert (Path("model.onnx").read_bytes(), Path("old.onnx").read_bytes()) == (given, b"old")
    assert files() == {"model.onnx", "old.onnx"}


@pytest.mark.parametrize("options", [(), ("-o", "old.onnx"), ("--in-place",)])
def test_a_full_disk(xopt: Xopt, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...]) -> None:
    given = write(TRANSPOSES).read_bytes()
    Path("old.onnx").write_bytes(b"old")
    with monkeypatch.context() as patch:
        fill_disk(patch)
        outcome = xopt("model.onnx", *options)
    assert "cannot write" in outcome.error
    assert "No space left on device" in outcome.error
    assert (Path("model.onnx").read_bytes(), Path("old.onnx").read_bytes()) == (given, b"old")
    assert files() == {"model.onnx", "old.onnx"}


@pytest.mark.skipif(sys.platform == "win32", reason="limits of POSIX")
def test_a_limit_of_the_system() -> None:
    """No file may grow beyond 64 bytes: a write that really fails."""
    write(TRANSPOSES)
    Path("old.onnx").write_bytes(b"old")
    words = [sys.executable, "-c", LIMITED, "model.onnx", "-o", "old.onnx", "--patterns", "Cast", "--no-verify", "-q"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "xopt: error: cannot write 'old.onnx': File too large\n"
    assert Path("old.onnx").read_bytes() == b"old"
    assert files() == {"model.onnx", "old.onnx"}


def test_a_target_that_may_not_be_replaced(xopt: Xopt, monkeypatch: pytest.MonkeyPatch) -> None:
    write(TRANSPOSES)
    with monkeypatch.context() as patch:
        patch.setattr("xoptim.graph.atomic_write.os.replace", raising(PermissionError(errno.EACCES, "Permission denied")))
        assert xopt("model.onnx").error == "cannot write 'model.opt.onnx': Permission denied"
    assert files() == {"model.onnx"}


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_is_read_only(xopt: Xopt) -> None:
    write(TRANSPOSES)
    Path("folder").mkdir(mode=0o555)
    assert "cannot write 'folder/model.onnx': Permission denied" in xopt("model.onnx", "-o", "folder/model.onnx").error


def test_a_target_that_is_a_folder(xopt: Xopt) -> None:
    write(TRANSPOSES)
    Path("folder").mkdir()
    assert xopt("model.onnx", "-o", "folder").error == "'folder' is a folder; give a file name"
    assert not list(Path("folder").iterdir())


def test_a_target_in_a_folder_that_is_missing(xopt: Xopt) -> None:
    write(TRANSPOSES)
    assert xopt("model.onnx", "-o", "a/b.onnx").error == "the folder 'a' does not exist; make it first"
    assert files() == {"model.onnx"}


@pytest.mark.parametrize("step", ["_hints", "PageRequest.draw"])
def test_what_takes_long_comes_before_the_model_is_written(xopt: Xopt, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    """Then the message of an interrupt is right: nothing was written."""
    write(RELU)
    monkeypatch.setattr(f"xoptim.cli.commands.optimize.{step}", raising(KeyboardInterrupt()))
    outcome = xopt("model.onnx", "--report", "page.html")
    assert (outcome.code, outcome.err.strip()) == (130, "xopt: error: interrupted; nothing was written")
    assert files() == {"model.onnx"}
