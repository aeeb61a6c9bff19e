"""Ctrl-C at each step, full disks, targets that cannot be replaced: existing files stay, and no
other file is left.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import pytest

from tests.cli.command import RELU, TRANSPOSES, Xopt, files, write

pytestmark = pytest.mark.slow


NOTHING = "\nxopt: error: interrupted; nothing was written\n"


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
    monkeypatch.setattr(
        "xoptim.system.temporary.os.fdopen", lambda *given: FullDisk(open_handle(*given))
    )


def raising(error: BaseException) -> Callable[..., None]:
    def fail(*_: object, **__: object) -> None:
        raise error

    return fail


@pytest.mark.usefixtures("bad_patterns")
def test_ctrl_c_while_patterns_run(xopt: Xopt) -> None:
    write(RELU)
    Path("old.onnx").write_bytes(b"old")
    outcome = xopt("model.onnx", "-o", "old.onnx", "--patterns", "Impatient")
    assert outcome == (130, "", NOTHING)
    assert Path("old.onnx").read_bytes() == b"old"
    assert files() == {"model.onnx", "old.onnx"}


@pytest.mark.parametrize("place", ["onnx.ModelProto", "os.replace", "os.fsync"])
@pytest.mark.parametrize(
    "options", [("-o", "old.onnx"), ("--in-place",), ("-o", "old.onnx", "--external-data")]
)
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
            patch.setattr(f"xoptim.system.temporary.{place}", raising(KeyboardInterrupt()))
        outcome = xopt("model.onnx", *options, "--no-verify")
    assert outcome == (130, "", NOTHING)
    assert (Path("model.onnx").read_bytes(), Path("old.onnx").read_bytes()) == (given, b"old")
    assert files() == {"model.onnx", "old.onnx"}


@pytest.mark.parametrize("options", [(), ("-o", "old.onnx"), ("--in-place",)])
def test_a_full_disk(xopt: Xopt, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...]) -> None:
    given = write(TRANSPOSES).read_bytes()
    Path("old.onnx").write_bytes(b"old")
    with monkeypatch.context() as patch:
        fill_disk(patch)
        outcome = xopt("model.onnx", *options)
    assert outcome.error.endswith(os.strerror(errno.ENOSPC))
    assert (Path("model.onnx").read_bytes(), Path("old.onnx").read_bytes()) == (given, b"old")
    assert files() == {"model.onnx", "old.onnx"}


def test_a_target_that_may_not_be_replaced(xopt: Xopt, monkeypatch: pytest.MonkeyPatch) -> None:
    write(TRANSPOSES)
    with monkeypatch.context() as patch:
        patch.setattr(
            "xoptim.system.temporary.os.replace",
            raising(PermissionError(errno.EACCES, "no")),
        )
        assert xopt("model.onnx").error == "cannot write 'model.opt.onnx': no"
    assert files() == {"model.onnx"}


@pytest.mark.parametrize("step", ["stages._hints", "page.Page.draw"])
def test_what_takes_long_comes_before_the_model_is_written(
    xopt: Xopt, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """Then the message of an interrupt is right: nothing was written."""
    write(RELU)
    monkeypatch.setattr(f"xoptim.workflow.{step}", raising(KeyboardInterrupt()))
    assert xopt("model.onnx", "--report", "page.html")[::2] == (130, NOTHING)
    assert files() == {"model.onnx"}
