"""Write a model to a temporary file beside the target, then move it into place: an incomplete file is never visible."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

import onnx
from google.protobuf.message import EncodeError
from onnx import AttributeProto, GraphProto, ModelProto, TensorProto

from xoptim.facts.errors import ModelError
from xoptim.facts.protos import lack_of_memory
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
    place = _place_of(target)
    tensors = list(_tensors(proto))
    beside = base_dir is not None and target.parent.resolve() == base_dir.resolve()
    if beside and target.name in {e.value for t in tensors for e in t.external_data if e.key == "location"}:
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
    temporary: dict[Path, Path] = {}
    try:
        if moving:
            data = _data_path(target, tensors, beside)
            with _beside(data, temporary) as stream:
                for tensor in moving:
                    _move(tensor, stream, base_dir, data.name)
        for path, content in (along or {}).items():
            with _beside(path, temporary) as stream:
                stream.write(content)
        with _beside(place, temporary) as stream:
            stream.write(proto.SerializeToString())
        _put_in_place(temporary)
    except EncodeError as error:
        raise ModelError(f"cannot write {str(target)!r}: it does not fit into memory, or into a protobuf of 2 GiB") from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ModelError(f"cannot write {str(target)!r}: {reason}") from error
    finally:
        _remove(temporary.values())
    return [target if path == place else path for path in temporary]


def _place_of(target: Path) -> Path:
    """The file to replace: the target, or the file behind a symbolic link.

    Raises:
        ModelError: when it is a folder or a special file, or a link that leads to itself.
    """
    place = Path(os.path.realpath(target)) if target.is_symlink() else target
    if target.is_dir():
        raise ModelError(f"cannot write {str(target)!r}: it is a folder")
    if place.is_symlink():
        raise ModelError(f"cannot write {str(target)!r}: it is a link that leads to itself")
    if place.exists() and not place.is_file():
        raise ModelError(f"cannot write {str(target)!r}: it is a device, a pipe or a socket, not a file")
    return place


def _put_in_place(temporary: dict[Path, Path]) -> None:
    """Move the written files into place: all of them, or none when an exception is raised.

    Weights come before the model that refers to them; files that they replace are kept until the model is in place.
    """
    kept: dict[Path, Path] = {}
    moved: list[Path] = []
    *earlier, last = temporary
    try:
        for final in earlier:
            if final.exists():
                kept[final] = temporary[final].with_suffix(".old")
                os.replace(final, kept[final])
            moved.append(final)
            os.replace(temporary[final], final)
        os.replace(temporary[last], last)
    except BaseException:
        if temporary[last].exists():  # otherwise the model, and with it every file, is in place
            _remove([final for final in moved if final not in kept])
            for final, old in kept.items():
                if old.exists():
                    os.replace(old, final)
        raise
    finally:
        _remove(kept.values())


def _remove(paths: Iterable[Path]) -> None:
    for path in paths:
        with suppress(OSError):
            path.unlink()


@contextmanager
def _beside(final: Path, temporary: dict[Path, Path]) -> Iterator[BinaryIO]:
    """Open a temporary file in the folder of ``final``, with the permissions of ``final`` or of a new file; sync it to disk."""
    # Only a part of the name: the whole name may already have the maximal length.
    handle, name = tempfile.mkstemp(prefix=f".{final.name[:48]}.", suffix=".tmp", dir=final.parent)
    temporary[final] = Path(name)
    try:
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(name, final.stat().st_mode & 0o777 if final.exists() else 0o666 & ~mask)
        stream = os.fdopen(handle, "wb")
    except BaseException:
        with suppress(OSError):
            os.close(handle)
        raise
    with stream:
        yield stream
        stream.flush()
        os.fsync(handle)


def _data_path(target: Path, tensors: list[TensorProto], beside: bool) -> Path:
    """``TARGET.data``, numbered when a file of that name holds tensors that are not moved."""
    taken = set()
    if beside:
        taken = {e.value for t in tensors for e in t.external_data if e.key == "location"}
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


def _tensors(proto: ModelProto) -> Iterator[TensorProto]:
    """Initializers of all graphs; sparse ones and tensors of attributes only if they are external."""
    yield from _graph_tensors(proto.graph)
    for function in proto.functions:
        yield from _node_tensors(function.node)
    for training in proto.training_info:
        yield from _graph_tensors(training.initialization)
        yield from _graph_tensors(training.algorithm)


def _graph_tensors(graph: GraphProto) -> Iterator[TensorProto]:
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield from _external(sparse.values, sparse.indices)
    yield from _node_tensors(graph.node)


def _node_tensors(nodes: Iterable[onnx.NodeProto]) -> Iterator[TensorProto]:
    for node in nodes:
        for attribute in node.attribute:
            kind = attribute.type
            if kind == AttributeProto.GRAPH:
                yield from _graph_tensors(attribute.g)
            elif kind == AttributeProto.TENSOR:
                yield from _external(attribute.t)
            elif kind == AttributeProto.SPARSE_TENSOR:
                yield from _external(attribute.sparse_tensor.values, attribute.sparse_tensor.indices)
            elif kind == AttributeProto.TENSORS:
                yield from _external(*attribute.tensors)


def _external(*tensors: TensorProto) -> Iterator[TensorProto]:
    return (tensor for tensor in tensors if tensor.data_location == TensorProto.EXTERNAL)


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
            for tensor in [t for t in _tensors(whole) if t.data_location == TensorProto.EXTERNAL]:
                raw = Tensor.from_proto(tensor, base_dir).to_raw()
                del tensor.external_data[:]
                tensor.data_location = TensorProto.DEFAULT
                tensor.raw_data = raw
            return bytes(whole.SerializeToString())
    except (EncodeError, ValueError) as error:
        raise ModelError("the model does not fit into a protobuf of 2 GiB; write it to a file") from error


def check_external_data(proto: ModelProto, base_dir: Path) -> None:
    """Check that every external tensor can be read.

    Raises:
        ModelError: when a file is missing, too short, or outside the folder of the model.
    """
    for tensor in _tensors(proto):
        if tensor.data_location == TensorProto.EXTERNAL:
            Tensor.from_proto(tensor, base_dir).external_location()


def external_files(proto: ModelProto, base_dir: Path) -> list[Path]:
    """The files that hold external data of a model, in order of their paths; those that cannot be read are left out."""
    found = set()
    for tensor in _tensors(proto):
        if tensor.data_location == TensorProto.EXTERNAL:
            with suppress(ModelError):
                found.add(Tensor.from_proto(tensor, base_dir).external_location()[0])
    return sorted(found)


def external_locations(proto: ModelProto) -> list[str]:
    """The locations of the external data of a model as it states them, relative to its folder, in order."""
    tensors = (tensor for tensor in _tensors(proto) if tensor.data_location == TensorProto.EXTERNAL)
    return sorted({entry.value for tensor in tensors for entry in tensor.external_data if entry.key == "location"})


def has_external_data(proto: onnx.ModelProto) -> bool:
    """Whether any weight is in a file of its own."""
    return any(t.data_location == TensorProto.EXTERNAL for t in _tensors(proto))
