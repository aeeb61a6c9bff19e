import errno
import os
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from onnx import TensorProto

from tests.graph.test_views import stored
from tests.support import parse
from xoptim.graph.data_file import Weight, uses, write_weights
from xoptim.graph.tensors import Tensor
from xoptim.graph.views import transposed
from xoptim.operators.evaluate.kernel_table import copy_in_blocks
from xoptim.system.files import copy_range, is_hole

HOLE = 1 << 20


def sparse(folder: Path, rows: int) -> Tensor:
    """A weight of ``rows`` MiB of which only the first page is written."""
    tensor = stored(np.zeros((1, 1), np.float32), folder)
    path = folder / "w"
    path.write_bytes(b"another" + np.ones(1024, np.float32).tobytes())
    os.truncate(path, 7 + rows * HOLE)
    proto = tensor.to_proto("w")
    proto.dims[:] = [rows, HOLE // 4]
    next(e for e in proto.external_data if e.key == "length").value = str(rows * HOLE)
    return Tensor.from_proto(proto, folder)


def write(tensor: Tensor, path: Path) -> TensorProto:
    proto = TensorProto(name="x", data_type=tensor.dtype, dims=tensor.shape)
    with path.open("wb", buffering=0) as stream:
        write_weights([Weight(proto, tensor)], stream, path.parent, path.name)
    return proto


needs_holes = pytest.mark.skipif(
    not hasattr(os, "SEEK_DATA"), reason="this system does not tell where holes are"
)


@needs_holes
@pytest.mark.parametrize("moved", [False, True])
def test_holes_stay_holes(tmp_path: Path, moved: bool) -> None:
    tensor = sparse(tmp_path / "in", 16)
    if not is_hole(tmp_path / "in" / "w", 8 * HOLE, HOLE):
        pytest.skip("this file system has no holes")
    out = tmp_path / "out"
    subject = transposed(tensor, [1, 0]) if moved else tensor
    again = Tensor.from_proto(write(subject, out), tmp_path)
    np.testing.assert_array_equal(again.numpy(), subject.numpy())
    if not moved:
        assert out.stat().st_blocks * 512 < HOLE, "only the page that holds numbers takes room"


@needs_holes
def test_no_more_than_the_rows_with_numbers_are_read_to_move_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tensor = transposed(sparse(tmp_path / "in", 256), [1, 0])
    if not is_hole(tmp_path / "in" / "w", 8 * HOLE, HOLE):
        pytest.skip("this file system has no holes")
    read: list[tuple[int, ...]] = []

    def note(source: np.ndarray, target: np.ndarray) -> None:
        read.append(source.shape)
        copy_in_blocks(source, target)

    monkeypatch.setattr("xoptim.graph.data_file.copy_in_blocks", note)
    assert Tensor.from_proto(write(tensor, tmp_path / "out"), tmp_path).numpy().sum() == 1024
    assert len(read) == 1
    assert read[0][-1] <= 64


@needs_holes
def test_digests_of_holes_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "w").touch()
    os.truncate(tmp_path / "w", 8 * HOLE)
    proto = stored(np.zeros((4,), np.float32), tmp_path, "other").to_proto("t")
    for key, value in (("location", "w"), ("offset", "0"), ("length", str(8 * HOLE))):
        next(e for e in proto.external_data if e.key == key).value = value
    proto.dims[:] = [2 * HOLE]
    tensor = Tensor.from_proto(proto, tmp_path)
    monkeypatch.setattr(Tensor, "read", lambda *_: pytest.fail("read"))
    assert tensor.digest() == tensor.digest()


@needs_holes
def test_no_data_has_the_digest_of_a_hole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Tensor, "is_hole", lambda tensor, _: not tensor.read_flat(0, 1).any())
    zero, word = (
        stored(np.frombuffer(data, np.float32), tmp_path, data.hex())
        for data in (bytes(4), b"hole")
    )
    assert zero.digest() != word.digest()


@pytest.mark.parametrize("kernel", ["copies", "is missing", "refuses"])
def test_ranges_are_copied_with_the_kernel_and_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kernel: str
) -> None:
    source, target = tmp_path / "a", tmp_path / "b"
    data = os.urandom(100_000)
    source.write_bytes(data)
    if kernel == "is missing":
        monkeypatch.delattr(os, "copy_file_range", raising=False)
        monkeypatch.delattr(os, "pwrite", raising=False)
        monkeypatch.delattr(os, "SEEK_DATA", raising=False)
    if kernel == "refuses":

        def refuse(*_: object) -> int:
            raise OSError(errno.EXDEV, "Invalid cross-device link")

        monkeypatch.setattr(os, "copy_file_range", refuse, raising=False)
    with target.open("wb", buffering=0) as stream:
        copy_range(source, 10, 90_000, stream, 5)
    assert target.read_bytes() == bytes(5) + data[10:90_010]


def test_a_file_that_became_shorter_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"12345")
    with (
        (tmp_path / "b").open("wb", buffering=0) as stream,
        pytest.raises(OSError, match="truncated"),
    ):
        copy_range(tmp_path / "a", 0, 100_000, stream, 0)


def test_room_on_the_disk_is_looked_at_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tensor = stored(np.ones((512, 512), np.float32), tmp_path / "in")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=1_000_000))
    with pytest.raises(OSError, match=r"1,048,576 .* 1,000,000 "):
        write(tensor, tmp_path / "out")
    assert (tmp_path / "out").stat().st_size == 0


def test_names_are_numbered_in_the_order_of_their_use() -> None:
    proto = parse(
        """agraph (bool c, float[2] x, float[2] a, float[2] b, float[2] d) => (float[2] y) {
      t = Add(x, b)
      y = If (c) <then_branch = p () => (float[2] q) { q = Add(t, d) },
        else_branch = e () => (float[2] r) { r = Add(t, a) }>
    }"""
    )
    order = uses(proto)
    assert sorted("abd", key=order.__getitem__) == ["b", "d", "a"]
