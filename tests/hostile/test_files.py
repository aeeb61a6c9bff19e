"""Files that are not models, and paths that are not files."""

import errno
import os
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from tests.cli.command import RELU, TRANSPOSES, Xopt, types_in, write
from tests.hostile.cases import PLAIN, Case, check, listed, refused, text
from tests.hostile.process import measure
from tests.support import values_in

pytestmark = pytest.mark.slow

NO_MODEL = "'model.onnx' is not an ONNX model"


def without(field: str) -> bytes:
    """A model that lacks a part."""
    model = text(RELU)()
    model.ClearField(field)
    return bytes(model.SerializeToString())


CASES = [
    refused(
        "file-random",
        "4 KB of random bytes",
        lambda: np.random.default_rng(0).bytes(4096),
        NO_MODEL,
    ),
    refused(
        "file-text",
        "a text",
        lambda: b"The quick brown fox jumps over the lazy dog.\n" * 9,
        NO_MODEL,
    ),
    refused("file-empty", "an empty file", lambda: b"", NO_MODEL),
    refused("file-zeros", "a file of zeros", lambda: bytes(4096), NO_MODEL),
    refused("file-zip", "a zip archive", lambda: b"PK\x03\x04" + bytes(99), NO_MODEL),
    refused(
        "file-tensor",
        "another protobuf, a tensor",
        lambda: bytes(numpy_helper.from_array(np.ones(5, np.float32), "x").SerializeToString()),
        NO_MODEL,
    ),
    refused(
        "file-truncated",
        "a model that is truncated",
        lambda: bytes(text(TRANSPOSES)().SerializeToString())[:-9],
        f"{NO_MODEL}, or it is truncated",
    ),
    refused(
        "file-no-graph", "a model without a graph", lambda: without("graph"), "there is no graph"
    ),
    refused(
        "file-no-opset",
        "a model without operator sets",
        lambda: without("opset_import"),
        "imports no operator set",
    ),
    refused(
        "file-no-standard-opset",
        "standard operators, but only another operator set",
        lambda: onnx.parser.parse_model(
            f'<ir_version: 8, opset_import: ["ai.onnx.ml" : 3]> {PLAIN.format("y = Neg(x)")}'
        ),
        "has operators of ai.onnx, such as Neg, but imports no version of it",
    ),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_files(xopt: Xopt, case: Case) -> None:
    check(case, xopt)


@listed("file-any-cut", "a model cut off at any of 60 places", "error: “… is not an ONNX model …”")
def test_a_model_cut_anywhere(xopt: Xopt) -> None:
    """Where the rest happens to be a model, it lacks nodes or outputs, and the error says so."""
    whole = bytes(text(TRANSPOSES)().SerializeToString())
    for end in np.linspace(0, len(whole) - 1, 60).astype(int):
        Path("model.onnx").write_bytes(whole[:end])
        assert xopt("model.onnx", "-q").error


@pytest.mark.slow
@listed(
    "file-flipped",
    "a model with one byte changed, 150 times",
    "refused, or optimized; never a traceback, never an internal error",
)
def test_a_model_with_one_byte_changed(xopt: Xopt) -> None:
    whole = bytes(text(TRANSPOSES)().SerializeToString())
    rng = np.random.default_rng(0)
    for _ in range(150):
        damaged = bytearray(whole)
        damaged[rng.integers(len(whole))] = rng.integers(256)
        Path("model.onnx").write_bytes(damaged)
        outcome = xopt("model.onnx", "-q", "--run-limit", "10")
        assert outcome.code in (0, 2, 3), (bytes(damaged), outcome)
        assert "internal error" not in outcome.err, (bytes(damaged), outcome.err)


@listed(
    "file-missing",
    "a file that is not there",
    "error: “cannot read 'model.onnx': No such file or directory”",
)
def test_a_file_that_is_missing(xopt: Xopt) -> None:
    for name in ("model.onnx", "folder/model.onnx"):
        error = xopt(name, "-o", "here.onnx").error
        assert error == f"cannot read {name!r}: {os.strerror(errno.ENOENT)}"
    assert not list(Path().iterdir())


@listed("file-folder", "a folder", "error: “cannot read 'model.onnx': Is a directory”")
def test_a_folder(xopt: Xopt) -> None:
    Path("model.onnx").mkdir()
    for more in ((), ("--in-place",)):
        error = xopt("model.onnx", *more).error
        assert error == f"cannot read 'model.onnx': {os.strerror(errno.EISDIR)}"
    assert [path.name for path in Path().iterdir()] == ["model.onnx"]


@listed("file-device", "a device", "error: “… it is a device, not a file”")
@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="devices of POSIX")
def test_a_device(xopt: Xopt) -> None:
    assert values_in(xopt("/dev/zero", "-o", "out.onnx").error) == ["/dev/zero"]


@listed("file-pipe", "a pipe", "read as a file")
@pytest.mark.skipif(not Path("/dev/fd").exists(), reason="there are no names for open files")
def test_a_pipe(xopt: Xopt) -> None:
    reading, writing = os.pipe()
    with open(writing, "wb") as stream:
        stream.write(text(TRANSPOSES)().SerializeToString())
    try:
        assert xopt(f"/dev/fd/{reading}", "-o", "out.onnx", "--no-verify").code == 0
    finally:
        os.close(reading)
    assert types_in("out.onnx") == ["Relu"]


@listed("file-link-loop", "a link that leads to itself", "error: “cannot read …”")
def test_a_link_to_itself(xopt: Xopt) -> None:
    Path("model.onnx").symlink_to("model.onnx")
    assert "cannot read 'model.onnx': " in xopt("model.onnx").error


@listed(
    "file-unreadable",
    "a file that may not be read",
    "error: “cannot read 'model.onnx': Permission denied”",
)
@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything"
)
def test_a_file_that_may_not_be_read(xopt: Xopt) -> None:
    write(RELU).chmod(0)
    assert xopt("model.onnx").error == f"cannot read 'model.onnx': {os.strerror(errno.EACCES)}"


@listed(
    "file-3-gb",
    "a file of 3 GB",
    "error: “… a protobuf ends at 2 GiB; weights beyond that have to be external data”; it is not "
    "read",
)
@pytest.mark.skipif(sys.platform == "win32", reason="files with holes")
def test_a_file_larger_than_a_protobuf() -> None:
    with Path("model.onnx").open("wb") as stream:
        stream.truncate(3 << 30)
    measured = measure("model.onnx")
    assert " 2 GiB; " in measured.outcome.error
    assert measured.megabytes < 1000


@listed(
    "file-weights-as-model",
    "the file of the weights, given as the model",
    "error: “… is not an ONNX model …”",
)
def test_weights_in_place_of_the_model(xopt: Xopt) -> None:
    model = text("agraph (float[4] x) => (float[4] y) { y = Add(x, w) }")()
    model.graph.initializer.append(numpy_helper.from_array(np.arange(4, dtype=np.float32), "w"))
    onnx.save(
        model, "model.onnx", save_as_external_data=True, location="model.data", size_threshold=0
    )
    assert xopt("model.data").error.startswith("'model.data' is not ")
