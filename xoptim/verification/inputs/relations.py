"""Operands whose values depend on other operands of the same node: boxes within a picture, sizes
that must equal others, lengths that add up to an axis.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import onnx
from onnx import AttributeProto, NodeProto

from xoptim.facts.protos import standard_domain
from xoptim.verification.inputs.dataflow import Dataflow, Shape, Use, attribute
from xoptim.verification.inputs.dims import size_of

Size: TypeAlias = "int | str"
"""A number, or the name of a dimension."""
_MAX_FREE_SIZE: Final = 6
"""Largest value for an operand that may be any size."""


def _number(size: Size, sizes: Mapping[str, int]) -> int:
    """A size; 0 and an unknown size count as 1."""
    return size_of(size, sizes) or 1


class Boxes(NamedTuple):
    """Rectangles within a picture: each row has two corners, after the index of a picture if
    ``batch``, the number of pictures, is set.
    """

    across: Size  # extent of the first and third coordinate
    down: Size
    scale: float = 1.0  # by which the operator multiplies coordinates
    batch: Size | None = None
    is_centered: bool = False  # whether a row has a center and extents in place of corners
    is_preference: bool = True

    def values(
        self, shape: tuple[int, ...], sizes: Mapping[str, int], rng: np.random.Generator
    ) -> np.ndarray:
        """Boxes that cover a part of a picture, many of which overlap."""
        rows = math.prod(shape[:-1])
        extents = np.array([_number(size, sizes) for size in (self.across, self.down)])
        low = rng.uniform(0.0, 0.6, (rows, 2)) * extents / self.scale
        length = rng.uniform(0.3, 0.4, (rows, 2)) * extents / self.scale
        boxes = np.concatenate((low, length if self.is_centered else low + length), axis=1)
        if self.batch is not None:
            pictures = rng.integers(0, _number(self.batch, sizes), (rows, 1))
            boxes = np.concatenate((pictures, boxes), axis=1)
        return np.resize(boxes, shape)


class Targets(NamedTuple):
    """One size for each element: a known one, or a small one where it is ``None``."""

    elements: tuple[Size | None, ...]
    is_preference: bool = False

    def values(
        self, shape: tuple[int, ...], sizes: Mapping[str, int], rng: np.random.Generator
    ) -> np.ndarray:
        """The sizes, the last one for elements beyond them."""
        count = math.prod(shape)
        elements = [self.elements[min(at, len(self.elements) - 1)] for at in range(count)]
        free = rng.integers(2, _MAX_FREE_SIZE, count, endpoint=True)
        targets = [
            int(number) if size is None else _number(size, sizes)
            for size, number in zip(elements, free, strict=True)
        ]
        return np.reshape(targets, shape)


class Parts(NamedTuple):
    """Lengths that add up to an axis."""

    axis: Size
    is_preference: bool = False

    def values(
        self, shape: tuple[int, ...], sizes: Mapping[str, int], rng: np.random.Generator
    ) -> np.ndarray:
        """Lengths of at least 1, where the axis is long enough."""
        total, count = _number(self.axis, sizes), math.prod(shape)
        if not count:
            return np.zeros(shape, np.int64)
        minimum = np.full(count, int(total >= count))
        extra = rng.multinomial(total - int(minimum.sum()), np.full(count, 1 / count))
        return np.reshape(minimum + extra, shape)


class Filled(NamedTuple):
    """Lengths from ``sum(least)`` to ``sum(most) - sum(minus)``.

    The first length is the largest.
    """

    least: tuple[Size, ...]
    most: tuple[Size, ...]
    minus: tuple[Size, ...] = ()
    is_preference: bool = False

    def values(
        self, shape: tuple[int, ...], sizes: Mapping[str, int], rng: np.random.Generator
    ) -> np.ndarray:
        """The lengths."""
        low, high, reduction = (
            sum(_number_or_zero(size, sizes) for size in part)
            for part in (self.least, self.most, self.minus)
        )
        high -= reduction
        lengths = rng.integers(min(low, high), high, math.prod(shape), endpoint=True)
        lengths[:1] = high
        return np.reshape(lengths, shape)


class Places(NamedTuple):
    """The first indices of a flat tensor, each once, in random order."""

    is_preference: bool = False

    def values(
        self, shape: tuple[int, ...], _: Mapping[str, int], rng: np.random.Generator
    ) -> np.ndarray:
        """The indices."""
        return rng.permutation(math.prod(shape)).reshape(shape)


def _number_or_zero(size: Size, sizes: Mapping[str, int]) -> int:
    """A size, which may be 0 (the length of a past); an unknown size counts as 1."""
    number = size_of(size, sizes)
    return 1 if number is None else number


Relation: TypeAlias = Boxes | Targets | Parts | Filled | Places


def _size(shape: Shape | None, axis: int) -> Size:
    """The size of an axis; an unknown size counts as 1."""
    size = shape[axis] if shape is not None and -len(shape) <= axis < len(shape) else None
    return 1 if size is None else size


def _scale(node: NodeProto) -> float:
    scale = next((float(a.f) for a in node.attribute if a.name == "spatial_scale"), 1.0)
    return scale if math.isfinite(scale) and scale > 0 else 1.0


def _regions(flow: Dataflow, use: Use) -> Relation:
    """The regions of RoiAlign; the regions of MaxRoiPool, each after the index of its picture."""
    shape = flow.shape(use.operand(0))
    batch = _size(shape, 0) if use.node.op_type == "MaxRoiPool" else None
    return Boxes(_size(shape, -1), _size(shape, -2), _scale(use.node), batch, is_preference=False)


def _normalized(_: Dataflow, use: Use) -> Relation:
    """Boxes in a picture of extent 1: of CropAndResize and NonMaxSuppression."""
    return Boxes(1, 1, is_centered=bool(attribute(use.node, "center_point_box", 0)))


def _grid_sizes(flow: Dataflow, use: Use) -> Relation:
    """The size of the result of AffineGrid, which has the batch of theta."""
    return Targets((_size(flow.shape(use.operand(0)), 0), None))


def _image_sizes(flow: Dataflow, use: Use) -> Relation:
    """The image of Col2Im, whose columns are blocks of one element."""
    return Targets((_size(flow.shape(use.operand(0)), -1), 1))


def _ones(_: Dataflow, __: Use) -> Relation:
    return Targets((1,))


def _any_sizes(_: Dataflow, __: Use) -> Relation:
    return Targets((None,))


def _parts(flow: Dataflow, use: Use) -> Relation | None:
    """The lengths into which Split and SplitToSequence split an axis."""
    shape = flow.shape(use.operand(use.slot))
    if shape is not None and not shape:  # a length for all parts
        return None
    axis = attribute(use.node, "axis", 0)
    return Parts(_size(flow.shape(use.operand(0)), axis))


def _valid_keys(flow: Dataflow, use: Use) -> Relation:
    """Numbers of keys of Attention that are no padding."""
    return Filled((1,), (_size(flow.shape(use.operand(1)), -2),))


def _total_keys(flow: Dataflow, use: Use) -> tuple[Size, Size]:
    """The number of new keys of GroupQueryAttention, and of keys of the past."""
    keys = use.operand(1) or use.operand(0)
    past = flow.shape(use.operand(3)) if use.operand(3) else None
    return _size(flow.shape(keys), 1), 0 if past is None else _size(past, 2)


def _last_key(flow: Dataflow, use: Use) -> Relation:
    """Positions of the last keys of each row."""
    keys, past = _total_keys(flow, use)
    return Filled((keys, -1), (keys, past, -1))


def _key_count(flow: Dataflow, use: Use) -> Relation:
    keys, past = _total_keys(flow, use)
    return Filled((keys, past), (keys, past))


def _rows_written(flow: Dataflow, use: Use) -> Relation:
    """The first index that TensorScatter writes: the update ends with the axis at the latest."""
    axis = attribute(use.node, "axis", -2)
    length, update = (_size(flow.shape(use.operand(slot)), axis) for slot in (0, 1))
    return Filled((0,), (length,), (update,))


def _places(_: Dataflow, __: Use) -> Relation:
    return Places()


def _lengths(flow: Dataflow, use: Use) -> Relation | None:
    """The sequence lengths that an attention takes in place of a mask of two axes or more."""
    shape = flow.shape(use.operand(use.slot))
    if shape is None or len(shape) != 1:
        return None
    keys = use.operand(1) if use.node.op_type == "MultiHeadAttention" else ""
    return Filled((1,), (_size(flow.shape(keys or use.operand(0)), 1),))


def _past_length(flow: Dataflow, use: Use) -> Relation:
    """The number of keys in the buffer of DecoderMaskedMultiHeadAttention, with room for one."""
    return Filled((0,), (_size(flow.shape(use.operand(5)), 2), -1))


_RELATED: Final[dict[tuple[str, str, int], Callable[[Dataflow, Use], Relation | None]]] = {
    ("", "RoiAlign", 1): _regions,
    ("", "MaxRoiPool", 1): _regions,
    ("", "NonMaxSuppression", 0): _normalized,
    ("com.microsoft", "CropAndResize", 1): _normalized,
    ("com.microsoft", "CropAndResize", 3): _any_sizes,
    ("", "AffineGrid", 1): _grid_sizes,
    ("", "Col2Im", 1): _image_sizes,
    ("", "Col2Im", 2): _ones,
    ("", "CenterCropPad", 1): _any_sizes,
    ("", "Split", 1): _parts,
    ("", "SplitToSequence", 1): _parts,
    ("", "Attention", 6): _valid_keys,
    ("", "TensorScatter", 2): _rows_written,
    ("", "MaxUnpool", 1): _places,
    ("com.microsoft", "Attention", 3): _lengths,
    ("com.microsoft", "MultiHeadAttention", 4): _lengths,
    ("com.microsoft", "DecoderMaskedMultiHeadAttention", 7): _past_length,
    ("com.microsoft", "GroupQueryAttention", 5): _last_key,
    ("com.microsoft", "GroupQueryAttention", 6): _key_count,
}
"""The relation of an input to the other operands of its node, by domain, operator and input."""


def relation_of(flow: Dataflow, use: Use) -> Relation | None:
    """The relation of an operand to other operands, ``None`` if there is none."""
    key = (standard_domain(use.node.domain), use.node.op_type, use.slot)
    maker = _RELATED.get(key)
    return None if maker is None else maker(flow, use)


class Derived(NamedTuple):
    """A dimension that a window makes of another dimension."""

    name: str
    of: Size
    padding: int
    window: int  # with its dilation
    stride: int

    def size(self, sizes: Mapping[str, int]) -> int | None:
        """The size, ``None`` where the window does not fit."""
        room = _number(self.of, sizes) + self.padding - self.window
        return room // self.stride + 1 if room >= 0 else None


def derived_sizes(model: onnx.ModelProto) -> list[Derived]:
    """The dimensions of offsets and masks of DeformConv, which its result has as well."""
    nodes = [node for node in model.graph.node if node.op_type == "DeformConv"]
    flow = Dataflow(model) if nodes else None
    return [dim for node in nodes if flow is not None for dim in _derived(flow, node)]


def _derived(flow: Dataflow, node: NodeProto) -> Iterator[Derived]:
    shapes = [flow.shape(name) if name else None for name in node.input]
    image, weight = shapes[0], shapes[1]
    if image is None or weight is None:
        return
    lists = {a.name: list(a.ints) for a in node.attribute if a.type == AttributeProto.INTS}
    for axis in range(len(image) - 2):
        kernel, source = weight[axis + 2], image[axis + 2]
        if not isinstance(kernel, int) or source is None:
            continue
        count = len(image) - 2
        pads = lists.get("pads", [0] * 2 * count)
        stride = lists.get("strides", [1] * count)[axis]
        window = lists.get("dilations", [1] * count)[axis] * (kernel - 1) + 1
        for slot in (2, 4):
            shape = shapes[slot] if slot < len(shapes) else None
            name = shape[axis + 2] if shape is not None else None
            if isinstance(name, str) and name != source and stride > 0:
                yield Derived(name, source, pads[axis] + pads[axis + count], window, stride)


def with_derived(derived: Sequence[Derived], sizes: Mapping[str, int]) -> dict[str, int]:
    """The sizes, with derived dimensions computed from other dimensions."""
    completed = dict(sizes)
    for dim in derived:
        size = dim.size(completed)
        if dim.name in completed and size is not None:
            completed[dim.name] = size
    return completed
