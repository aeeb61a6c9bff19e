"""Models that are read from streams, and targets that are not files."""

import io
import os
import socket
import stat
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from tests.cli.command import RELU, TRANSPOSES, Xopt, files, types_in, write
from tests.support import parse, values_in

posix = pytest.mark.skipif(sys.platform == "win32", reason="special files of POSIX")


def piped(*words: str, given: bytes) -> subprocess.CompletedProcess[bytes]:
    """The command as a filter."""
    return subprocess.run(
        [sys.executable, "-m", "xoptim", *words],
        input=given,
        capture_output=True,
        check=False,
        timeout=300,
    )


@pytest.mark.slow
def test_a_filter() -> None:
    """Standard output holds the model alone; the summary goes to standard error."""
    done = piped("-", "-o", "-", given=write(TRANSPOSES).read_bytes())
    assert done.returncode == 0, done.stderr
    assert [node.op_type for node in onnx.load_from_string(done.stdout).graph.node] == ["Relu"]
    assert b"written       standard output" in done.stderr
    assert files() == {"model.onnx"}


@pytest.mark.slow
def test_weights_travel_with_a_model_on_standard_output() -> None:
    model = parse("agraph (float[n,64] x) => (float[n,64] y) { y = Add(x, w) }")
    weight = np.arange(64, dtype=np.float32)
    model.graph.initializer.append(numpy_helper.from_array(weight, "w"))
    onnx.save(
        model, "model.onnx", save_as_external_data=True, location="model.data", size_threshold=0
    )
    done = piped("model.onnx", "-o", "-", "-q", given=b"")
    (tensor,) = onnx.load_from_string(done.stdout).graph.initializer
    np.testing.assert_array_equal(numpy_helper.to_array(tensor), weight)


def test_streams_that_are_closed(xopt: Xopt, monkeypatch: pytest.MonkeyPatch) -> None:
    write(RELU)
    with monkeypatch.context() as patch:
        patch.setattr("sys.stdin", None)
        assert xopt("stats", "-").error.startswith("standard input is closed")
    monkeypatch.setattr("sys.__stdout__", None)
    for words in (("model.onnx",), ("extract", "model.onnx")):
        assert xopt(*words, "-o", "-").error.startswith("standard output is closed")


def test_a_full_folder_for_temporary_files(xopt: Xopt, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=SimpleNamespace(read=fail)))
    assert xopt("stats", "-").error.endswith(f": {os.strerror(28)}")


@pytest.mark.parametrize(
    "words", [("stats", "-"), ("-", "-o", "out.onnx"), ("verify", "-", "model.onnx")]
)
def test_standard_input(
    xopt: Xopt, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    given = write(RELU).read_bytes()
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(given)))
    assert xopt(*words).code == 0
    assert files() <= {"model.onnx", "out.onnx"}


@pytest.mark.parametrize("words", [("extract", "--to", "t"), ("extract",)])
def test_parts_and_shapes_go_to_standard_output(words: tuple[str, ...]) -> None:
    command, *rest = words
    done = piped(command, "-", *rest, "-o", "-", given=write(TRANSPOSES).read_bytes())
    assert done.returncode == 0, done.stderr
    assert onnx.load_from_string(done.stdout).graph.node[0].op_type == "Transpose"
    assert done.stderr.rstrip().endswith(b": standard output")


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [("check",), ("check", "--json"), ("bench", "--seconds", "0.01"), ("-o", "out.onnx", "--json")],
)
def test_a_stream_has_no_folder(
    xopt: Xopt, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    """The file to which it is copied is not mentioned."""
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(write(RELU).read_bytes())))
    first, *rest = words
    outcome = xopt(*(("-", *words) if first == "-o" else (first, "-", *rest)))
    assert outcome.code == 0
    assert "standard input" in outcome.out
    assert "xopt-stream" not in outcome.out + outcome.err
    assert "/standard input" not in outcome.out


def test_weights_next_to_a_stream(xopt: Xopt, monkeypatch: pytest.MonkeyPatch) -> None:
    model = parse("agraph (float[n,64] x) => (float[n,64] y) { y = Add(x, w) }")
    model.graph.initializer.append(numpy_helper.from_array(np.ones(64, np.float32), "w"))
    onnx.save(
        model, "model.onnx", save_as_external_data=True, location="model.data", size_threshold=0
    )
    monkeypatch.setattr(
        "sys.stdin", SimpleNamespace(buffer=io.BytesIO(Path("model.onnx").read_bytes()))
    )
    expected = (
        "tensor 'w': external data file 'model.data' is missing; a stream has no folder: give the "
        "file of the model"
    )
    assert xopt("-", "-o", "out.onnx").error == expected


def test_a_stream_without_an_end(xopt: Xopt, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only as much as a model may have is copied to the disk."""
    asked: list[int] = []

    def read(size: int) -> bytes:
        asked.append(size)
        return bytes(size)

    for name in ("cli.files", "graph.load"):
        monkeypatch.setattr(f"xoptim.{name}.LARGEST_FILE", 3 << 20)
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=SimpleNamespace(read=read)))
    assert values_in(xopt("stats", "-").error)[-1] == "2"
    assert sum(asked) <= 5 << 20


@pytest.mark.parametrize("folder", [f for f in ("/dev/fd", "/proc/self/fd") if Path(f).exists()])
def test_the_output_of_a_process_is_read_once(xopt: Xopt, folder: str) -> None:
    """The verification needs the model again; a pipe gives it once."""
    content = write(TRANSPOSES).read_bytes()
    reading, writing = os.pipe()
    with open(writing, "wb") as stream:
        stream.write(content)
    try:
        assert xopt(f"{folder}/{reading}", "-o", "out.onnx").code == 0
    finally:
        os.close(reading)
    assert types_in("out.onnx") == ["Relu"]


@posix
@pytest.mark.parametrize("name", ["pipe", "a pipe", "link"])
def test_a_pipe_with_a_name_is_refused(xopt: Xopt, name: str) -> None:
    """Opening it would wait for a process that writes, forever where there is none."""
    os.mkfifo("a pipe" if name == "a pipe" else "pipe")
    Path("link").symlink_to("pipe")
    quoted = "'a pipe'" if name == "a pipe" else name
    error = xopt(name, "-o", "out.onnx").error
    assert error.startswith(f"cannot read {name!r}: ")
    assert error.endswith(f"`< {quoted}`")
    assert not Path("out.onnx").exists()


@posix
@pytest.mark.parametrize(
    "command", [(), ("apply", "TransposeTranspose", "--at", "u"), ("tune",), ("bisect",)]
)
@pytest.mark.parametrize("kind", ["device", "pipe", "socket", "link to a pipe"])
def test_special_files_are_not_replaced(xopt: Xopt, kind: str, command: tuple[str, ...]) -> None:
    write(TRANSPOSES)
    target = "/dev/full" if kind == "device" else "special"
    holder = socket.socket(socket.AF_UNIX)
    if kind == "socket":
        holder.bind("special")
    elif kind != "device":
        os.mkfifo("pipe")
        Path("special").symlink_to("pipe")
    before = Path(target).lstat(), Path(target).stat()
    name, *rest = command or ("optimize",)
    outcome = xopt(name, "model.onnx", *rest, "-o", target)
    holder.close()
    assert values_in(outcome.error) == [target]
    after = Path(target).lstat(), Path(target).stat()
    assert [(s.st_ino, stat.S_IFMT(s.st_mode)) for s in after] == [
        (s.st_ino, stat.S_IFMT(s.st_mode)) for s in before
    ]


@posix
def test_the_file_behind_a_link_is_replaced(xopt: Xopt) -> None:
    write(TRANSPOSES)
    Path("inner").mkdir()
    Path("inner/real.onnx").write_bytes(b"old")
    Path("link.onnx").symlink_to("inner/real.onnx")
    assert xopt("model.onnx", "-o", "link.onnx").summary["written"] == "link.onnx"
    assert Path("link.onnx").is_symlink()
    assert types_in("inner/real.onnx") == ["Relu"]
    Path("model.link.onnx").symlink_to("model.onnx")
    assert xopt("model.link.onnx", "--in-place", "-q").code == 0
    assert (Path("model.link.onnx").is_symlink(), types_in("model.onnx")) == (True, ["Relu"])


@posix
def test_weights_next_to_a_link_to_another_folder(xopt: Xopt) -> None:
    """Whichever folder they went to, the model could not be opened under one of its names."""
    model = parse("agraph (float[n,512] x) => (float[n,512] y) { y = Add(x, w) }")
    model.graph.initializer.append(numpy_helper.from_array(np.ones(512, np.float32), "w"))
    write(model)
    Path("inner").mkdir()
    Path("link.onnx").symlink_to("inner/real.onnx")
    error = xopt("model.onnx", "-o", "link.onnx", "--external-data").error
    assert values_in(error)[0] == "link.onnx"
    assert "inner/real.onnx' " in error
    assert list(Path("inner").iterdir()) == []


def test_a_folder_that_is_read_only(xopt: Xopt, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is refused before any work, unless nothing is to be written there."""
    write(TRANSPOSES)
    monkeypatch.setattr("os.access", lambda path, mode: Path(path) != Path.cwd())
    assert "'model.opt.onnx': its folder " in xopt("model.onnx").error
    assert xopt("model.onnx", "--dry-run").code == 0
    Path("other").mkdir()
    assert xopt("model.onnx", "-o", "other/model.onnx").code == 0
