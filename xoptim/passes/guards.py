"""Nodes that fail in a run that breaks an assumption, and the metadata about assumptions.

A guard computes the index 0 if an assumption holds, else 1, and gathers from a tensor whose only
row is the shape of an input. The index 1 is out of range, so onnxruntime's CPU provider stops the
run and names the Gather, which is named after the assumption. A Reshape of the input, which copies
nothing, takes the gathered shape.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from typing import Any, Final

import numpy as np
from onnx import TensorProto

from xoptim.facts.assumptions import DEFAULTS, NOTHING, UNIT_ERROR, Assumptions, SizeFact, dimension
from xoptim.facts.dims import Dim, SymbolicDim
from xoptim.facts.dtypes import is_float
from xoptim.facts.errors import RewriteError
from xoptim.facts.words import whole_number
from xoptim.graph.assumed import note, recorded, unused
from xoptim.graph.constants import store
from xoptim.graph.edit import Edit
from xoptim.graph.graph import Graph
from xoptim.graph.load import infer_model
from xoptim.graph.model import Model
from xoptim.graph.redirect import redirect
from xoptim.match.create import OpBuilder
from xoptim.match.rewrite import Step
from xoptim.operators.slicing import LAST_END


class NoteAssumptions(Step):
    """Writes the assumptions beyond the default set into the metadata of a model."""

    title = "note_assumptions"

    def run(self, model: Model) -> int:
        """Write the entry; returns 0, since nothing changes that is computed."""
        note(model.shell, model.assumptions)
        return 0


KEY: Final = "xoptim.guard"
"""Metadata key of the nodes of guards."""
_MIN_OPSET: Final = 11
"""Operator set since which comparisons take all types used here."""


class RemoveGuards(Step):
    """Removes the guards of an earlier optimization, which would hide inputs from patterns."""

    title = "remove_guards"

    def __init__(self) -> None:
        self.had_guards = False

    def run(self, model: Model) -> int:
        """Remove the guards; returns how many nodes."""
        graph = model.graph
        record = recorded(model.shell).texts  # the metadata of guarded models has assumptions
        # the guard of an assumption that is not made again has to stay
        if not record or unused(record, model.assumptions):
            return 0
        guards = [node for node in graph.nodes if KEY in node.metadata_props()]
        constants = {
            name for node in guards for name in node.input if graph.tensor(name) is not None
        }
        for node in guards:
            if node.op_type == "Reshape" and redirect(graph, node.output[0], node.input[0]):
                self.had_guards = True
        if not self.had_guards:
            return 0
        graph.sweep()
        removed = [node for node in guards if node.graph is None]
        unread = [
            name for name in constants if name in graph.initializers and not graph.is_needed(name)
        ]
        for name in unread:
            graph.remove_initializer(name)
        # The names become free, so that equal guards get equal names again.
        model.names.used.difference_update(
            unread, (name for node in removed for name in node.output)
        )
        model.node_names.used.difference_update(node.name for node in removed)
        infer_model(model)
        return len(removed)


class WriteGuards(Step):
    """Writes a guard for each assumption that standard operators can check.

    Guards are written if they are wanted, or if ``earlier`` removed some.
    """

    title = "write_guards"

    def __init__(self, is_wanted: bool, earlier: RemoveGuards) -> None:
        self._is_wanted = is_wanted
        self._earlier = earlier
        self.dropped: list[str] = []  # assumptions without a guard

    def run(self, model: Model) -> int:
        """Write the guards; returns how many."""
        graph = model.graph
        texts = [text for text in model.assumptions.texts if text not in (NOTHING, *DEFAULTS)]
        if not texts or not (self._is_wanted or self._earlier.had_guards):
            return 0
        carrier = next((name for name in graph.inputs if _can_carry(graph, name)), None)
        guarded_texts: list[str] = []
        if carrier is not None and graph.opsets.get("", 0) >= _MIN_OPSET:
            with Edit(graph) as edit:
                guarded_texts = _write(edit, carrier, texts)
        self.dropped = [text for text in texts if text not in guarded_texts]
        return len(guarded_texts)


def _write(edit: Edit, carrier: str, texts: Sequence[str]) -> list[str]:
    """Write guards after the input ``carrier``; returns the assumptions that have one."""
    graph, guards, guarded_texts = edit.target, _Guards(edit), []
    op, shape = guards.op, guards.shape(carrier)
    for text in texts:
        flags = list(guards.flags(Assumptions.of((text,))))
        if flags:
            fails = op.Cast(reduce(op.Or, flags), to=TensorProto.INT64)
            shape = op.Gather(
                op.Unsqueeze(shape, guards.number([0])), fails, axis=0, name=f"assumed: {text}"
            )
            guarded_texts.append(text)
    if not guarded_texts:
        return []
    output = edit.names.fresh(f"{carrier}_checked")
    op.Reshape(carrier, shape, outputs=[output])
    for node in edit.created:
        node.metadata = {KEY: node.name}
    graph.rename(carrier, output)
    try:
        edit.commit([], edit.created, next(iter(graph.nodes)))
    except RewriteError:
        graph.rename(output, carrier)
        return []
    return guarded_texts


def _can_carry(graph: Graph, name: str) -> bool:
    """Whether a Reshape can replace an input: a tensor that only nodes of this graph refer to."""
    info = graph.info_of(name)
    is_plain = (
        info.is_tensor
        and bool(info.dtype)
        and info.shape is not None
        and graph.tensor(name) is None
    )
    return is_plain and bool(graph.consumers(name)) and name not in graph.pinned


class _Guards:
    """Creates the nodes that check assumptions; checks share nodes where they can."""

    def __init__(self, edit: Edit) -> None:
        self.op = OpBuilder(lambda: edit, Edit.collect)
        self._edit, self._graph = edit, edit.target
        self._cache: dict[tuple[str, str], str] = {}
        shapes = {name: _shape(self._graph, name) for name in self._graph.inputs}
        self._axes = {
            str(dim): (name, axis)
            for name, shape in shapes.items()
            for axis, dim in enumerate(shape)
        }

    def flags(self, assumptions: Assumptions) -> Iterator[str]:
        """Results that are true if an assumption is broken, for the assumptions that standard
        operators can check.
        """
        op = self.op
        for name, fact in assumptions.sizes:
            if self._axis(name)[0]:
                yield from self._size_flags(self.size(name), fact)
        for name, formula in assumptions.equal:
            total = dimension(formula)
            names = {name, *(total.symbols if isinstance(total, SymbolicDim) else ())}
            if names <= self._axes.keys() and (isinstance(total, int) or total.is_polynomial):
                yield op.Not(op.Equal(self.size(name), self._polynomial(total)))
        for alternatives in assumptions.either:
            if all(self._axis(name)[0] for name, _ in alternatives):
                flags = [
                    reduce(op.Or, self._size_flags(self.size(name), fact))
                    for name, fact in alternatives
                ]
                yield reduce(op.And, flags)
        for word, name in assumptions.values:
            for x in [name] if name else self._graph.inputs:
                if word != "finite" or is_float(self._graph.info_of(x).dtype):
                    yield from map(self._any, _CHECKS[word](self, x))

    def _once(self, kind: str, name: str, make: Callable[[], str]) -> str:
        key = (kind, name)
        if key not in self._cache:
            self._cache[key] = make()
        return self._cache[key]

    def number(self, value: Any, dtype: type[np.generic] = np.int64) -> str:
        """A constant."""
        array = np.array(value, dtype)
        return self._once(array.dtype.name, str(value), lambda: store(self._edit, "assumed", array))

    def shape(self, name: str) -> str:
        """The shape of an input."""
        return self._once("Shape", name, lambda: str(self.op.Shape(name)))

    def size(self, name: str) -> str:
        """A dimension of an input."""
        owner, axis = self._axis(name)
        return self._once(
            "size", name, lambda: str(self.op.Gather(self.shape(owner), self.number(axis), axis=0))
        )

    def floats(self, name: str) -> str:
        """An input cast to float32, which may round it."""
        return self._once("Cast", name, lambda: str(self.op.Cast(name, to=TensorProto.FLOAT)))

    def part(self, x: str, start: int, end: int) -> str:
        """A slice along the last axis."""
        return str(self.op.Slice(x, *(self.number([bound]) for bound in (start, end, -1))))

    def _axis(self, name: str) -> tuple[str, int]:
        """The input and the axis of a dimension; the name is empty if no input has it."""
        owner, _, axis = name.rpartition(":")
        number = whole_number(axis)
        default = ("", 0) if number is None or owner not in self._graph.inputs else (owner, number)
        return self._axes.get(name, default)

    def _size_flags(self, size: str, fact: SizeFact) -> Iterator[str]:
        op = self.op
        if fact.least:
            yield op.Less(size, self.number(fact.least))
        if fact.most is not None:
            yield op.Greater(size, self.number(fact.most))
        if fact.divisor > 1:
            yield op.Not(op.Equal(op.Mod(size, self.number(fact.divisor)), self.number(fact.rest)))

    def _polynomial(self, total: Dim) -> str:
        if isinstance(total, int):
            return self.number(total)
        result = self.number(total.constant)
        for monomial, factor in total.terms:
            term = self.number(factor)
            for name in (atom.name for atom, exponent in monomial for _ in range(exponent)):
                term = self.op.Mul(term, self.size(name))
            result = self.op.Add(result, term)
        return result

    def _any(self, flag: str) -> str:
        """Whether any element is true; false for an empty tensor."""
        count = self.op.ReduceSum(self.op.Cast(flag, to=TensorProto.FLOAT), keepdims=0)
        return str(self.op.Greater(count, self.number(0, np.float32)))


def _shape(graph: Graph, name: str) -> Sequence[Dim]:
    """The declared dimensions of an input: assumptions replace some of the inferred ones."""
    source = graph.source
    shapes = (
        {}
        if source is None
        else {value.name: value.type.tensor_type.shape for value in source.input}
    )
    if name not in shapes:
        return graph.info_of(name).shape or ()
    return [
        dimension(dim.dim_param) if dim.dim_param else dim.dim_value for dim in shapes[name].dim
    ]


def _infinite(g: _Guards, x: str) -> Iterator[str]:
    op, numbers, zero = g.op, g.floats(x), g.number(0, np.float32)
    yield op.Not(op.Equal(op.Sub(numbers, numbers), zero))
    yield op.And(op.Equal(numbers, zero), op.Less(op.Reciprocal(numbers), zero))


def _other_than_bits(g: _Guards, x: str) -> Iterator[str]:
    bits = [g.op.Equal(g.floats(x), g.number(bit, np.float32)) for bit in (0, 1)]
    yield g.op.Not(g.op.Or(*bits))


def _other_than_ones(g: _Guards, x: str) -> Iterator[str]:
    yield g.op.Not(g.op.Equal(g.floats(x), g.number(1, np.float32)))


def _not_padded(g: _Guards, x: str) -> Iterator[str]:
    yield from _other_than_bits(g, x)
    yield g.op.Equal(g.part(g.floats(x), 0, 1), g.number(0, np.float32))
    yield g.op.Less(g.part(g.floats(x), 0, -1), g.part(g.floats(x), 1, LAST_END))


def _unsorted(g: _Guards, x: str) -> Iterator[str]:
    before, after = g.part(x, 0, -1), g.part(x, 1, LAST_END)
    yield g.op.Not(g.op.Or(g.op.Less(before, after), g.op.Equal(before, after)))


def _not_unit(g: _Guards, x: str) -> Iterator[str]:
    op, numbers = g.op, g.floats(x)
    length = op.Sqrt(op.ReduceSum(op.Mul(numbers, numbers), axes=[-1], keepdims=1))
    yield op.Not(
        op.Less(op.Abs(op.Sub(length, g.number(1, np.float32))), g.number(UNIT_ERROR, np.float32))
    )


_CHECKS: Final[dict[str, Callable[[_Guards, str], Iterator[str]]]] = {
    "finite": _infinite,
    "bool": _other_than_bits,
    "ones": _other_than_ones,
    "right_padded": _not_padded,
    "sorted": _unsorted,
    "unit": _not_unit,
}
