"""Indices that Slice, Split and Gather select from one axis of a tensor."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from xoptim.facts.attributes import moved
from xoptim.facts.dims import Dim, is_nonnegative
from xoptim.match import AT_RUN_TIME, GraphView, Node
from xoptim.operators.slicing import LAST_END, OPEN_END

from ._nodes import axis_of, is_op, size_along

_MAX_NODES: Final = 4
"""Maximum number of Slices and Splits in a row that are followed."""
_MAX_JOINED: Final = 1 << 16
"""Maximum number of indices that a Concat of parts may select, so that a list can hold them."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Selected indices of an axis, counted from the front, in their order.

    Attributes:
        start: the first index, a number or a symbol.
        end: the end of the range, after the last index, as in Python.
        step: the difference of successive indices.
        listed: all indices, if their differences are not equal; otherwise empty.
    """

    start: Dim
    end: Dim
    step: int = 1
    listed: tuple[int, ...] = ()

    @classmethod
    def of(cls, indices: Sequence[int]) -> "Selection":
        """The selection of one or more indices. A range keeps its step."""
        if not isinstance(indices, range):
            step = indices[1] - indices[0] if len(indices) > 1 else 1
            steps = range(indices[0], indices[0] + step * len(indices), step) if step else range(0)
            if [*steps] != [*indices]:
                return cls(indices[0], indices[0] + 1, 1, tuple(indices))
            indices = steps
        return cls(indices.start, indices.start + indices.step * len(indices), indices.step)

    @property
    def indices(self) -> Sequence[int]:
        """All indices, if the start and the end are numbers."""
        assert isinstance(self.start, int)
        assert isinstance(self.end, int)
        return self.listed or range(self.start, self.end, self.step)

    @property
    def is_contiguous(self) -> bool:
        """Whether the indices ascend by steps of 1."""
        return self.step == 1 and not self.listed


@dataclass(frozen=True, slots=True)
class Selected:
    """A selection of indices along one axis of a tensor.

    Attributes:
        node: the node that selects.
        source: the tensor.
        axis: the axis, counted from the front.
        size: the size of the axis.
        selection: the indices, which lie within the axis.
        drops: whether the result lacks the axis, as after a Gather by a scalar.
    """

    node: Node
    source: str
    axis: int
    size: int
    selection: Selection
    drops: bool = False

    @property
    def start(self) -> int:
        """The first index."""
        return self.selection.indices[0]

    @property
    def end(self) -> int:
        """The index after the last one."""
        return self.selection.indices[-1] + 1


def selected(g: GraphView, node: Node | None) -> Selected | None:
    """The selection of a Slice along one axis, or of a Gather by a vector or a scalar.

    ``None`` for other nodes. Also ``None`` if indices or the size of the axis are not constant, if
    no index is selected, or if one is out of range.
    """
    if is_op(node, "Slice"):
        return _selected_by_slice(g, node)
    rank = g.info(node.input[1]).rank if is_op(node, "Gather") else None
    if node is None or rank not in (0, 1):
        return None
    axis = axis_of(g, node)
    size = size_along(g, node.input[0], axis)
    indices = g.get_ints(node.input[1]) if axis is not None and isinstance(size, int) else None
    if axis is None or not isinstance(size, int) or not indices:
        return None
    if not -size <= min(indices) <= max(indices) < size:
        return None
    selection = Selection.of([index % size for index in indices])
    return Selected(node, node.input[0], axis, size, selection, drops=rank == 0)


def _selected_by_slice(g: GraphView, node: Node) -> Selected | None:
    axis, steps = sliced_axis(g, node), g.get_argument(node, "steps")
    step = steps[0] if isinstance(steps, list) and len(steps) == 1 else 1
    size = None if axis is None else size_along(g, node.input[0], axis)
    bounds = [g.get_argument(node, name) for name in ("starts", "ends")]
    if axis is None or not isinstance(size, int) or steps not in (None, [step]) or not step:
        return None
    if not all(isinstance(bound, list) and len(bound) == 1 for bound in bounds):
        return None
    (start,), (end,) = bounds
    is_open = step < 0 and end < -size  # The slice reaches down to index 0.
    indices = range(size)[slice(start, None if is_open else end, step)]
    return Selected(node, node.input[0], axis, size, Selection.of(indices)) if indices else None


def slice_of(g: GraphView, node: Node | None) -> Selected | None:
    """The selection of a Slice along one axis with step 1; ``None`` as for `selected`."""
    part = selected(g, node) if is_op(node, "Slice") else None
    return part if part is not None and part.selection.is_contiguous else None


def index_of(g: GraphView, node: Node | None) -> Selected | None:
    """The selection of a Gather of a single index; ``None`` for several, and as for `selected`."""
    if not is_op(node, "Gather") or g.get_constant_scalar(node.input[1]) is None:
        return None
    return selected(g, node)


def gathers_of_all(g: GraphView, node: Node) -> list[Node] | None:
    """The Gathers of all single indices of an axis, in order; ``None`` if one is missing.

    There are at least two, and ``node`` is one of them. All drop the axis, or none does.
    """
    selection = index_of(g, node)
    if selection is None or selection.size < 2:
        return None
    readers: dict[int, Node] = {}
    for reader in g.next_nodes(selection.source):
        part = index_of(g, reader)
        if part is not None and (part.axis, part.drops) == (selection.axis, selection.drops):
            readers.setdefault(part.start, reader)
    return (
        [readers[index] for index in range(selection.size)]
        if len(readers) == selection.size
        else None
    )


def joined(g: GraphView, concat: Node) -> Selected | None:
    """The selection that a Concat of parts of one tensor makes; ``None`` for several tensors.

    Also ``None`` for more than 65,536 indices.
    """
    axis = axis_of(g, concat)
    sizes = [size_along(g, name, axis) for name in concat.input]
    if axis is None or not all(isinstance(size, int) for size in sizes):
        return None
    parts = [part_of(g, name, axis) for name in concat.input]
    sources = {source for source, *_ in parts}
    size = size_along(g, parts[0][0], axis)
    count = sum(end - start for _, start, end in parts)
    if len(sources) > 1 or not 0 < count <= _MAX_JOINED or not isinstance(size, int):
        return None
    indices = [index for _, start, end in parts for index in range(start, end)]
    return Selected(concat, sources.pop(), axis, size, Selection.of(indices))


def part_of(g: GraphView, name: str, axis: int) -> tuple[str, int, int]:
    """The tensor from which Slices and Splits along an axis cut ``name``, with start and end.

    It is the tensor ``name`` itself, from 0 to its size, if no node cuts it. Its size along the
    axis must be static.
    """
    size = size_along(g, name, axis)
    assert isinstance(size, int)
    start = 0
    for _ in range(_MAX_NODES):
        node = g.node_before(name)
        first = None if node is None else _start_of(g, node, name, axis)
        if node is None or first is None:
            break
        name, start = node.input[0], start + first
    return name, start, start + size


def _start_of(g: GraphView, node: Node, name: str, axis: int) -> int | None:
    """The first index of a result of a Slice or Split along an axis.

    ``None`` if it is not known, or the node cuts another axis.
    """
    if is_op(node, "Slice"):
        part = slice_of(g, node)
        return part.start if part is not None and part.axis == axis else None
    if not is_op(node, "Split") or axis_of(g, node) != axis:
        return None
    start = 0
    for output in node.output[: node.output.index(name)]:
        size = size_along(g, output, axis)
        if not isinstance(size, int):
            return None
        start += size
    return start


def span_of(g: GraphView, node: Node) -> tuple[int, Selection] | None:
    """The axis of a Slice along one axis with step 1, and its indices, numbers or symbols.

    ``None`` if a bound is unknown. The end may lie beyond the axis.
    """
    axis = sliced_axis(g, node)
    size = None if axis is None else size_along(g, node.input[0], axis)
    if axis is None or size is None or g.get_argument(node, "steps") not in (None, [1]):
        return None
    start, end = (_from_front(_bound(g, node, name), size, far(g)) for name in ("starts", "ends"))
    return None if start is None or end is None else (axis, Selection(start, end))


def far(g: GraphView) -> int:
    """The smallest bound of a Slice that means the end of the axis."""
    return OPEN_END if g.assumes("open_ends") else LAST_END


def sliced_axis(g: GraphView, node: Node) -> int | None:
    """The only axis of a Slice; ``None`` if there are several, or it is unknown.

    Without ``axes``, it is the first axis, if the Slice has a single start and end.
    """
    axes, rank = g.get_argument(node, "axes"), g.info(node.input[0]).rank
    axes = [0] if axes is None else axes
    if not isinstance(axes, list) or len(axes) != 1 or rank is None or not -rank <= axes[0] < rank:
        return None
    return int(axes[0]) % rank


def _bound(g: GraphView, node: Node, name: str) -> Dim | None:
    """The only start, or end, of a Slice; ``None`` if there are several, or it is unknown."""
    bounds, operand = g.get_argument(node, name), moved(node.op_type, name, node.opset)
    if bounds is AT_RUN_TIME and operand is not None:
        bounds = g.info(node.input[operand.place]).data
    return bounds[0] if isinstance(bounds, (list, tuple)) and len(bounds) == 1 else None


def _from_front(index: Dim | None, size: Dim, end: int) -> Dim | None:
    if isinstance(index, int):
        return size if index >= end else index + size if index < 0 else index
    return index if index is not None and is_nonnegative(index) else None
