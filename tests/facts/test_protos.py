"""Work on protobufs: what happens when memory ends."""

import errno
import mmap
from typing import Any

import onnx
import pytest
from google.protobuf.message import DecodeError

from xoptim.facts.protos import fed_inputs, lack_of_memory, with_headroom


def test_headroom_changes_nothing() -> None:
    assert list(with_headroom(range(3000))) == list(range(3000))


def test_iteration_ends_before_memory_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second time that the system is asked for memory, it has none."""
    answers = iter([mmap.mmap(-1, 1)])

    def ask(*_size: Any, **_options: Any) -> mmap.mmap:
        try:
            return next(answers)
        except StopIteration:
            raise OSError(errno.ENOMEM, "Cannot allocate memory") from None

    monkeypatch.setattr("xoptim.system.machine.mmap.mmap", ask)
    elements = with_headroom(range(1 << 20))
    assert next(elements) == 0
    with pytest.raises(MemoryError):
        list(elements)


def test_a_lack_of_memory_is_no_damaged_file() -> None:
    with pytest.raises(MemoryError), lack_of_memory():
        raise DecodeError("Error parsing message with type 'onnx.NodeProto': Arena alloc failed")
    with pytest.raises(DecodeError), lack_of_memory():
        onnx.ModelProto().ParseFromString(b"\xff\xff")


def test_inputs_with_a_stored_value_are_not_fed() -> None:
    dense, sparse = (
        onnx.TensorProto(name="dense"),
        onnx.SparseTensorProto(values=onnx.TensorProto(name="sparse")),
    )
    inputs = [onnx.ValueInfoProto(name=name) for name in ("x", "dense", "sparse")]
    graph = onnx.GraphProto(input=inputs, initializer=[dense], sparse_initializer=[sparse])
    assert [value.name for value in fed_inputs(onnx.ModelProto(graph=graph))] == ["x"]
