"""Arrays of ``.npz`` files, which are not read before their headers are checked."""

import os
import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from tests.support import parse
from xoptim.verification import ChoiceError, VerificationOptions
from xoptim.verification.inputs.archives import Archive
from xoptim.verification.inputs.feeding import Feeding

MODEL = "agraph (float[n,2] x) => (float[n,2] y) { y = Neg(x) }"


def header(shape: str, descr: str = "'<f4'") -> bytes:
    """The header of an array, as numpy writes it."""
    text = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}"
    padded = text.ljust(-(len(text) + 11) % 64 + len(text)) + "\n"
    return b"\x93NUMPY\x01\x00" + len(padded).to_bytes(2, "little") + padded.encode()


def archive(path: Path, members: Mapping[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as stream:
        for name, content in members.items():
            stream.writestr(f"{name}.npy", content)
    return path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "feeds.npz"


def test_arrays(path: Path) -> None:
    arrays = {
        "x": np.arange(6, dtype=np.float32).reshape(2, 3),
        "order": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        "words": np.array(["a", "naïve"]),
        "none": np.zeros((0, 3), np.int64),
        "scalar": np.array(True),
        "raw": np.zeros(3, "V2"),
    }
    np.savez_compressed(path, **arrays)  # type: ignore[arg-type]
    found = Archive(path, "feeds")
    assert list(found) == list(arrays)
    assert len(found) == len(arrays)
    assert "x" in found
    assert "y" not in found
    for name, array in arrays.items():
        assert (found.preview(name).shape, found.preview(name).dtype) == (array.shape, array.dtype)
        np.testing.assert_array_equal(found[name], array)
        assert found[name] is found[name]
    with pytest.raises(KeyError):
        found["y"]


def test_a_damaged_array(path: Path) -> None:
    np.savez(path, x=np.ones(3), z=np.full(1000, 7.0))
    data = path.read_bytes()
    where = data.rindex(np.full(9, 7.0).tobytes())
    path.write_bytes(data[:where] + b"\1" + data[where + 1 :])
    found = Archive(path, "feeds")
    with pytest.raises(ChoiceError, match=r"CRC-32 .*'z"):
        found["x"]


FAULTS: dict[str, tuple[Mapping[str, bytes], str]] = {
    "few bytes": ({"x": header("(4,)") + bytes(15)}, "'x.npy' is damaged: 15 bytes of data, 16"),
    "many bytes": ({"x": header("(4,)") + bytes(17)}, "'x.npy' is damaged: 17 bytes of data, 16"),
    "tera": ({"x": header(f"({1 << 40},)")}, "'x.npy' is damaged: 0 bytes of data, 4,398"),
    "many axes": ({"x": header(f"({'1, ' * 99})") + bytes(4)}, "maximum supported dimension"),
    "empty and large": ({"x": header(f"(0, {1 << 62}, {1 << 62})")}, "array is too big"),
    "negative": ({"x": header("(-1, -4)") + bytes(16)}, "must be non-negative"),
    "no sizes": ({"x": header(f"({1 << 50},)", "'<U0'")}, "'x.npy' is damaged: 0 bytes"),
    "objects": ({"x": header("(1,)", "'|O'") + bytes(8)}, "it holds Python objects"),
    "fields": ({"x": header("(1,)", "[('a', '|O')]") + bytes(8)}, "it holds Python objects"),
    "deep": ({"x": header("(" * 9000)}, "'x.npy' has no header of an array"),
    "long": ({"x": header("(1,)" + " " * 60_000)}, "'x.npy' has no header of an array"),
    "not an array": ({"x": b"text"}, "'x.npy' has no header of an array"),
    "version": ({"x": b"\x93NUMPY\x09\x00" + bytes(99)}, "'x.npy' has no header of an array"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_what_is_not_an_archive_of_arrays(path: Path, name: str) -> None:
    members, reason = FAULTS[name]
    archive(path, members)
    with pytest.raises(ChoiceError) as caught:
        Archive(path, "feeds")
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)


def test_arrays_that_do_not_fit_into_memory(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """2 GB of zeros are 2 MB in an archive."""
    monkeypatch.setattr("xoptim.verification.inputs.archives.available_memory", lambda: 8000)
    archive(path, {"x": header("(1000,)") + bytes(4000), "z": header("(1000,)") + bytes(4000)})
    assert Archive(path, "feeds")["x"].nbytes == 4000
    archive(path, {"x": header("(1000,)") + bytes(4000), "z": header("(1001,)") + bytes(4004)})
    found = Archive(path, "feeds")
    with pytest.raises(ChoiceError, match=r" 8\.0 kB .* 8\.0 kB "):
        found["x"]


@pytest.mark.parametrize(
    ("arrays", "reason"),
    [
        ({"other": np.ones(3)}, "the model has no input 'other'"),
        ({"x": np.ones((3, 2))}, "the values of input 'x' are float64, not float32"),
        ({"x": np.ones((3, 3), np.float32)}, r"have shape \[3, 3\], not \[n, 2\]"),
    ],
)
def test_values_that_do_not_fit_are_not_read(
    path: Path, monkeypatch: pytest.MonkeyPatch, arrays: dict[str, np.ndarray], reason: str
) -> None:
    np.savez(path, **arrays)  # type: ignore[arg-type]
    monkeypatch.setattr(Archive, "_read", lambda *_: pytest.fail("the data is read"))
    with pytest.raises(ChoiceError, match=reason):
        Feeding(parse(MODEL), VerificationOptions(feeds=Archive(path, "feeds")))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes of POSIX")
def test_a_pipe(path: Path) -> None:
    os.mkfifo(path)
    with pytest.raises(ChoiceError, match="a pipe"):
        Archive(path, "feeds")
