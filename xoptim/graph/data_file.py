"""The external data of a model: its files, and the file to which weights are written.

Weights are written in the order of their use, aligned, in parts, and by several threads.
"""

import math
import mmap
import os
import re
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from itertools import count, product
from pathlib import Path
from threading import local
from typing import BinaryIO, Final, NamedTuple

import numpy as np
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto

from xoptim.facts.dtypes import bits, numpy_dtype
from xoptim.facts.errors import MissingWeightsError, ModelError
from xoptim.facts.protos import every_node, is_external
from xoptim.graph.parts import PART, Box, flat_position
from xoptim.graph.stored import found_location
from xoptim.graph.tensors import Tensor
from xoptim.graph.views import View
from xoptim.operators.evaluate.kernel_table import copy_in_blocks
from xoptim.system.files import MAPPING_ALIGNMENT, MODEL_SUFFIXES, check_space, copy_range, write_at
from xoptim.system.journal import JOURNAL
from xoptim.system.machine import cores


def check_external_data(proto: ModelProto, base_dir: Path, *, may_be_missing: bool = False) -> None:
    """Raise `ModelError` for external data that is outside the folder of the model, missing, or too
    short; ``may_be_missing``: whether missing and short files are accepted.
    """
    for tensor in filter(is_external, stored_tensors(proto)):
        try:
            Tensor.from_proto(tensor, base_dir).place()
        except MissingWeightsError:
            if not may_be_missing:
                raise


def lacks_weights(proto: ModelProto, base_dir: Path) -> bool:
    """Whether a file of external data is missing, or too short."""
    try:
        check_external_data(proto, base_dir)
    except MissingWeightsError:
        return True
    return False


def settle_locations(proto: ModelProto, base_dir: Path | None) -> None:
    """Change the locations of external data to the separators of this system, in place."""
    for entry in (
        e for tensor in stored_tensors(proto) for e in tensor.external_data if e.key == "location"
    ):
        # a name that no file can have is refused when the data is read
        with suppress(OSError, ValueError, TypeError):
            entry.value = found_location(entry.value, base_dir)


def external_files(proto: ModelProto, base_dir: Path) -> list[Path]:
    """The files that hold external data of a model, in order of their paths.

    Those that cannot be read are skipped.
    """
    return sorted(_files_of(stored_tensors(proto), base_dir))


def graph_files(graph: GraphProto, base_dir: Path | None) -> set[Path]:
    """As `external_files`, of a graph and its subgraphs."""
    return _files_of(_graph_tensors(graph), base_dir)


def _files_of(tensors: Iterable[TensorProto], base_dir: Path | None) -> set[Path]:
    files: set[Path] = set()
    for tensor in filter(is_external, tensors):
        with suppress(ModelError):
            place = Tensor.from_proto(tensor, base_dir).place()
            files.update(() if place is None else place[:1])
    return files


def external_locations(proto: ModelProto) -> list[str]:
    """The locations of external data as the model states them, relative to its folder, sorted."""
    tensors = filter(is_external, stored_tensors(proto))
    entries = ({entry.key: entry.value for entry in t.external_data} for t in tensors)
    return sorted({entry["location"] for entry in entries if "location" in entry})


def has_external_data(proto: ModelProto) -> bool:
    """Whether any weight is external data."""
    return any(map(is_external, stored_tensors(proto)))


def external_bytes(graph: GraphProto) -> int:
    """Bytes of the external data of a graph and of its subgraphs."""
    return sum(
        Tensor.from_proto(tensor).nbytes for tensor in filter(is_external, _graph_tensors(graph))
    )


def stored_tensors(proto: ModelProto) -> Iterator[TensorProto]:
    """Initializers of all graphs; sparse initializers, and tensors of attributes, if external."""
    yield from _graph_tensors(proto.graph)
    for function in proto.functions:
        yield from _node_tensors(function.node)
    for training in proto.training_info:
        yield from _graph_tensors(training.initialization)
        yield from _graph_tensors(training.algorithm)


def _graph_tensors(graph: GraphProto) -> Iterator[TensorProto]:
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield from filter(is_external, (sparse.values, sparse.indices))
    yield from _node_tensors(graph.node)


def _node_tensors(nodes: Iterable[NodeProto]) -> Iterator[TensorProto]:
    for node in nodes:
        for attribute in node.attribute:
            kind = attribute.type
            if kind == AttributeProto.GRAPH:
                yield from _graph_tensors(attribute.g)
            elif kind == AttributeProto.TENSOR:
                yield from filter(is_external, (attribute.t,))
            elif kind == AttributeProto.SPARSE_TENSOR:
                yield from filter(
                    is_external, (attribute.sparse_tensor.values, attribute.sparse_tensor.indices)
                )
            elif kind == AttributeProto.TENSORS:
                yield from filter(is_external, attribute.tensors)


def data_path(target: Path, number: int) -> Path:
    """``TARGET.data``, or ``TARGET.1.data``, ``TARGET.2.data``, ..."""
    return target.with_name(f"{target.name}.{number}.data" if number else f"{target.name}.data")


def reserved(target: Path) -> Path:
    """Make an empty file at the first `data_path` that has none, and return its path.

    Raises `OSError`.
    """
    for number in count():
        path = data_path(target, number)
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        except FileExistsError:
            continue
        JOURNAL.note(path)
        return path
    raise AssertionError("there is a name")


def former_data(model: Path, kept: Collection[str]) -> list[Path]:
    """The files of weights that were written with a model, and that the model refers to, except
    those named in ``kept``.
    """
    pattern = re.compile(rf"{re.escape(model.name)}(\.\d+)?\.data")
    candidates = [
        path for path in _neighbors(model) if pattern.fullmatch(path.name) and path.name not in kept
    ]
    return [path for path in candidates if model.is_file() and _mentions(model, path)]


def is_named(path: Path) -> bool:
    """Whether a model in the folder of a file contains the file's name, and so may refer to it."""
    return any(
        _mentions(model, path)
        for model in _neighbors(path)
        if model.suffix in MODEL_SUFFIXES and model.is_file()
    )


def _neighbors(path: Path) -> list[Path]:
    """The files in the folder of a file, none where the folder cannot be listed."""
    with suppress(OSError):
        return sorted(path.parent.iterdir())
    return []


def _mentions(model: Path, path: Path) -> bool:
    """Whether a model contains the name of a file; True where the model cannot be read."""
    try:
        with (
            model.open("rb") as stream,
            mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as content,
        ):
            return content.find(os.fsencode(path.name)) >= 0
    except (OSError, ValueError):  # ValueError: an empty file
        return model.stat().st_size > 0


_THREADS: Final = 4
_FIELDS: Final = (
    "raw_data",
    "float_data",
    "int32_data",
    "int64_data",
    "double_data",
    "uint64_data",
)


_STRIP: Final = 2048
"""Number of stored rows of a transposed tensor that are mapped at a time."""
_ZEROS: Final = 1 << 20
"""Bytes that are checked for zeros at once; a range of zeros of this length is not written."""
_MIN_RUN: Final = 64
"""Minimal number of adjacent stored elements of a transposed tensor that are read at a time."""
_BUFFERS: Final = local()


class Weight(NamedTuple):
    """A tensor of a protobuf, and the handle that reads its numbers."""

    proto: TensorProto
    tensor: Tensor


def write_weights(weights: Sequence[Weight], stream: BinaryIO, folder: Path, location: str) -> None:
    """Write weights in order to an empty unbuffered file, and make their protobufs refer to its
    ``location`` instead of holding them.

    Raises `OSError` when the disk is full, or fails, and `ModelError` for a weight with damaged or
    missing data.
    """
    offsets, end = [], 0
    for _, tensor in weights:
        tensor.check_size()
        start = (
            -(-end // MAPPING_ALIGNMENT) * MAPPING_ALIGNMENT
            if tensor.nbytes >= MAPPING_ALIGNMENT
            else end
        )
        offsets.append(start)
        end = start + tensor.nbytes
    check_space(
        folder, sum(tensor.nbytes for _, tensor in weights if not tensor.is_hole(tensor.whole))
    )
    stream.truncate(end)
    tasks = (
        task
        for (_, tensor), offset in zip(weights, offsets, strict=True)
        for task in _tasks(tensor, offset)
    )
    pool = ThreadPoolExecutor(min(_THREADS, cores()))
    try:
        for _ in pool.map(lambda task: task(stream), tasks):
            pass
    finally:  # after an error, or Ctrl-C, the parts that have not begun are skipped
        pool.shutdown(cancel_futures=True)
    for (proto, tensor), offset in zip(weights, offsets, strict=True):
        for field in _FIELDS:
            proto.ClearField(field)
        refer(proto, location, offset, tensor.nbytes)


def refer(proto: TensorProto, location: str, offset: int, length: int) -> None:
    """Let a tensor refer to a range of a file of external data."""
    del proto.external_data[:]
    proto.data_location = TensorProto.EXTERNAL
    for key, value in (("location", location), ("offset", str(offset)), ("length", str(length))):
        proto.external_data.add(key=key, value=value)


def _tasks(tensor: Tensor, offset: int) -> Iterator[partial[None]]:
    """The steps of writing a tensor; each needs little memory."""
    place = tensor.place()
    if place is not None:
        path, start, _ = place
        for position in range(0, tensor.nbytes, 1 << 30):
            yield partial(
                copy_range,
                path,
                start + position,
                min(tensor.nbytes - position, 1 << 30),
                offset=offset + position,
            )
    elif bits(tensor.dtype) < 8 or not tensor.is_external:
        yield partial(_write_raw, tensor, offset)
    else:
        for box in _boxes(tensor):
            yield partial(_write_box, tensor, box, offset)


def _write_raw(tensor: Tensor, offset: int, stream: BinaryIO) -> None:
    write_at(stream, offset, memoryview(tensor.to_raw()))


def _write_box(tensor: Tensor, box: Box, offset: int, stream: BinaryIO) -> None:
    """Compute a part of a tensor, and write each run of adjacent elements.

    A part in a hole of a sparse file is not written: a new file consists of zeros.
    """
    if tensor.is_hole(box):
        return
    part = _computed(tensor, box)
    axis = len(box)
    while axis and part.shape[axis - 1] == tensor.shape[axis - 1]:
        axis -= 1
    axis = max(axis - 1, 0)  # along this axis and later ones, elements are adjacent
    width = bits(tensor.dtype) // 8
    if sys.byteorder != "little":
        part = part.byteswap()
    runs = part.reshape(-1, math.prod(part.shape[axis:])).view(np.uint8)
    for run, index in zip(
        runs, product(*(range(span.start, span.stop) for span in box[:axis])), strict=True
    ):
        position = flat_position(tensor.shape, [*index, *(span.start for span in box[axis:])])
        _write_numbers(stream, offset + position * width, run)


def _write_numbers(stream: BinaryIO, offset: int, raw: np.ndarray) -> None:
    """Write bytes, but no long ranges of zeros: a new file consists of zeros."""
    for start in range(0, raw.size, _ZEROS):
        chunk = raw[start : start + _ZEROS]
        if not chunk[:64].any() and not chunk.any():
            continue
        write_at(stream, offset + start, chunk.data)


def _computed(tensor: Tensor, box: Box) -> np.ndarray:
    """A part of a tensor, in memory of this thread.

    Stored rows of a transposed part are mapped a few at a time: the system maps more of each row
    than is read.
    """
    shape = [span.stop - span.start for span in box]
    dtype = numpy_dtype(tensor.dtype)
    part = _buffer(math.prod(shape) * dtype.itemsize).view(dtype).reshape(shape)
    step = _STRIP if isinstance(tensor, View) and tensor.fast_axes() else max(shape[-1], 1)
    for start in range(0, shape[-1], step):
        _fill(tensor, box, part, range(start, min(start + step, shape[-1])))
    return part


def _fill(tensor: Tensor, box: Box, part: np.ndarray, indices: range) -> None:
    """Compute a part at some indices along its last axis.

    Holes are not read: a strip with one half in a hole is split.
    """
    start, middle, stop = indices.start, (indices.start + indices.stop) // 2, indices.stop
    strip, *halves = (
        (*box[:-1], slice(box[-1].start + low, box[-1].start + high))
        for low, high in ((start, stop), (start, middle), (middle, stop))
    )
    if tensor.is_hole(strip):
        part[..., start:stop] = 0
    elif len(indices) > _MIN_RUN and any(tensor.is_hole(half) for half in halves):
        _fill(tensor, box, part, range(start, middle))
        _fill(tensor, box, part, range(middle, stop))
    else:
        copy_in_blocks(tensor.read(strip), part[..., start:stop])


def _boxes(tensor: Tensor) -> Iterator[Box]:
    """Parts of a tensor that cover it, each of at most `PART` bytes, and long along the axes where
    bytes are adjacent.
    """
    shape, rank = tensor.shape, len(tensor.shape)
    budget = max(PART // (bits(tensor.dtype) // 8), 1)
    fast_axes = [
        axis
        for axis in (tensor.fast_axes() if isinstance(tensor, View) else ())
        if axis != rank - 1
    ]
    lengths = [1] * rank
    for number, axis in enumerate(
        (rank - 1, *fast_axes, *reversed([a for a in range(rank - 1) if a not in fast_axes]))
    ):
        # Write long runs, and read runs that are not too short.
        limit = budget // _MIN_RUN if fast_axes and number == 0 else budget
        lengths[axis] = max(min(shape[axis], limit), 1)
        budget = max(budget // lengths[axis], 1)
    for starts in product(
        *(range(0, dim, length) for dim, length in zip(shape, lengths, strict=True))
    ):
        yield tuple(
            slice(s, min(s + length, dim))
            for s, length, dim in zip(starts, lengths, shape, strict=True)
        )


def _buffer(size: int) -> np.ndarray:
    """A buffer that this thread uses again: the system would clear new memory each time."""
    buffer: np.ndarray | None = getattr(_BUFFERS, "bytes", None)
    if buffer is None or buffer.size < size:
        _BUFFERS.bytes = buffer = np.empty(size, np.uint8)
    return buffer[:size]


def uses(proto: ModelProto) -> Mapping[str, int]:
    """The names that nodes read, numbered in the order in which nodes read them first."""
    order: dict[str, int] = {}
    for name in (name for node in every_node(proto.graph.node) for name in node.input):
        order.setdefault(name, len(order))
    return order
