"""Parts of one axis that Slice, Split and Gather take, and branches that compute parts of a Concat
in the same way.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from xoptim.facts.attributes import moved
from xoptim.facts.dims import Dim, is_nonnegative
from xoptim.match import AT_RUN_TIME, GraphView, Node, PatternRewriter
from xoptim.operators.slicing import LAST_END, OPEN_END

from ._folding import Array
from ._nodes import axis_of, is_op, size_along
from ._operators import ELEMENTWISE

_MAX_NODES: Final = 8
_Key = Callable[[GraphView, Node], Hashable]


class Branch(NamedTuple):
    """A row of nodes that ends at an operand of a Concat.

    Attributes:
        nodes: the nodes in the order in which they run; nothing else reads their results.
        key: equal for branches that can be computed together.
        biases: the constant operand of each Add among the nodes.
    """

    nodes: tuple[Node, ...]
    key: Hashable
    biases: tuple[str, ...] = ()


def branch(g: GraphView, name: str, key: _Key) -> Branch | None:
    """The branch of an operand: an operator that has a key, then elementwise operators, and sums
    with constants.

    ``key`` returns the key of a node that can begin a branch, ``None`` for other nodes. Branches
    whose first nodes have equal keys may be computed together.
    """
    nodes: list[Node] = []
    steps: list[Hashable] = []
    biases: list[str] = []
    while len(nodes) < _MAX_NODES:
        node = g.node_before(name)
        if node is None or node.domain or not g.is_exclusive(name):
            return None
        nodes.insert(0, node)
        first = key(g, node)
        if first is not None:
            return Branch(tuple(nodes), (first, *steps), tuple(biases[::-1]))
        constants = [operand for operand in node.input if g.is_constant(operand)]
        if node.op_type == "Add" and len(constants) == 1:
            biases += constants
            (name,) = (operand for operand in node.input if operand not in constants)
        elif node.op_type in ELEMENTWISE and len(node.input) == 1:
            (name,) = node.input
        else:
            return None
        steps.append((node.op_type, frozen(node.attribute)))
    return None


def frozen(attributes: Mapping[str, Any], without: Sequence[str] = ()) -> Hashable:
    """Attributes that can be compared, in the order of their names."""
    items = sorted((name, value) for name, value in attributes.items() if name not in without)
    return tuple(
        (name, tuple(value) if isinstance(value, list) else value) for name, value in items
    )


def alike(branches: Sequence[Branch | None]) -> tuple[slice, list[Branch]] | None:
    """The first two or more adjacent branches that have the same key, and their places."""
    start = 0
    for place in range(1, len(branches) + 1):
        first = branches[start]
        if (
            place < len(branches)
            and first is not None
            and (following := branches[place]) is not None
            and following.key == first.key
        ):
            continue
        if place - start > 1:
            return slice(start, place), [
                branch for branch in branches[start:place] if branch is not None
            ]
        start = place
    return None


def joint(
    part: slice,
    one: Branch,
    weight: Array,
    biases: Sequence[Array],
    own: int,
    g: PatternRewriter,
    *nodes: Node,
) -> list[Node]:
    """One branch with the weights and biases of all, and the Concat, which reads its result in
    place of theirs.

    The first biases, ``own`` of them, are operands of the first node. There is no Concat where no
    other operand remains.
    """
    (first, *following), concat, rows = one.nodes, nodes[-1], iter(biases[own:])
    y = getattr(g.op, first.op_type)(first.input[0], weight, *biases[:own], **first.attribute)
    for node in following:
        y = (
            g.op.Add(y, next(rows))
            if node.op_type == "Add"
            else getattr(g.op, node.op_type)(y, **node.attribute)
        )
    operands = [*concat.input[: part.start], y, *concat.input[part.stop :]]
    if len(operands) > 1:
        return [*g.created, g.make_node("Concat", operands, concat.output, **concat.attribute)]
    return [*g.created, g.make_node("Identity", operands, concat.output)]


_DEEPEST: Final = 4
"""Maximal number of Slices and Splits in a row that are followed."""


@dataclass(frozen=True)
class Cut:
    """The part that a Slice takes by steps of 1: from ``start`` to before ``end``, which is larger,
    both within an axis.

    The axis is counted from the front.
    """

    node: Node
    axis: int
    start: int
    end: int
    size: int


def cut_of(g: GraphView, node: Node) -> Cut | None:
    """The part that a Slice takes.

    ``None`` for an empty part, several axes, other steps, or unknown bounds.
    """
    shape = (
        g.try_infer_shape(node.input[0]) if node.op_type == "Slice" and not node.domain else None
    )
    axis = None if shape is None else _axis(g, node, len(shape))
    if shape is None or axis is None:
        return None
    bounds, size = [g.get_argument(node, name) for name in ("starts", "ends")], shape[axis]
    if not isinstance(size, int) or not all(
        isinstance(bound, list) and len(bound) == 1 for bound in bounds
    ):
        return None
    start, end, _ = slice(*(bound[0] for bound in bounds)).indices(size)
    return Cut(node, axis, start, end, size) if start < end else None


def part_of(g: GraphView, name: str, axis: int) -> tuple[str, int, int]:
    """The tensor that a result is a part of along an axis, through Slices and Splits, and where the
    part starts and ends.

    It is the result itself, from 0 to its size, when it is not a part. The size along the axis is a
    number.
    """
    start, size = 0, size_along(g, name, axis)
    assert isinstance(size, int)
    for _ in range(_DEEPEST):
        node = g.node_before(name)
        before = None if node is None else _start_of(g, node, name, axis)
        if node is None or before is None:
            break
        name, start = node.input[0], start + before
    return name, start, start + size


def _start_of(g: GraphView, node: Node, name: str, axis: int) -> int | None:
    """The first position of a result of a Slice or Split along an axis, ``None`` if it is not known
    or another axis is cut.
    """
    if node.op_type == "Slice":
        cut = cut_of(g, node)
        return cut.start if cut is not None and cut.axis == axis else None
    if node.op_type != "Split" or node.domain or axis_of(g, node) != axis:
        return None
    sizes = [size_along(g, before, axis) for before in node.output[: node.output.index(name)]]
    return (
        sum(size for size in sizes if isinstance(size, int))
        if all(isinstance(size, int) for size in sizes)
        else None
    )


def span_of(g: GraphView, node: Node) -> tuple[int, Dim, Dim] | None:
    """Axis, start and end of a Slice along one axis by steps of 1, numbers or symbols, counted from
    the front.

    Returns:
        ``None`` when one of them is not known. The end may lie beyond the axis.
    """
    shape = g.try_infer_shape(node.input[0])
    axis = None if shape is None else _axis(g, node, len(shape))
    if shape is None or axis is None:
        return None
    start, end = (
        _from_front(_bound(g, node, name), shape[axis], far(g)) for name in ("starts", "ends")
    )
    return None if start is None or end is None else (axis, start, end)


def far(g: GraphView) -> int:
    """The position from which on bounds of a Slice mean the end of the axis."""
    return OPEN_END if g.assumes("open_ends") else LAST_END


def _axis(g: GraphView, node: Node, rank: int) -> int | None:
    """The only axis that a Slice by steps of 1 cuts, ``None`` when there are others or it is not
    known.

    Without ``axes`` it is the first one, as long as there is one start and one end.
    """
    axes, steps = (g.get_argument(node, name) for name in ("axes", "steps"))
    axes = [0] if axes is None else axes
    if (
        not isinstance(axes, list)
        or len(axes) != 1
        or steps not in (None, [1])
        or not -rank <= axes[0] < rank
    ):
        return None
    return int(axes[0]) % rank


def _bound(g: GraphView, node: Node, name: str) -> Dim | None:
    """The only start, or end, of a Slice, ``None`` when there are others or it is not known."""
    bounds, operand = g.get_argument(node, name), moved(node.op_type, name, node.opset)
    if bounds is AT_RUN_TIME and operand is not None:
        bounds = g.info(node.input[operand.place]).data
    return bounds[0] if isinstance(bounds, (list, tuple)) and len(bounds) == 1 else None


def _from_front(position: Dim | None, size: Dim, end: int) -> Dim | None:
    if isinstance(position, int):
        return size if position >= end else position + size if position < 0 else position
    return position if position is not None and is_nonnegative(position) else None


class Position(NamedTuple):
    """One position of an axis, both counted from the front.

    The result is without the axis, or has size 1 there.
    """

    axis: int
    place: int
    size: int
    drops: bool


def position_of(g: GraphView, node: Node) -> Position | None:
    """The position that a Gather takes, ``None`` for another node, and where one of the numbers is
    not known.
    """
    rank = g.info(node.input[1]).rank if is_op(node, "Gather") else None
    axis = axis_of(g, node) if rank in (0, 1) else None
    index = None if axis is None else g.get_constant_scalar(node.input[1])
    size = None if axis is None else size_along(g, node.input[0], axis)
    if axis is None or index is None or not isinstance(size, int) or not -size <= index < size:
        return None
    return Position(axis, int(index) % size, size, rank == 0)


def all_positions(g: GraphView, node: Node) -> list[Node] | None:
    """The Gathers of all positions of an axis, in order, at least two; ``None`` if one is missing.

    The node is one of them. All drop the axis, or none does.
    """
    own = position_of(g, node)
    if own is None or own.size < 2:
        return None
    pieces: dict[int, Node] = {}
    for reader in g.next_nodes(node.input[0]):
        position = position_of(g, reader)
        if position is not None and position._replace(place=own.place) == own:
            pieces.setdefault(position.place, reader)
    return [pieces[place] for place in range(own.size)] if len(pieces) == own.size else None
