"""Write groups as stacks: one node on operands that have the lanes as their first axis."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import reduce
from itertools import groupby, pairwise
from typing import Any, Final

import numpy as np
from onnx import TensorProto

from xoptim.graph.edit import Edit
from xoptim.graph.graph import Graph
from xoptim.graph.model import Model
from xoptim.graph.node import Node
from xoptim.graph.tensors import Tensor
from xoptim.match import GraphView
from xoptim.match.axes import parameters
from xoptim.match.create import OpBuilder
from xoptim.operators.registry import axes_of
from xoptim.passes.repeated.groups import LANE, Group, is_parameter

LARGEST: Final = 1 << 29
"""Bytes of stacked weights that a model may have: beyond that, weights in external files are left
where they are.
"""


class StackedTensor(Tensor):
    """Weights of several lanes: a copy, which is counted."""

    __slots__ = ()


def store_stack(edit: Edit, array: np.ndarray) -> str:
    """Add stacked weights to an edit; returns their name."""
    name = edit.names.fresh("stacked")
    edit.add_initializer(name, StackedTensor(array))
    return name


def stacked_bytes(model: Model) -> int:
    """Bytes of the stacked weights of a model, which earlier runs of the passes have made too."""
    tensors = (tensor for graph in model.graphs() for tensor in graph.initializers.values())
    return sum(tensor.nbytes for tensor in tensors if isinstance(tensor, StackedTensor))


_FEW: Final = 3
"""Up to this many values, an Unsqueeze for each of them takes as many nodes as joining them along
an axis.
"""
Written = tuple[str, int | None]
"""An operand of a stack: its name, and the rank of each lane, ``None`` when all lanes read the same
tensor.
"""


class StackWriter:
    """Makes the nodes of stacks in an edit."""

    def __init__(self, graph: Graph, edit: Edit) -> None:
        self.graph = graph
        self.edit = edit
        self.op: Any = OpBuilder(lambda: edit, lambda edit, node: edit.collect(node))
        self._lane: dict[str, tuple[str, int]] = {}  # the stack and the lane of each result
        self._size: dict[str, int] = {}  # the number of lanes of each stack
        self._columns: dict[tuple[str, ...], str] = {}
        self._alone: set[str] = set()  # lanes that are results by themselves too

    def write(self, group: Group) -> None:
        """Write a group whose operands outside of it are written."""
        written = _RULES.get(group.first.op_type, _alike)(self, group, self._operands(group))
        stacks = [written] if isinstance(written, str) else written
        self._size.update(dict.fromkeys(stacks, len(group)))
        self._lane.update(
            (name, (stacks[place], lane)) for name, (place, lane) in group.lane.items()
        )

    def _operands(self, group: Group) -> list[Written]:
        kind, columns = group.first.op_type, group.columns
        if kind == "Add" and len(columns) > 2:
            return self._terms(columns)
        is_stack = kind == "Concat"  # it does not broadcast
        return [
            (
                (names[0], None)
                if is_parameter(group.first, place) or not names[0]
                else self._operand(names, is_stack)
            )
            for place, names in enumerate(columns)
            if kind != "Gemm" or place != 1  # its weights are written in another form
        ]

    def _operand(self, names: Sequence[str], is_stack: bool) -> Written:
        if len(set(names)) == 1 and not is_stack:
            return self.alone(names[0]), None
        return self.column(names), self.rank(names[0])

    def _terms(self, terms: Sequence[tuple[str, ...]]) -> list[Written]:
        """The terms of sums; those that are lanes of one stack are added up."""
        columns: dict[str, list[tuple[str, ...]]] = {}
        for names in terms:
            stack, *others = {self._lane[name][0] if name in self._lane else "" for name in names}
            columns.setdefault("" if others else stack, []).append(names)
        found: list[Written] = []
        for stack, each in columns.items():
            total = self._reduced(stack, each) if stack and len(each) > 2 else ""
            found += (
                [(total, self.rank(each[0][0]))]
                if total
                else [self._operand(names, False) for names in each]
            )
        return found

    def _reduced(self, stack: str, columns: Sequence[Sequence[str]]) -> str:
        """The sum of several selections from a stack, with as many lanes each.

        "" if it cannot be written.
        """
        target = _target(self.graph, columns[0][0])
        if target is None:
            return ""
        lanes = self._selected(
            stack, [self._lane[name][1] for names in columns for name in names], self._size[stack]
        )
        split = self.op.Reshape(lanes, np.array([len(columns), len(columns[0]), *target], np.int64))
        return str(self.op.ReduceSum(split, axes=[0], keepdims=0))

    def rank(self, name: str) -> int:
        """Number of axes of a tensor of the graph before the rewrite."""
        return len(self.graph.info_of(name).shape or ())

    def join(self, node: Node) -> bool:
        """Write a node that reads lanes of one stack only as one that reads the stack, if there is
        an operator for it.
        """
        stack, *others = {self._lane[name][0] if name in self._lane else "" for name in node.input}
        rule = None if node.domain else JOINING.get(node.op_type)
        if rule is None or not stack or others or len(node.input) < 2:
            return False
        result = rule(
            self,
            node,
            self._selected(stack, [self._lane[name][1] for name in node.input], self._size[stack]),
        )
        self.op.Identity(result, outputs=list(node.output))
        return True

    def add_up(self, node: Node, terms: Sequence[str]) -> None:
        """Write a sum whose terms that are lanes are written: lanes of one stack are reduced, other
        terms are added to them.
        """
        lanes: dict[str, list[int]] = {}
        for stack, lane in (self._lane[name] for name in terms if name in self._lane):
            lanes.setdefault(stack, []).append(lane)
        parts = [
            self.op.ReduceSum(
                self._selected(stack, sorted(index), self._size[stack]), axes=[0], keepdims=0
            )
            for stack, index in lanes.items()
            if len(index) > 1
        ]
        parts += [
            self.alone(name)
            for name in terms
            if len(lanes.get(self._lane.get(name, ("", 0))[0], ())) < 2
        ]
        self.op.Identity(reduce(self.op.Add, parts), outputs=list(node.output))

    def lay_out(self, node: Node) -> None:
        """Write a Concat: lanes side by side in a row are parts of one stack, other values stay as
        they are.
        """
        parts: list[str] = []
        for run in runs(node.input, lambda name: self._lane.get(name, ("",))[0]):
            joins = run[0] in self._lane and is_joined(run, node.input)
            target = _joined_target(self.graph, node, run) if joins else None
            parts += [self._side_by_side(run, *target)] if target else map(self.alone, run)
        self.op.Identity(
            parts[0] if len(parts) == 1 else self.op.Concat(*parts, **node.attribute),
            outputs=list(node.output),
        )

    def _side_by_side(self, names: Sequence[str], shape: Sequence[int], axis: int) -> str:
        """Lanes of one stack along an axis: the axis of the lanes comes before it, and is merged
        with it.
        """
        stack = self._lane[names[0]][0]
        stack = self._selected(stack, [self._lane[name][1] for name in names], self._size[stack])
        if axis:
            stack = self.op.Transpose(
                stack, perm=[*range(1, axis + 1), 0, *range(axis + 1, len(shape) + 1)]
            )
        return str(self.op.Reshape(stack, np.array(shape, np.int64)))

    def alone(self, name: str) -> str:
        """The value of one lane under its own name, or a value that is not part of a stack."""
        if name in self._lane and name not in self._alone:
            stack, lane = self._lane[name]
            self._alone.add(name)
            self.op.Gather(stack, np.array(lane, np.int64), axis=0, outputs=[name])
        return name

    def column(self, names: Sequence[str]) -> str:
        """The stack of several values, each one lane: what the lanes of a stack read, by its fold
        index.
        """
        key = tuple(names)
        if key not in self._columns:
            self._columns[key] = self._stacked(key)
        return self._columns[key]

    def _stacked(self, names: tuple[str, ...]) -> str:
        if all(self.graph.tensor(name) is not None for name in names):
            return self.stored(names)
        # where the lanes of a stack, or a single value, begin when all are joined
        sources: dict[str, int] = {}
        size = 0
        index = []
        for name in names:
            stack, lane = self._lane.get(name, (name, 0))
            if stack not in sources:
                sources[stack] = size
                size += self._size.get(stack, 1)
            index.append(sources[stack] + lane)
        return self._selected(self._joined(list(sources)), index, size)

    def _joined(self, sources: Sequence[str]) -> str:
        """Stacks, and single values as stacks of one lane, one after the other."""
        if (
            len(sources) > _FEW
            and self._size.keys().isdisjoint(sources)
            and (stack := self._joined_along_the_last(sources))
        ):
            return stack
        parts = [
            each if each in self._size else self.op.Unsqueeze(each, axes=[0]) for each in sources
        ]
        return str(parts[0] if len(parts) == 1 else self.op.Concat(*parts, axis=0))

    def _joined_along_the_last(self, names: Sequence[str]) -> str:
        """Values joined along their last axis, whose parts then come first: three nodes for any
        number; "" where it is open.
        """
        *_, last = self.graph.info_of(names[0]).shape or ("",)
        if not isinstance(last, int) or not last:
            return ""
        rank = self.rank(names[0])
        joined = self._whole(names) or self.op.Concat(*names, axis=-1)
        # A 0 copies the size at its own place.
        split = self.op.Reshape(joined, np.array([0] * (rank - 1) + [len(names), last], np.int64))
        return str(
            self.op.Transpose(split, perm=[rank - 1, *range(rank - 1), rank]) if rank > 1 else split
        )

    def _whole(self, names: Sequence[str]) -> str:
        """The value whose parts along the last axis are these; "" if there is none."""
        split = self.graph.producer(names[0])
        if (
            split is None
            or split.op_type != "Split"
            or split.domain
            or tuple(split.output) != tuple(names)
        ):
            return ""
        is_last = split.get_attribute("axis") in (-1, self.rank(names[0]) - 1)
        return self.alone(split.input[0]) if is_last else ""

    def _selected(self, stack: str, index: Sequence[int], size: int) -> str:
        """Some lanes of a stack: all of them, a slice, or a selection."""
        steps = {b - a for a, b in pairwise(index)}
        if list(index) == list(range(size)):
            return stack
        if len(steps) == 1 and (step := steps.pop()) > 0:
            return str(self.op.Slice(stack, [index[0]], [index[-1] + 1], [0], [step]))
        return str(self.op.Gather(stack, np.array(index, np.int64), axis=0))

    def stored(
        self, names: Sequence[str], form: Callable[[np.ndarray], np.ndarray] = np.asarray
    ) -> str:
        """The stack of stored tensors in some form.

        One that several lanes read is stored once, and selected for each of them.

        Folding selects ahead of time where the model has room for the copies.
        """
        places = {name: place for place, name in enumerate(dict.fromkeys(names))}
        stack = store_stack(self.edit, np.stack([form(self.array(name)) for name in places]))
        return self._selected(stack, [places[name] for name in names], len(places))

    def array(self, name: str) -> np.ndarray:
        """The numbers of a stored tensor."""
        tensor = self.graph.tensor(name)
        assert tensor is not None
        return tensor.numpy()

    def aligned(self, operand: Written, rank: int) -> str:
        """An operand whose lanes have a given rank: axes of size 1 come first in each lane, as
        broadcasting adds them.
        """
        name, own = operand
        if own is None or own == rank:
            return name
        stored = self.edit.initializers.get(name)
        if stored is not None:
            return store_stack(
                self.edit,
                stored.numpy().reshape(stored.shape[0], *[1] * (rank - own), *stored.shape[1:]),
            )
        return str(self.op.Unsqueeze(name, axes=list(range(1, rank - own + 1))))


def _target(graph: Graph, name: str) -> list[int] | None:
    """The shape of a result as Reshape takes it.

    ``None`` if more than one of its sizes is open, or one is 0.
    """
    shape = graph.info_of(name).shape
    if shape is None or sum(not isinstance(size, int) for size in shape) > 1 or 0 in shape:
        return None
    return [size if isinstance(size, int) else -1 for size in shape]


def _joined_target(graph: Graph, node: Node, run: Sequence[str]) -> tuple[list[int], int] | None:
    """The shape of lanes of a stack side by side in a Concat, as Reshape takes it, and the axis.

    ``None`` as for `_target`.
    """
    target = _target(graph, run[0])
    if target is None:
        return None
    axis = node.get_attribute("axis") % len(target)
    target[axis] = max(len(run) * target[axis], -1)
    return target, axis


def _alike(writer: StackWriter, group: Group, operands: Sequence[Written]) -> str | Sequence[str]:
    """The node with the axis of lanes in front of all others.

    Operands with fewer axes are aligned with the last ones.
    """
    node, view = group.first, GraphView(writer.graph)
    axes = axes_of(view, node)
    assert axes is not None
    stacked = axes.inserted(LANE)
    assert stacked is not None
    inputs: list[Any] = [
        (
            writer.aligned(operand, len(axes.results[0]))
            if known is not None and known.broadcasts
            else operand[0]
        )
        for operand, known in zip(operands, axes.operands, strict=True)
    ]
    attributes, sizes = (
        dict(node.attribute),
        {LANE: len(group)} if node.op_type == "Reshape" else {},
    )
    for key, value in parameters(view, node, stacked, sizes).items():
        if isinstance(key, str):
            attributes[key] = value
        else:
            inputs[key:] = [*[""] * (key - len(inputs)), value, *inputs[key + 1 :]]
    found: str | Sequence[str] = getattr(writer.op, node.op_type)(
        *inputs, outputs=len(node.output), **attributes
    )
    return found


def _add(writer: StackWriter, group: Group, operands: Sequence[Written]) -> str:
    """Stacks that are added up, two or more."""
    rank = writer.rank(group.first.output[0])
    return str(reduce(writer.op.Add, (writer.aligned(operand, rank) for operand in operands)))


def _plus(writer: StackWriter, name: str, bias: Sequence[Written], rank: int) -> str:
    """A stack plus an operand that may be omitted."""
    return str(writer.op.Add(name, writer.aligned(bias[0], rank))) if bias and bias[0][0] else name


def _gemm(writer: StackWriter, group: Group, operands: Sequence[Written]) -> str:
    """A MatMul, plus the third operand."""
    form = np.transpose if group.first.get_attribute("transB") else np.asarray
    names = group.columns[1]
    weights = form(writer.array(names[0])) if len(set(names)) == 1 else writer.stored(names, form)
    return _plus(writer, writer.op.MatMul(operands[0][0], weights), operands[1:], 2)


def _gather(writer: StackWriter, group: Group, operands: Sequence[Written]) -> str:
    (table, own), (index, lanes) = operands
    if own is None:
        return str(writer.op.Gather(table, index, axis=0))
    if lanes is None:
        return str(writer.op.Gather(table, index, axis=1))
    index = writer.op.Cast(index, to=TensorProto.INT64)  # a Cast to the same type is removed
    return str(writer.op.GatherND(table, writer.op.Unsqueeze(index, axes=[-1]), batch_dims=1))


def _normalization(writer: StackWriter, group: Group, operands: Sequence[Written]) -> str:
    """LayerNormalization of the last axis.

    Scales that differ are multiplied afterwards: the operator takes one for all.
    """
    rank = writer.rank(group.first.input[0])
    attributes = {**group.first.attribute, "axis": -1}
    if all(own is None for _, own in operands[1:]):
        return str(writer.op.LayerNormalization(*(name for name, _ in operands), **attributes))
    y = writer.op.LayerNormalization(
        operands[0][0], np.ones_like(writer.array(group.first.input[1])), **attributes
    )
    y = writer.op.Mul(y, writer.aligned(operands[1], rank))
    return _plus(writer, y, operands[2:], rank)


def _mean(writer: StackWriter, node: Node, stack: str) -> str:
    return str(writer.op.ReduceMean(stack, axes=[0], keepdims=0))


JOINING: Final[Mapping[str, Callable[[StackWriter, Node, str], str]]] = {"Mean": _mean}
"""Operators that read lanes of one stack only."""


def runs(names: Sequence[str], stack_of: Callable[[str], Hashable]) -> list[list[str]]:
    """Values in a row that are lanes of one stack.

    ``stack_of`` returns a false value for others, which may be in a row too.
    """
    return [list(run) for _, run in groupby(names, stack_of)]


def is_joined(run: Sequence[str], names: Sequence[str]) -> bool:
    """Whether lanes in a row among the operands of a Concat are joined as a part of their stack:
    two nodes for any number.
    """
    return len(run) > 2 or 1 < len(run) == len(names)


def can_lay_out(graph: Graph, node: Node, stack_of: Callable[[str], Hashable]) -> bool:
    """Whether a Concat reads lanes of stacks that can be joined as parts of them."""
    if node.domain or node.op_type != "Concat":
        return False
    joined = (
        run for run in runs(node.input, stack_of) if stack_of(run[0]) and is_joined(run, node.input)
    )
    return any(_joined_target(graph, node, run) is not None for run in joined)


_Rule = Callable[[StackWriter, Group, Sequence[Written]], "str | Sequence[str]"]
_RULES: Final[Mapping[str, _Rule]] = {
    "Add": _add,
    "Gather": _gather,
    "Gemm": _gemm,
    "LayerNormalization": _normalization,
}
"""Operators whose stacks are not the operator with one axis more."""
