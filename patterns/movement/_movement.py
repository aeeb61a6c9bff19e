"""Chains of Reshape, Transpose, Squeeze, Unsqueeze and Flatten as one rearrangement of the factors
of axes.

Each axis is a product of factors. Reshape groups the same sequence of factors in another way,
Transpose permutes groups: the order of the source's factors in the result determines the
rearrangement.
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
    """The axes of a source after a Transpose, Squeeze or Unsqueeze; ``None`` when it is not valid.

    Args:
        op_type: the operator.
        numbers: its perm or axes.
        axes: the axes of its operand, each an axis of the source, or `NEW`.
    """
    if op_type == "Transpose":
        is_valid = sorted(numbers) == [*range(len(axes))]
        return [axes[place] for place in numbers] if is_valid else None
    rank = len(axes) + (len(numbers) if op_type == "Unsqueeze" else 0)
    places = {normalized(number, rank) for number in numbers}
    if None in places:
        return None
    if op_type == "Squeeze":  # which may list an axis twice
        return [axis for place, axis in enumerate(axes) if place not in places]
    rest = iter(axes)
    if len(places) < len(numbers):
        return None
    return [NEW if place in places else next(rest) for place in range(rank)]


def axes_movement(axes: Sequence[int], rank: int) -> Movement | None:
    """The movement that takes the axes of a source of some rank in this order.

    ``None`` when it takes several: a Squeeze, a Transpose and an Unsqueeze are always enough. A new
    axis in the place of a removed one is that axis, as both have size 1.
    """
    if [*range(rank)] == [place if axis == NEW else axis for place, axis in enumerate(axes)]:
        return "", []
    kept = [axis for axis in axes if axis != NEW]
    steps = (
        ("Squeeze", [axis for axis in range(rank) if axis not in kept]),
        ("Transpose", kept if kept != sorted(kept) else []),
        ("Unsqueeze", [place for place, axis in enumerate(axes) if axis == NEW]),
    )
    movements = [(op_type, numbers) for op_type, numbers in steps if numbers]
    return movements[0] if len(movements) == 1 else None


@dataclass(frozen=True)
class Rearrangement:
    """Where the axes of a tensor come from.

    Attributes:
        source: for each axis of the source, its factors, outermost first: numbers that rise from
            the first to the last. An axis of size 1 has none.
        result: for each axis of the result, its factors.
        sizes: size of each factor.
    """

    source: list[list[int]]
    result: list[list[int]]
    sizes: list[Dim]


def follow(shape: Shape, chain: Sequence[tuple[list[int] | None, Shape]]) -> Rearrangement | None:
    """The rearrangement that a chain makes; ``None`` when some axes have no known common factors.

    The chain lists for each node its permutation, ``None`` unless it is a Transpose, and the shape
    of its result.
    """
    factors: list[Dim] = []
    groups: list[list[_Factor]] = []
    whole: list[_Factor] = []
    for dim in shape:
        groups.append([] if dim == 1 else [_Factor(dim)])
        whole += groups[-1]
    source = [list(group) for group in groups]
    for perm, dims in chain:
        if perm is not None:
            groups = [groups[axis] for axis in perm]
            continue
        regrouped = _regroup([leaf for group in groups for f in group for leaf in f.leaves()], dims)
        if regrouped is None:
            return None
        groups = regrouped
    leaves = [leaf for factor in whole for leaf in factor.leaves()]
    number = {id(leaf): position for position, leaf in enumerate(leaves)}
    factors = [leaf.size for leaf in leaves]

    def numbers(axis: list[_Factor]) -> list[int]:
        return [number[id(leaf)] for factor in axis for leaf in factor.leaves()]

    return Rearrangement(
        [numbers(axis) for axis in source], [numbers(axis) for axis in groups], factors
    )


class _Factor:
    """A factor that may be split in two later on."""

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
    """The factors, in order, as the axes of another shape.

    One that belongs to two axes is split.
    """
    rest = factors[::-1]
    groups: list[list[_Factor]] = []
    for dim in dims:
        group: list[_Factor] = []
        need = dim
        while need != 1:
            if not rest or need == 0 or rest[-1].size == 0:
                return None
            factor = rest.pop()
            quotient = exact_quotient(need, factor.size)
            if quotient is None:
                inner = exact_quotient(factor.size, need)
                if inner is None:
                    return None
                factor.parts = _Factor(need), _Factor(inner)
                factor, remainder = factor.parts
                rest.append(remainder)
                quotient = 1
            group.append(factor)
            need = quotient
        groups.append(group)
    return None if rest else groups


@dataclass(frozen=True)
class MovementPlan:
    """The fewest nodes for a rearrangement: Reshape to ``before``, Transpose by ``perm``, Reshape
    to the result.

    Attributes:
        before: shape to permute, ``None`` for the shape of the source.
        perm: permutation, ``None`` for none.
        after: whether the result has another shape than the permuted tensor.
    """

    before: Shape | None
    perm: list[int] | None
    after: bool

    @property
    def nodes(self) -> int:
        """Number of nodes."""
        return (self.before is not None) + (self.perm is not None) + self.after


def plans(moved: Rearrangement, source: Shape, result: Shape, most: int) -> list[MovementPlan]:
    """Ways to do a rearrangement with at most this many nodes, the shortest first.

    Of two ways of equal length, which take equally long, the one that reshapes first comes first:
    exporters split heads before they move them, so that layers that were shortened and layers that
    were not are alike.
    """
    order = [factor for axis in moved.result for factor in axis]
    if order == sorted(order):
        return [MovementPlan(None, None, source != result)]
    candidates = []
    direct = _units(moved.source, order)
    if direct is not None:
        perm = _with_ones(direct, [i for i, axis in enumerate(moved.source) if not axis], result)
        candidates.append(MovementPlan(None, perm, tuple(source[axis] for axis in perm) != result))
    inverse = _units(moved.result, range(len(moved.sizes))) if most > 1 else None
    if inverse is not None:
        unit_order = _with_ones(
            inverse, [i for i, axis in enumerate(moved.result) if not axis], source
        )
        before = tuple(result[axis] for axis in unit_order)
        perm = [unit_order.index(axis) for axis in range(len(result))]
        candidates.append(MovementPlan(before if before != source else None, perm, after=False))
    if most > 2:
        starts = _blocks(order)
        blocks = sorted(starts)
        before = tuple(
            product(moved.sizes[f] for f in range(first, last)) for first, last in blocks
        )
        candidates.append(
            MovementPlan(before, [blocks.index(block) for block in starts], after=True)
        )
    candidates = [plan for plan in candidates if plan.nodes <= most]
    return sorted(candidates, key=lambda plan: (plan.nodes, plan.after, len(plan.perm or ())))


def _units(axes: Sequence[Sequence[int]], order: Sequence[int]) -> list[int] | None:
    """The order of axes that puts their factors in the given order; ``None`` if none does without
    splitting an axis.
    """
    owner = {factor: axis for axis, factors in enumerate(axes) for factor in factors}
    units = list(dict.fromkeys(owner[factor] for factor in order))
    return units if [factor for axis in units for factor in axes[axis]] == list(order) else None


def _with_ones(units: list[int], ones: list[int], wanted: Shape) -> list[int]:
    """Axes of size 1 put where the wanted shape has them, if it has as many; in front otherwise."""
    if sum(dim == 1 for dim in wanted) != len(ones) or len(wanted) != len(units) + len(ones):
        return ones + units
    rest, free = iter(units), iter(ones)
    return [next(free) if dim == 1 else next(rest) for dim in wanted]


def _blocks(order: Sequence[int]) -> list[tuple[int, int]]:
    """Runs of factors that stay together, as (first, end), in the order of the result."""
    blocks: list[tuple[int, int]] = []
    for factor in order:
        if blocks and blocks[-1][1] == factor:
            blocks[-1] = (blocks[-1][0], factor + 1)
        else:
            blocks.append((factor, factor + 1))
    return blocks


def may_be_one(g: GraphView, moves: Sequence[Node], source: Shape, result: Shape) -> bool:
    """A quick test whether one node might do: a Transpose keeps the number of axes other than 1, a
    Reshape their order.
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
    """The operand that a chain of movements goes through; ``None`` when a node is not part of one.

    It is the first operand of a movement or of an elementwise operator, and the tensor of an
    operator that combines a tensor with a number.
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
    place = numbers.index(False)
    return place if g.same_shape(node.input[place], node.output[0]) else None


class Link(NamedTuple):
    """A node of a chain and the operand that the chain goes through."""

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


def chain_above(g: GraphView, node: Node, most: int) -> list[Link]:
    """The chain of movements and elementwise operators that ends at a movement and begins at one.

    Nothing else reads the results in between. All shapes are known, and hold even where a size is 0
    at run time. The number of movements is limited, so that the time a graph takes stays
    proportional to its size.
    """
    chain: list[Link] = []
    here: Node | None = node
    count = end = 0
    while here is not None and count < most:
        place = main_operand(g, here)
        if place is None or not g.has_shape(here.input[place]) or not g.has_shape(here.output[0]):
            break
        if (chain and not g.is_exclusive(here.output[0])) or not reshapes_as_inferred(g, here):
            break
        chain.append(Link(here, place))
        if chain[-1].moves:
            count, end = count + 1, len(chain)
        here = g.node_before(chain[-1].source)
    return chain[:end][::-1]


def may_come_first(g: GraphView, chain: Sequence[Link], rank: int) -> bool:
    """Whether the operators of a chain that work on each element alone keep the shape of a tensor
    of this rank.

    A number stored with more axes than the tensor has would give it more.
    """
    numbers = (
        name
        for link in chain
        if not link.moves
        for name in link.node.input
        if name and name != link.source
    )
    return all((axes := g.info(name).rank) is not None and axes <= rank for name in numbers)
