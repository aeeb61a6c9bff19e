"""The axes of operands from which the axes of results come, and the changes of a node when axes are
permuted, inserted, dropped, split or cut.

Each operator is described once. An axis of a result has a label, a number, which the axes of
operands that it comes from also have. The labels determine all changes: operands are permuted like
the result, a slice of a result needs the same slice of each operand that is not read completely,
and parameters such as ``axis`` name labels. The batching rules of JAX and the indexing maps of MLIR
are similar descriptions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np

from xoptim.facts.attributes import ARG_REDUCTIONS
from xoptim.facts.dims import Dim
from xoptim.facts.shapes import Info, Shape
from xoptim.operators.protocols import NodeView

Labels = tuple[int, ...]


class AxisOperand(NamedTuple):
    """The axes of an operand."""

    labels: Labels  # one for each axis
    # labels of the axes along which an element of the result may read any position
    whole: frozenset[int] = frozenset()
    # whether it may have fewer axes than the result: its axes are the last ones then
    broadcasts: bool = False
    # whether axes that are inserted into the result are not inserted here, such as into indices
    is_apart: bool = False


class Numbers(NamedTuple):
    """A parameter with a number, or a pair such as begin and end, for each axis of the result."""

    entries: Mapping[int, Any]  # the numbers, by label
    kept: Any  # the number of an axis that keeps its size
    dtype: Any = np.int64  # element type


@dataclass(frozen=True)
class Axes:
    """The axes of operands from which the axes of the results of a node come."""

    # The axes of each operand; ``None`` for a scalar, a parameter, or an operand that is omitted
    operands: tuple[AxisOperand | None, ...]
    results: tuple[Labels, ...]  # the labels of each result
    last: int = 0  # this many of the last axes of the results must stay the last ones
    swaps: bool = False  # whether the last two may change places if the two operands do
    # axes of the results that replace an axis of the first operand
    blocks: Mapping[int, Labels] = field(default_factory=dict)
    # Parameters that name axes of the first operand, or of the result if only the result has them;
    # a set if their order does not matter
    names: Mapping[str, int | Labels | frozenset[int]] = field(default_factory=dict)
    # Parameters with numbers for axes, by name, or by place if they are operands
    numbers: Mapping[str | int, Numbers] = field(default_factory=dict)

    @property
    def fixed(self) -> Labels:
        """The labels of the axes that must stay the last ones."""
        return self.results[0][len(self.results[0]) - self.last :]

    def reordered(self, order: Labels) -> Axes | None:
        """The description with the axes of one operand or result in another order.

        ``None`` if the node cannot be written so.
        """
        tail = order[len(order) - self.last :]
        if tail != self.fixed and not (self.swaps and tail == self.fixed[::-1]):
            return None
        if self.swaps and any(
            operand is None or len(operand.labels) != len(order) for operand in self.operands
        ):
            return None
        order = tuple(axis for label in order for axis in (label, *self.blocks.get(label, ())))
        operands = [operand for operand in self.operands if operand]
        if operands[0].is_apart or not all(
            {label for label in operand.labels if label >= 0} <= {*order}
            for operand in operands
            if not operand.is_apart
        ):
            return None

        def sort(labels: Labels) -> Labels:
            result = [label for label in order if label in labels]
            for place, label in enumerate(labels):
                # a label that is not in the order keeps its position, but does not become the
                # last: broadcasting along the last axis is slow
                if label not in result:
                    result.insert(min(place, len(result) - 1), label)
            return tuple(result)

        return self._with(sort)

    def inserted(self, new: int, before: int | None = None) -> Axes | None:
        """The description with a new axis before another one, or before all.

        ``None`` if the node cannot be written so.
        """
        changing = [operand.labels for operand in self.operands if operand and not operand.is_apart]
        if (
            not changing
            or before in self.fixed[1:]
            or not (before is None or any(before in labels for labels in changing))
        ):
            return None

        def insert(labels: Labels) -> Labels:
            if before is None:
                return (new, *labels)
            return tuple(
                axis for label in labels for axis in ((new, label) if label == before else (label,))
            )

        return self._with(insert, changes_apart=False)

    def replaced(self, replacing: Mapping[int, Labels]) -> Axes:
        """The description with some axes replaced, each by any number of axes."""
        return self._with(
            lambda labels: tuple(
                axis for label in labels for axis in replacing.get(label, (label,))
            )
        )

    def _with(self, change: Callable[[Labels], Labels], changes_apart: bool = True) -> Axes:
        operands = (
            (
                operand._replace(labels=change(operand.labels))
                if operand and (changes_apart or not operand.is_apart)
                else operand
            )
            for operand in self.operands
        )
        return replace(self, operands=tuple(operands), results=tuple(map(change, self.results)))

    def parts(
        self, shapes: Sequence[Shape | None], label: int, size: Dim, drops: bool = False
    ) -> dict[int, int] | None:
        """The axis to cut in each operand, by index, when axis ``label`` of the results is cut.

        ``size`` is the size of that axis in the results; with ``drops``, one position is left and
        the axis dropped. ``None`` if the results need more than these slices, or no operand is cut.
        """
        if drops and (label in self.fixed or label in self.names.values()):
            return None
        longest = max(
            (
                len(operand.labels)
                for operand in self.operands
                if operand and min(operand.labels, default=0) < 0
            ),
            default=0,
        )
        # A scale with leading axes of size 1 (negative labels) would exceed the rank of the result.
        if drops and longest >= len(self.results[0]):
            return None
        axes: dict[int, int] = {}
        for place, operand in enumerate(self.operands):
            if operand is None or label not in operand.labels:
                continue
            axis, shape = operand.labels.index(label), shapes[place]
            dim = None if shape is None else shape[axis]
            if label in operand.whole:
                if drops:
                    return None
            elif dim == size:
                axes[place] = axis
            elif drops or dim != 1:
                return None
        return axes or None


class AxesView(Protocol):
    """The graph that a description reads."""

    def info(self, name: str) -> Info:
        """All facts about a result."""

    def try_infer_shape(self, name: str) -> Shape | None:
        """Shape of a result, ``None`` when unknown."""

    def get_argument(self, node: Any, name: str) -> Any:
        """An attribute that may have become an operand: a list, a number, ``None`` when absent, or
        something else when it is computed at run time.
        """

    def get_ints(self, name: str) -> list[int] | None:
        """Elements of a constant integer tensor, flattened, ``None`` for another tensor."""

    def get_computed_constant(self, name: str) -> np.ndarray | None:
        """The value of a constant, ``None`` for another tensor."""


Shapes: TypeAlias = Sequence[Shape]
AxesRule: TypeAlias = Callable[[Any, Any, Shapes], Axes | None]
"""Takes an `AxesView`, a `NodeView` and the shapes of its operands."""


def axis_of(g: AxesView, node: NodeView) -> int | None:
    """The attribute ``axis`` of a node, or its default, counted from the front.

    ``None`` when it is not known.
    """
    axis = node.get_attribute("axis")
    rank = g.info(node.input[0]).rank
    if not isinstance(axis, int) or (axis < 0 and rank is None):
        return None
    return axis if axis >= 0 or rank is None else axis + rank


def permutation(g: AxesView, node: NodeView) -> list[int] | None:
    """The permutation of a Transpose, the default included.

    ``None`` for another node or an unknown rank.
    """
    if node.op_type != "Transpose":
        return None
    rank = g.info(node.input[0]).rank
    perm = node.get_attribute("perm")
    return list(range(rank))[::-1] if perm is None and rank is not None else perm


def reduced_axes(g: AxesView, node: NodeView) -> set[int] | None:
    """The axes that a reduction reduces, counted from the front.

    ``None`` when they or the rank are not known.
    """
    rank = g.info(node.input[0]).rank
    if rank is None:
        return None
    if node.op_type in ARG_REDUCTIONS:
        axis = axis_of(g, node)
        return None if axis is None else {axis}
    if g.get_argument(node, "axes") in (None, []):
        return set() if node.attribute.get("noop_with_empty_axes") else set(range(rank))
    axes = named_axes(g, node, rank)
    return None if axes is None else set(axes)


def named_axes(g: AxesView, node: NodeView, rank: int) -> Labels | None:
    """The parameter ``axes``, counted from the front of a tensor of this rank.

    ``None`` if it is not known.
    """
    axes = g.get_argument(node, "axes")
    if not isinstance(axes, list) or not all(-rank <= axis < rank for axis in axes):
        return None
    return tuple(axis % rank for axis in axes)


def label_range(count: int, end: int | None = None) -> Labels:
    """``count`` labels that end before ``end``."""
    return tuple(range(count) if end is None else range(end - count, end))


def axis_within(g: AxesView, node: NodeView, rank: int) -> int | None:
    """The attribute ``axis``, if it is an axis of a tensor of this rank."""
    axis = axis_of(g, node)
    return axis if axis is not None and 0 <= axis < rank else None


def axes_of_first(
    node: NodeView,
    shapes: Shapes,
    result: Labels | None = None,
    whole: Iterable[int] = (),
    **more: Any,
) -> Axes:
    """The axes of a node with one operand besides its parameters.

    By default the results have the axes of the operand.
    """
    labels = label_range(len(shapes[0]))
    results = (labels if result is None else result,) * len(node.output)
    return Axes(
        (AxisOperand(labels, frozenset(whole)), *[None] * (len(shapes) - 1)), results, **more
    )


def axes_mixed(
    node: NodeView,
    shapes: Shapes,
    axes: Labels | None,
    names: Mapping[str, Any],
    drops: bool = False,
) -> Axes | None:
    """The axes of a node that mixes the elements along some axes of its first operand.

    ``names`` are the parameters that name these axes; ``drops``: whether the result lacks them.
    """
    rank = len(shapes[0])
    if axes is None or not {*axes} <= {*range(rank)}:
        return None
    result = tuple(axis for axis in range(rank) if not drops or axis not in axes)
    return axes_of_first(node, shapes, result, axes, names=names)


def mixed_along_axis(g: AxesView, node: NodeView, shapes: Shapes) -> Axes | None:
    """Operators that mix elements along their attribute ``axis``."""
    axis = axis_of(g, node)
    return None if axis is None else axes_mixed(node, shapes, (axis,), {"axis": axis})


def unchanged_axes(_g: AxesView, node: NodeView, shapes: Shapes) -> Axes:
    """Operators whose results have the axes of the first operand."""
    return axes_of_first(node, shapes)
