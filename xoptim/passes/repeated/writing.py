"""Write groups as stacks: one node on operands whose first axis has the lanes."""

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
"""Maximal bytes of stacked weights in a model: these are copies, of external data as well."""


class StackedTensor(Tensor):
    """A copy of the weights of several lanes, which `stacked_bytes` counts."""

    __slots__ = ()


def store_stack(edit: Edit, array: np.ndarray) -> str:
    """Add stacked weights to an edit; returns their name."""
    name = edit.names.fresh("stacked")
    edit.add_initializer(name, StackedTensor(array))
    return name


def stacked_bytes(model: Model) -> int:
    """Bytes of the stacked weights of a model, those of earlier passes included."""
    tensors = (tensor for graph in model.graphs() for tensor in graph.initializers.values())
    return sum(tensor.nbytes for tensor in tensors if isinstance(tensor, StackedTensor))


_MAX_UNSQUEEZES: Final = 3
"""For more values, concatenating them along their last axis takes fewer nodes than Unsqueezes."""
StackOperand = tuple[str, int | None]
"""An operand of a stack: its name, and the rank of each lane, ``None`` when all lanes read the same
tensor.
"""


class StackWriter:
    """Creates the nodes of stacks in an edit."""

    def __init__(self, graph: Graph, edit: Edit) -> None:
        self.graph = graph
        self.edit = edit
        self.op: Any = OpBuilder(lambda: edit, lambda edit, node: edit.collect(node))
        self._lane: dict[str, tuple[str, int]] = {}  # the stack and the lane of each result
        self._size: dict[str, int] = {}  # the number of lanes of each stack
        self._columns: dict[tuple[str, ...], str] = {}
        self._alone: set[str] = set()  # lanes that have a node of their own as well

    def write(self, group: Group) -> None:
        """Write a group; the stacks that it reads are written before."""
        results = _RULES.get(group.first.op_type, _batched)(self, group, self._operands(group))
        stacks = [results] if isinstance(results, str) else results
        self._size.update(dict.fromkeys(stacks, len(group)))
        self._lane.update(
            (name, (stacks[place], lane)) for name, (place, lane) in group.lane.items()
        )

    def _operands(self, group: Group) -> list[StackOperand]:
        kind, columns = group.first.op_type, group.columns
        if kind == "Add" and len(columns) > 2:
            return self._terms(columns)
        is_stack = kind == "Concat"  # a Concat does not broadcast
        return [
            (
                (names[0], None)
                if is_parameter(group.first, place) or not names[0]
                else self._operand(names, is_stack)
            )
            for place, names in enumerate(columns)
            if kind != "Gemm" or place != 1  # `_gemm` writes the weights
        ]

    def _operand(self, names: Sequence[str], is_stack: bool) -> StackOperand:
        if len(set(names)) == 1 and not is_stack:
            return self.alone(names[0]), None
        return self.column(names), self.rank(names[0])

    def _terms(self, terms: Sequence[tuple[str, ...]]) -> list[StackOperand]:
        """The terms of sums; those that are lanes of one stack are added up."""
        columns: dict[str, list[tuple[str, ...]]] = {}
        for names in terms:
            stacks = {self._lane[name][0] if name in self._lane else "" for name in names}
            columns.setdefault("" if len(stacks) > 1 else stacks.pop(), []).append(names)
        operands: list[StackOperand] = []
        for stack, selections in columns.items():
            total = self._reduce(stack, selections) if stack and len(selections) > 2 else ""
            operands += (
                [(total, self.rank(selections[0][0]))]
                if total
                else [self._operand(names, False) for names in selections]
            )
        return operands

    def _reduce(self, stack: str, columns: Sequence[Sequence[str]]) -> str:
        """The sum of several selections of equally many lanes, "" if it cannot be written."""
        target = _target(self.graph, columns[0][0])
        if target is None:
            return ""
        lanes = self._select(
            stack, [self._lane[name][1] for names in columns for name in names], self._size[stack]
        )
        split = self.op.Reshape(lanes, np.array([len(columns), len(columns[0]), *target], np.int64))
        return str(self.op.ReduceSum(split, axes=[0], keepdims=0))

    def rank(self, name: str) -> int:
        """The rank of a tensor of the original graph."""
        return len(self.graph.info_of(name).shape or ())

    def join(self, node: Node) -> bool:
        """Write a node that only reads lanes of one stack with its rule in `JOINING`, if any."""
        stacks = {self._lane[name][0] if name in self._lane else "" for name in node.input}
        rule = None if node.domain else JOINING.get(node.op_type)
        if rule is None or "" in stacks or len(stacks) > 1 or len(node.input) < 2:
            return False
        stack = stacks.pop()
        result = rule(
            self,
            node,
            self._select(stack, [self._lane[name][1] for name in node.input], self._size[stack]),
        )
        self.op.Identity(result, outputs=list(node.output))
        return True

    def add_up(self, node: Node, terms: Sequence[str]) -> None:
        """Write a sum: lanes of one stack are reduced, other terms are added to them."""
        lanes: dict[str, list[int]] = {}
        for stack, lane in (self._lane[name] for name in terms if name in self._lane):
            lanes.setdefault(stack, []).append(lane)
        parts = [
            self.op.ReduceSum(
                self._select(stack, sorted(index), self._size[stack]), axes=[0], keepdims=0
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
        """Write a Concat: adjacent lanes of one stack become one operand, other values stay."""
        parts: list[str] = []
        for run in runs(node.input, lambda name: self._lane.get(name, ("",))[0]):
            joins = run[0] in self._lane and is_joined(run, node.input)
            target = _concat_target(self.graph, node, run) if joins else None
            parts += [self._concatenated(run, *target)] if target else map(self.alone, run)
        self.op.Identity(
            parts[0] if len(parts) == 1 else self.op.Concat(*parts, **node.attribute),
            outputs=list(node.output),
        )

    def _concatenated(self, names: Sequence[str], shape: Sequence[int], axis: int) -> str:
        """Lanes of one stack, concatenated along an axis: the batch dimension moves before it, and
        merges with it.
        """
        stack = self._lane[names[0]][0]
        stack = self._select(stack, [self._lane[name][1] for name in names], self._size[stack])
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
        """The stack of several values, one for each lane."""
        key = tuple(names)
        if key not in self._columns:
            self._columns[key] = self._stack(key)
        return self._columns[key]

    def _stack(self, names: tuple[str, ...]) -> str:
        if all(self.graph.tensor(name) is not None for name in names):
            return self.stored(names)
        # the first lane of each stack or single value after concatenation
        sources: dict[str, int] = {}
        size = 0
        index = []
        for name in names:
            stack, lane = self._lane.get(name, (name, 0))
            if stack not in sources:
                sources[stack] = size
                size += self._size.get(stack, 1)
            index.append(sources[stack] + lane)
        return self._select(self._concat(list(sources)), index, size)

    def _concat(self, sources: Sequence[str]) -> str:
        """Stacks, and single values as stacks of one lane, concatenated."""
        if (
            len(sources) > _MAX_UNSQUEEZES
            and self._size.keys().isdisjoint(sources)
            and (stack := self._concat_last_axis(sources))
        ):
            return stack
        parts = [
            name if name in self._size else self.op.Unsqueeze(name, axes=[0]) for name in sources
        ]
        return str(parts[0] if len(parts) == 1 else self.op.Concat(*parts, axis=0))

    def _concat_last_axis(self, names: Sequence[str]) -> str:
        """The stack of values by Concat along the last axis, Reshape and Transpose; "" if the last
        dimension is unknown.
        """
        *_, last = self.graph.info_of(names[0]).shape or ("",)
        if not isinstance(last, int) or not last:
            return ""
        rank = self.rank(names[0])
        concat = self._unsplit(names) or self.op.Concat(*names, axis=-1)
        # A 0 copies the dimension at its index.
        split = self.op.Reshape(concat, np.array([0] * (rank - 1) + [len(names), last], np.int64))
        return str(
            self.op.Transpose(split, perm=[rank - 1, *range(rank - 1), rank]) if rank > 1 else split
        )

    def _unsplit(self, names: Sequence[str]) -> str:
        """The operand of the Split along the last axis with these results, "" without any."""
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

    def _select(self, stack: str, index: Sequence[int], size: int) -> str:
        """Some lanes of a stack: all of them, by a Slice, or by a Gather."""
        steps = {b - a for a, b in pairwise(index)}
        if list(index) == list(range(size)):
            return stack
        if len(steps) == 1 and (step := steps.pop()) > 0:
            return str(self.op.Slice(stack, [index[0]], [index[-1] + 1], [0], [step]))
        return str(self.op.Gather(stack, np.array(index, np.int64), axis=0))

    def stored(
        self, names: Sequence[str], form: Callable[[np.ndarray], np.ndarray] = np.asarray
    ) -> str:
        """The stack of stored tensors, to each of which ``form`` is applied.

        A tensor that several lanes read is stored once, and selected for each of them; folding may
        do that ahead of time.
        """
        lanes = {name: lane for lane, name in enumerate(dict.fromkeys(names))}
        stack = store_stack(self.edit, np.stack([form(self.array(name)) for name in lanes]))
        return self._select(stack, [lanes[name] for name in names], len(lanes))

    def array(self, name: str) -> np.ndarray:
        """The value of a stored tensor."""
        tensor = self.graph.tensor(name)
        assert tensor is not None
        return tensor.numpy()

    def aligned(self, operand: StackOperand, rank: int) -> str:
        """An operand whose lanes have this rank; leading axes of size 1 are added to them."""
        name, lane_rank = operand
        if lane_rank is None or lane_rank == rank:
            return name
        weights = self.edit.initializers.get(name)
        if weights is not None:
            return store_stack(
                self.edit,
                weights.numpy().reshape(
                    weights.shape[0], *[1] * (rank - lane_rank), *weights.shape[1:]
                ),
            )
        return str(self.op.Unsqueeze(name, axes=list(range(1, rank - lane_rank + 1))))


def _target(graph: Graph, name: str) -> list[int] | None:
    """The shape of a result for Reshape; ``None`` with a 0 or several unknown dimensions."""
    shape = graph.info_of(name).shape
    if shape is None or sum(not isinstance(size, int) for size in shape) > 1 or 0 in shape:
        return None
    return [size if isinstance(size, int) else -1 for size in shape]


def _concat_target(graph: Graph, node: Node, run: Sequence[str]) -> tuple[list[int], int] | None:
    """The shape for Reshape of adjacent lanes in a Concat, and the axis; see `_target`."""
    target = _target(graph, run[0])
    if target is None:
        return None
    axis = node.get_attribute("axis") % len(target)
    target[axis] = max(len(run) * target[axis], -1)
    return target, axis


def _batched(
    writer: StackWriter, group: Group, operands: Sequence[StackOperand]
) -> str | Sequence[str]:
    """The operator with the axis of lanes in front; operands are aligned at their last axes."""
    node, view = group.first, GraphView(writer.graph)
    axes = axes_of(view, node)
    assert axes is not None
    stacked = axes.inserted(LANE)
    assert stacked is not None
    inputs: list[Any] = [
        (
            writer.aligned(operand, len(axes.results[0]))
            if operand_axes is not None and operand_axes.broadcasts
            else operand[0]
        )
        for operand, operand_axes in zip(operands, axes.operands, strict=True)
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
    results: str | Sequence[str] = getattr(writer.op, node.op_type)(
        *inputs, outputs=len(node.output), **attributes
    )
    return results


def _add(writer: StackWriter, group: Group, operands: Sequence[StackOperand]) -> str:
    """The sum of two stacks or more."""
    rank = writer.rank(group.first.output[0])
    return str(reduce(writer.op.Add, (writer.aligned(operand, rank) for operand in operands)))


def _plus(writer: StackWriter, name: str, bias: Sequence[StackOperand], rank: int) -> str:
    """A stack plus an operand that may be omitted."""
    return str(writer.op.Add(name, writer.aligned(bias[0], rank))) if bias and bias[0][0] else name


def _gemm(writer: StackWriter, group: Group, operands: Sequence[StackOperand]) -> str:
    """A MatMul, plus the third operand."""
    form = np.transpose if group.first.get_attribute("transB") else np.asarray
    names = group.columns[1]
    weights = form(writer.array(names[0])) if len(set(names)) == 1 else writer.stored(names, form)
    return _plus(writer, writer.op.MatMul(operands[0][0], weights), operands[1:], 2)


def _gather(writer: StackWriter, group: Group, operands: Sequence[StackOperand]) -> str:
    (table, table_rank), (index, index_rank) = operands
    if table_rank is None:
        return str(writer.op.Gather(table, index, axis=0))
    if index_rank is None:
        return str(writer.op.Gather(table, index, axis=1))
    index = writer.op.Cast(index, to=TensorProto.INT64)  # a Cast to the same type is removed
    return str(writer.op.GatherND(table, writer.op.Unsqueeze(index, axes=[-1]), batch_dims=1))


def _normalization(writer: StackWriter, group: Group, operands: Sequence[StackOperand]) -> str:
    """LayerNormalization of the last axis, which takes one scale: different ones are multiplied
    afterwards.
    """
    rank = writer.rank(group.first.input[0])
    attributes = {**group.first.attribute, "axis": -1}
    if all(lane_rank is None for _, lane_rank in operands[1:]):
        return str(writer.op.LayerNormalization(*(name for name, _ in operands), **attributes))
    y = writer.op.LayerNormalization(
        operands[0][0], np.ones_like(writer.array(group.first.input[1])), **attributes
    )
    y = writer.op.Mul(y, writer.aligned(operands[1], rank))
    return _plus(writer, y, operands[2:], rank)


def _mean(writer: StackWriter, node: Node, stack: str) -> str:
    return str(writer.op.ReduceMean(stack, axes=[0], keepdims=0))


JOINING: Final[Mapping[str, Callable[[StackWriter, Node, str], str]]] = {"Mean": _mean}
"""Rules for operators whose operands are lanes of one stack."""


def runs(names: Sequence[str], stack_of: Callable[[str], Hashable]) -> list[list[str]]:
    """Runs of adjacent values of one stack.

    ``stack_of`` returns a false value for other values, which form runs as well.
    """
    return [list(run) for _, run in groupby(names, stack_of)]


def is_joined(run: Sequence[str], names: Sequence[str]) -> bool:
    """Whether a run of lanes becomes one operand of a Concat, which takes two nodes."""
    return len(run) > 2 or 1 < len(run) == len(names)


def can_lay_out(graph: Graph, node: Node, stack_of: Callable[[str], Hashable]) -> bool:
    """Whether a Concat reads runs of lanes that can become one operand each."""
    if node.domain or node.op_type != "Concat":
        return False
    lane_runs = (
        run for run in runs(node.input, stack_of) if stack_of(run[0]) and is_joined(run, node.input)
    )
    return any(_concat_target(graph, node, run) is not None for run in lane_runs)


_Rule = Callable[[StackWriter, Group, Sequence[StackOperand]], "str | Sequence[str]"]
_RULES: Final[Mapping[str, _Rule]] = {
    "Add": _add,
    "Gather": _gather,
    "Gemm": _gemm,
    "LayerNormalization": _normalization,
}
"""Rules for operators that `_batched` does not write."""
