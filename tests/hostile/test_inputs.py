"""Other inputs than models: values, settings, rules and lists that are not what they should be."""

import json
import os
import socket
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.cli.command import RELU, Xopt, files, write
from tests.hostile.cases import listed
from tests.support import values_in

posix = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="kinds of files of POSIX")
FEW = "agraph (float[n,2] x) => (float[n,2] y) { a = Abs(x) y = Abs(a) }"
PLACES = {
    "feeds": ("model.onnx", "--feeds", "special"),
    "samples": ("model.onnx", "--precision", "int8", "--feeds", "folder"),
    "test data": ("model.onnx", "--test-data", "folder"),
    "settings": ("--config", "special", "model.onnx"),
    "rules": ("model.onnx", "--rewrite", "special"),
    "model": ("special",),
    "second model": ("verify", "model.onnx", "special"),
    "list": ("batch", "special", "-o", "out"),
    "custom operators": ("model.onnx", "--custom-op-lib", "special"),
}
"""Command lines by the input that is special."""
INSIDE = {"samples": "a.npz", "test data": "input_0.pb"}


def make(kind: str, path: Path) -> None:
    """Make a file of a kind."""
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "folder":
        path.mkdir()
    else:
        with socket.socket(socket.AF_UNIX) as server:
            here = Path.cwd()
            os.chdir(path.parent)  # the path of a socket is short
            server.bind(path.name)
            os.chdir(here)


@posix
@listed(
    "input-special",
    "a pipe, a device, a socket or a folder in place of a file of values, settings, rules, samples "
    "or models",
    "error: one line, at once",
)
@pytest.mark.parametrize("kind", ["pipe", "device", "socket", "folder"])
@pytest.mark.parametrize("place", PLACES)
def test_special_files(xopt: Xopt, kind: str, place: str) -> None:
    write(FEW)
    if place in INSIDE:
        Path("folder").mkdir()
        make(kind, Path("folder", INSIDE[place]))
    else:
        make(kind, Path("special"))
    if (place, kind) in (("feeds", "folder"), ("list", "folder")):
        return
    before = files()
    words = PLACES[place]
    assert "internal error" not in xopt(*words, "-o", "out").error
    assert files() == before


@posix
@listed(
    "input-batch",
    "a pipe named like a model in a folder of models",
    "recorded as failed; the others are optimized",
)
@pytest.mark.slow
def test_a_pipe_among_models(xopt: Xopt) -> None:
    Path("models").mkdir()
    write(RELU).rename("models/good.onnx")
    os.mkfifo("models/pipe.onnx")
    done = xopt("batch", "models", "-o", "out")
    records = map(json.loads, Path("out/results.jsonl").read_text().splitlines())
    statuses = {record["output"]: record["status"] for record in records}
    assert (done.code, statuses) == (2, {"good.onnx": "done", "pipe.onnx": "failed"})


@listed(
    "input-bomb",
    "an `.npz` file of 33 kB with an array of 33 MB: of no input, of another shape, or too large",
    "error: “the model has no input …”, “… have shape …” or “… of memory …”; it is not read",
)
@pytest.mark.parametrize(
    ("name", "shape", "error"),
    [
        ("other", (1 << 23,), "the model has no input 'other'"),
        ("x", (1 << 23,), "the values of input 'x' have shape [8388608], not [n, 2]"),
        ("x", (1 << 22, 2), "it takes 33.6 MB of memory, 16.8 MB is free"),
    ],
)
def test_an_archive_that_grows(
    xopt: Xopt, monkeypatch: pytest.MonkeyPatch, name: str, shape: tuple[int, ...], error: str
) -> None:
    write(FEW)
    np.savez_compressed("feeds.npz", **{name: np.zeros(shape, np.float32)})  # type: ignore[arg-type]
    monkeypatch.setattr("xoptim.verification.inputs.archives.available_memory", lambda: 1 << 24)
    monkeypatch.setattr("numpy.lib.format.read_array", lambda *_, **__: pytest.fail("it is read"))
    assert error in xopt("model.onnx", "--feeds", "feeds.npz").error


DEEP: dict[str, tuple[Sequence[str], str, str]] = {
    "settings": (("--config", "x.toml", "model.onnx"), "x.toml", f"a = {'[' * 100_000}"),
    "keys": (("--config", "x.toml", "model.onnx"), "x.toml", f"{'a.' * 100_000}a = 1"),
    "rules": (("model.onnx", "--rewrite", "x.txt"), "x.txt", "f (x) => (y) { y = " + "(" * 100_000),
    "project": (("stats", "model.onnx"), "pyproject.toml", f"a = {'[' * 100_000}"),
}


@listed(
    "input-deep",
    "settings or rules, nested 100,000 deep",
    "error: one line; a `pyproject.toml` is ignored",
)
@pytest.mark.parametrize("name", DEEP)
def test_deep_texts(xopt: Xopt, name: str) -> None:
    write(FEW)
    words, file, text = DEEP[name]
    Path(file).write_text(text)
    if name == "project":
        assert xopt(*words).code == 0
    else:
        assert "internal error" not in xopt(*words).error


@listed(
    "input-huge",
    "settings or rules of 1 TB",
    "error: “… it has more than … bytes …”; they are not read",
)
@pytest.mark.parametrize("place", ["settings", "rules"])
def test_huge_texts(xopt: Xopt, place: str) -> None:
    write(FEW)
    Path("special").touch()
    os.truncate("special", 1 << 40)
    assert " bytes" in xopt(*PLACES[place]).error


@listed(
    "input-test-data-memory",
    "test data of more bytes than there is memory",
    "error: “the test data … has …”; it is not read",
)
def test_test_data_larger_than_memory(xopt: Xopt, monkeypatch: pytest.MonkeyPatch) -> None:
    write(FEW)
    for number in range(3):
        folder = Path(f"data/test_data_set_{number}")
        folder.mkdir(parents=True)
        value = onnx.numpy_helper.from_array(np.ones((100, 2), np.float32))
        (folder / "input_0.pb").write_bytes(value.SerializeToString())
    monkeypatch.setattr("xoptim.verification.inputs.feeding.available_memory", lambda: 2000)
    error = xopt("model.onnx", "--test-data", "data").error
    assert values_in(error) == ["data", "2.4", "2.0"]


@listed(
    "input-many",
    "a wrong name of an input or dimension for a model with 1,000 of them",
    "error: one line with the first 20 names",
)
@pytest.mark.parametrize("option", ["--dim", "--feeds"])
def test_names_of_a_model_with_many_inputs(xopt: Xopt, option: str) -> None:
    inputs = ", ".join(f"float[n{number}] x{number}" for number in range(1000))
    write(f"agraph ({inputs}) => (float[n0] y) {{ y = Neg(x0) }}")
    np.savez("feeds.npz", q=np.ones(1))
    error = xopt("model.onnx", option, "q=3" if option == "--dim" else "feeds.npz").error
    assert "19, ... (980 more)" in error
    assert len(error) < 500
