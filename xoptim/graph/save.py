"""Write a model: its protobuf, and the file of its external data."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import BinaryIO

from google.protobuf.message import EncodeError
from onnx import ModelProto, TensorProto

from xoptim.facts.errors import ModelError
from xoptim.facts.protos import lack_of_memory
from xoptim.graph.external_data import external_locations, has_external_data, stored_tensors
from xoptim.graph.replacing import place_of, replacing
from xoptim.graph.tensors import Tensor

PROTO_LIMIT = 2_000_000_000
"""A protobuf cannot be larger than 2 GiB; above this many bytes of tensors, data goes to an external file."""
INLINE_LIMIT = 1024
"""Tensors of up to this many bytes stay in the model even when data is external."""
_ALIGNMENT = 4096
_CHUNK = 1 << 24


def save_proto(
    proto: ModelProto,
    target: Path,
    base_dir: Path | None = None,
    *,
    external: bool | None = None,
    along: Mapping[Path, bytes] | None = None,
) -> list[Path]:
    """Write a model, and its weights to an external file where necessary.

    Args:
        proto: the model; the locations of external data in it are changed when data moves.
        target: the file to write. Where it is a symbolic link, the file behind the link is replaced.
        base_dir: folder against which the external locations of ``proto`` are resolved.
        external: write weights to a file of their own (``TARGET.data``); by default only when some of them are already in
            an external file in another folder than the target, or when the model would not fit into a protobuf.
        along: contents of further files, which are moved into place with the model: all of them, or none.

    Returns:
        The files written.

    Raises:
        ModelError: when a file cannot be written, or is not a regular file; the target is then unchanged.
    """
    place = place_of(target)
    tensors = list(stored_tensors(proto))
    beside = base_dir is not None and target.parent.resolve() == base_dir.resolve()
    if beside and target.name in external_locations(proto):
        raise ModelError(f"cannot write {str(target)!r}: it holds weights of the model")
    elsewhere = [] if beside else [t for t in tensors if t.data_location == TensorProto.EXTERNAL]
    inline = sum(Tensor.from_proto(t).nbytes for t in tensors if t.data_location != TensorProto.EXTERNAL)
    moving = list(elsewhere)
    if external or (external is None and (elsewhere or inline > PROTO_LIMIT)):
        moving += [t for t in tensors if t.data_location != TensorProto.EXTERNAL and Tensor.from_proto(t).nbytes > INLINE_LIMIT]
    if (moving or has_external_data(proto)) and place.parent.resolve() != target.parent.resolve():
        raise ModelError(
            f"cannot write {str(target)!r}: it is a link to another folder, and weights are in a file beside the model; "
            f"write {str(place)!r} itself"
        )
    try:
        with replacing(target) as files:
            if moving:
                data = _data_path(target, external_locations(proto) if beside else [])
                with files.open(data) as stream:
                    for tensor in moving:
                        _move(tensor, stream, base_dir, data.name)
            for path, content in (along or {}).items():
                with files.open(path) as stream:
                    stream.write(content)
            with files.open(place) as stream:
                stream.write(proto.SerializeToString())
    except EncodeError as error:
        raise ModelError(f"cannot write {str(target)!r}: it does not fit into memory, or into a protobuf of 2 GiB") from error
    return [target if path == place else path for path in files.targets]


def _data_path(target: Path, taken: Collection[str]) -> Path:
    """``TARGET.data``, numbered when a file of that name holds tensors that are not moved."""
    name, count = f"{target.name}.data", 1
    while name in taken:
        name = f"{target.name}.{count}.data"
        count += 1
    return target.with_name(name)


def _move(tensor: TensorProto, stream: BinaryIO, base_dir: Path | None, location: str) -> None:
    handle = Tensor.from_proto(tensor, base_dir)
    if handle.dtype == TensorProto.STRING:
        return  # ONNX has no raw form for strings: they stay in the model
    offset = stream.tell()
    if handle.nbytes >= _ALIGNMENT:
        offset = -(-offset // _ALIGNMENT) * _ALIGNMENT
        stream.seek(offset)
    if handle.is_external:
        path, start, length = handle.external_location()
        with path.open("rb") as source:
            source.seek(start)
            left = length
            while left > 0:
                chunk = source.read(min(_CHUNK, left))
                stream.write(chunk)
                left -= len(chunk)
    else:
        raw = handle.to_raw()
        length = len(raw)
        stream.write(raw)
        for field in ("raw_data", "float_data", "int32_data", "int64_data", "double_data", "uint64_data"):
            tensor.ClearField(field)
    del tensor.external_data[:]
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in (("location", location), ("offset", str(offset)), ("length", str(length))):
        tensor.external_data.add(key=key, value=value)


def serialized(proto: ModelProto, base_dir: Path | None = None) -> bytes:
    """A model as bytes that refer to no file: external weights are copied into them.

    Args:
        proto: the model, which is left unchanged.
        base_dir: folder against which its external locations are resolved.

    Raises:
        ModelError: when it does not fit into a protobuf.
    """
    whole = ModelProto()
    try:
        with lack_of_memory():
            whole.CopyFrom(proto)
            for tensor in [t for t in stored_tensors(whole) if t.data_location == TensorProto.EXTERNAL]:
                raw = Tensor.from_proto(tensor, base_dir).to_raw()
                del tensor.external_data[:]
                tensor.data_location = TensorProto.DEFAULT
                tensor.raw_data = raw
            return bytes(whole.SerializeToString())
    except (EncodeError, ValueError) as error:
        raise ModelError("the model does not fit into a protobuf of 2 GiB; write it to a file") from error
