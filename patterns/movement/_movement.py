"""Chains of Reshape, Transpose, Squeeze, Unsqueeze and Flatten, as one rearrangement of factors.

The size of each axis is a product of factors. A Reshape groups the same sequence of factors in
another way, and a Transpose permutes groups. So the order of the source's factors in the result
determines the rearrangement.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from xoptim.facts.dims import Dim, exact_quotient, product
from xoptim.facts.shapes import Shape, normalized
from xoptim.match import GraphView, Node

from .._deductions import reshapes_as_inferred
from .._nodes import permutation
from .._operators import BROADCASTING, ELEMENTWISE
from .._shapes import Movement

MOVEMENTS: Final = ("Reshape", "Transpose", "Squeeze", "Unsqueeze", "Flatten")
VIEWS: Final = tuple(op_type for op_type in MOVEMENTS if op_type != "Transpose")
"""The movements that keep the elements in their order."""
NEW: Final = -1
"""In a list of axes of a source: an axis of size 1 that the source lacks."""


def axes_after(op_type: str, numbers: list[int], axes: Sequence[int]) -> list[int] | None:
    """The axes of the result of a Transpose, Squeeze or Unsqueeze, as axes of a source.

    ``None`` if the node is not valid.

    Args:
        op_type: the operator.
        numbers: its perm or axes.
        axes: the axes of its operand: each is the number of an axis of the source, or `NEW`.
    """
    if op_type == "Transpose":
        is_valid = sorted(numbers) == [*range(len(axes))]
        return [axes[number] for number in numbers] if is_valid else None
    rank = len(axes) + (len(numbers) if op_type == "Unsqueeze" else 0)
    listed = {normalized(number, rank) for number in numbers}
    if None in listed:
        return None
    if op_type == "Squeeze":  # A Squeeze may list an axis twice, an Unsqueeze may not.
        return [axis for index, axis in enumerate(axes) if index not in listed]
    source_axes = iter(axes)
    if len(listed) < len(numbers):
        return None
    return [NEW if index in listed else next(source_axes) for index in range(rank)]


def axes_movement(axes: Sequence[int], rank: int) -> Movement | None:
    """The single movement from a source of rank ``rank`` to a result with the axes ``axes``.

    ``None`` if one movement is not enough; a Squeeze, a Transpose and an Unsqueeze together always
    are. A new axis in the place of a removed axis is the same axis, since both have size 1.
    """
    if [*range(rank)] == [index if axis == NEW else axis for index, axis in enumerate(axes)]:
        return "", []
    source_axes = [axis for axis in axes if axis != NEW]
    steps = (
        ("Squeeze", [axis for axis in range(rank) if axis not in source_axes]),
        ("Transpose", source_axes if source_axes != sorted(source_axes) else []),
        ("Unsqueeze", [index for index, axis in enumerate(axes) if axis == NEW]),
    )
    movements = [(op_type, numbers) for op_type, numbers in steps if numbers]
    return movements[0] if len(movements) == 1 else None


@dataclass(frozen=True)
class Rearrangement:
    """The factors of the axes of a source, and of the axes of a result.

    Factors are numbered 0, 1, ... in the order of the source, outermost first.

    Attributes:
        source: the factors of each axis of the source; none for an axis of size 1.
        result: the factors of each axis of the result.
        sizes: the size of each factor.
    """

    source: list[list[int]]
    result: list[list[int]]
    sizes: list[Dim]


def follow(shape: Shape, chain: Sequence[tuple[list[int] | None, Shape]]) -> Rearrangement | None:
    """The rearrangement of a chain of movements; ``None`` if common factors of sizes are unknown.

    Args:
        shape: the shape of the source.
        chain: for each node, its permutation (``None`` unless it is a Transpose), and the shape of
            its result.
    """
    factors: list[Dim] = []
    groups: list[list[_Factor]] = []
    dimensions: list[_Factor] = []
    for dim in shape:
        groups.append([] if dim == 1 else [_Factor(dim)])
        dimensions += groups[-1]
    source = [list(group) for group in groups]
    for perm, dims in chain:
        if perm is not None:
            groups = [groups[axis] for axis in perm]
            continue
        regrouped = _regroup([leaf for group in groups for f in group for leaf in f.leaves()], dims)
        if regrouped is None:
            return None
        groups = regrouped
    leaves = [leaf for factor in dimensions for leaf in factor.leaves()]
    number = {id(leaf): position for position, leaf in enumerate(leaves)}
    factors = [leaf.size for leaf in leaves]

    def numbers(axis: list[_Factor]) -> list[int]:
        return [number[id(leaf)] for factor in axis for leaf in factor.leaves()]

    return Rearrangement(
        [numbers(axis) for axis in source], [numbers(axis) for axis in groups], factors
    )


class _Factor:
    """A factor of the size of an axis, which a later Reshape may split in two."""

    __slots__ = ("parts", "size")

    def __init__(self, size: Dim) -> None:
        self.size = size
        self.parts: tuple[_Factor, _Factor] | None = None

    def leaves(self) -> list[_Factor]:
        return (
            [self]
            if self.parts is None
            else [leaf for part in self.parts for leaf in part.leaves()]
        )


def _regroup(factors: list[_Factor], dims: Shape) -> list[list[_Factor]] | None:
    """The factors, in order, grouped into the axes of another shape; ``None`` if unknown.

    A factor that belongs to two axes is split.
    """
    pending = factors[::-1]
    groups: list[list[_Factor]] = []
    for dim in dims:
        group: list[_Factor] = []
        need = dim
        while need != 1:
            if not pending or need == 0 or pending[-1].size == 0:
                return None
            factor = pending.pop()
            quotient = exact_quotient(need, factor.size)
            if quotient is None:
                inner = exact_quotient(factor.size, need)
                if inner is None:
                    return None
                factor.parts = _Factor(need), _Factor(inner)
                factor, remainder = factor.parts
                pending.append(remainder)
                quotient = 1
            group.append(factor)
            need = quotient
        groups.append(group)
    return None if pending else groups


@dataclass(frozen=True)
class MovementPlan:
    """Nodes for a rearrangement: at most a Reshape, a Transpose and a Reshape.

    Attributes:
        before: target of the first Reshape; ``None`` without one.
        perm: permutation of the Transpose; ``None`` without one.
        after: whether there is a second Reshape, to the shape of the result.
    """

    before: Shape | None
    perm: list[int] | None
    after: bool

    @property
    def nodes(self) -> int:
        """Number of nodes."""
        return (self.before is not None) + (self.perm is not None) + self.after


def plans(moved: Rearrangement, source: Shape, result: Shape, max_nodes: int) -> list[MovementPlan]:
    """Plans for a rearrangement with at most ``max_nodes`` nodes, the shortest first.

    Of two plans of equal length, the plan with the Reshape first comes first. Both take equally
    long, but exporters write a Reshape first, so shortened layers match layers as exported.
    """
    order = [factor for axis in moved.result for factor in axis]
    if order == sorted(order):
        return [MovementPlan(None, None, source != result)]
    candidates = []
    direct = _units(moved.source, order)
    if direct is not None:
        perm = _with_ones(direct, [i for i, axis in enumerate(moved.source) if not axis], result)
        candidates.append(MovementPlan(None, perm, tuple(source[axis] for axis in perm) != result))
    inverse = _units(moved.result, range(len(moved.sizes))) if max_nodes > 1 else None
    if inverse is not None:
        unit_order = _with_ones(
            inverse, [i for i, axis in enumerate(moved.result) if not axis], source
        )
        before = tuple(result[axis] for axis in unit_order)
        perm = [unit_order.index(axis) for axis in range(len(result))]
        candidates.append(MovementPlan(before if before != source else None, perm, after=False))
    if max_nodes > 2:
        starts = _blocks(order)
        blocks = sorted(starts)
        before = tuple(
            product(moved.sizes[f] for f in range(first, last)) for first, last in blocks
        )
        candidates.append(
            MovementPlan(before, [blocks.index(block) for block in starts], after=True)
        )
    candidates = [plan for plan in candidates if plan.nodes <= max_nodes]
    return sorted(candidates, key=lambda plan: (plan.nodes, plan.after, len(plan.perm or ())))


def _units(axes: Sequence[Sequence[int]], order: Sequence[int]) -> list[int] | None:
    """The order of axes in which their factors have the order ``order``.

    ``None`` if an axis would have to be split.
    """
    owner = {factor: axis for axis, factors in enumerate(axes) for factor in factors}
    units = list(dict.fromkeys(owner[factor] for factor in order))
    return units if [factor for axis in units for factor in axes[axis]] == list(order) else None


def _with_ones(units: list[int], ones: list[int], target: Shape) -> list[int]:
    """The axes ``units`` and the axes ``ones`` of size 1, in one order.

    Axes of size 1 are where ``target`` has them, if it has as many; otherwise in front.
    """
    if sum(dim == 1 for dim in target) != len(ones) or len(target) != len(units) + len(ones):
        return ones + units
    larger_axes, one_axes = iter(units), iter(ones)
    return [next(one_axes) if dim == 1 else next(larger_axes) for dim in target]


def _blocks(order: Sequence[int]) -> list[tuple[int, int]]:
    """Runs of consecutive factors, as (first, end), in the order of the result."""
    blocks: list[tuple[int, int]] = []
    for factor in order:
        if blocks and blocks[-1][1] == factor:
            blocks[-1] = (blocks[-1][0], factor + 1)
        else:
            blocks.append((factor, factor + 1))
    return blocks


def may_be_one(g: GraphView, moves: Sequence[Node], source: Shape, result: Shape) -> bool:
    """Whether one node might be enough for a chain: a quick test that may be wrongly true.

    A Transpose keeps the number of axes that are not 1, a Reshape their order.
    """
    if sum(dim != 1 for dim in source) == sum(dim != 1 for dim in result):
        return True
    for node in moves:
        perm = permutation(g, node)
        if perm is not None:
            axes = [axis for axis in perm if g.get_shape(node.input[0])[axis] != 1]
            if axes != sorted(axes):
                return False
    return True


def main_operand(g: GraphView, node: Node) -> int | None:
    """The index of the operand through which a chain of movements goes on.

    It is the first operand of a movement or of an elementwise operator. For a broadcasting operator
    with a scalar constant, it is the other operand. ``None`` for all other nodes.
    """
    if node.domain or not node.input:
        return None
    if node.op_type in MOVEMENTS:
        return 0
    if node.op_type in ELEMENTWISE:
        return 0 if node.op_type != "Cast" or g.has_type(node.input[0]) else None
    if node.op_type not in BROADCASTING or len(node.input) != 2:
        return None
    numbers = [g.get_constant_scalar(name) is not None for name in node.input]
    if sum(numbers) != 1:
        return None
    index = numbers.index(False)
    return index if g.same_shape(node.input[index], node.output[0]) else None


class Link(NamedTuple):
    """A node of a chain, and the index of the operand through which the chain goes."""

    node: Node
    place: int

    @property
    def moves(self) -> bool:
        """Whether the node is a movement, not an elementwise operator."""
        return self.node.op_type in MOVEMENTS

    @property
    def source(self) -> str:
        """The operand that the chain goes through."""
        return self.node.input[self.place]


def chain_above(g: GraphView, node: Node, max_movements: int) -> list[Link]:
    """The chain of movements and elementwise operators that ends at ``node``.

    It begins and ends at a movement. No other node reads the results in between. All shapes are
    known, and hold even if a size is 0 at run time. With at most ``max_movements`` movements, the
    time for a graph stays proportional to its size.
    """
    chain: list[Link] = []
    here: Node | None = node
    count = end = 0
    while here is not None and count < max_movements:
        index = main_operand(g, here)
        if index is None or not g.has_shape(here.input[index]) or not g.has_shape(here.output[0]):
            break
        if (chain and not g.is_exclusive(here.output[0])) or not reshapes_as_inferred(g, here):
            break
        chain.append(Link(here, index))
        if chain[-1].moves:
            count, end = count + 1, len(chain)
        here = g.node_before(chain[-1].source)
    return chain[:end][::-1]


def may_come_first(g: GraphView, chain: Sequence[Link], rank: int) -> bool:
    """Whether the elementwise operators of a chain keep the shape of a tensor of this rank.

    A scalar constant that is stored with more axes than the tensor would add axes to the result.
    """
    numbers = (
        name
        for link in chain
        if not link.moves
        for name in link.node.input
        if name and name != link.source
    )
    return all((axes := g.info(name).rank) is not None and axes <= rank for name in numbers)
