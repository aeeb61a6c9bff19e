"""Nodes that fail in a run that breaks an assumption, and the metadata about assumptions.

A guard computes 0 where the assumption holds and 1 where it does not, and gathers the shape of an
input from a table of one row by that number. onnxruntime's CPU provider then stops the run and
names the node, whose name is the assumption. The shape is the target of a Reshape of the input,
which copies nothing.
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


class NoteAssumptions(Step):
    """Writes into the metadata of a model what was assumed of it next to the default set."""

    title = "note_assumptions"

    def run(self, model: Model) -> int:
        """Write the entry; returns 0, since nothing changes that is computed."""
        note(model.shell, model.assumptions)
        return 0


KEY: Final = "xoptim.guard"
"""Key of the metadata of the nodes of guards."""
_SINCE: Final = 11
"""Operator set since which the comparisons have their present types."""
_END: Final = 2**63 - 1


class RemoveGuards(Step):
    """Removes the guards of an earlier optimization, under which rewrites would not see the
    inputs.
    """

    title = "remove_guards"

    def __init__(self) -> None:
        self.found = False  # whether there was a guard

    def run(self, model: Model) -> int:
        """Remove the guards; returns how many nodes."""
        graph = model.graph
        record = recorded(model.shell).texts  # guards come with what they check
        # what is not assumed has to be checked in each run
        if not record or unused(record, model.assumptions):
            return 0
        guards = [node for node in graph.nodes if KEY in node.metadata_props()]
        constants = {
            name for node in guards for name in node.input if graph.tensor(name) is not None
        }
        for node in guards:
            if node.op_type == "Reshape" and redirect(graph, node.output[0], node.input[0]):
                self.found = True
        if not self.found:
            return 0
        graph.sweep()
        gone = [node for node in guards if node.graph is None]
        unread = [
            name for name in constants if name in graph.initializers and not graph.is_needed(name)
        ]
        for name in unread:
            graph.remove_initializer(name)
        # The names are free again, so that the same guards get the same ones.
        model.names.used.difference_update(unread, (name for node in gone for name in node.output))
        model.node_names.used.difference_update(node.name for node in gone)
        infer_model(model)
        return len(gone)


class WriteGuards(Step):
    """Writes a guard for each assumption that standard operators can check.

    ``earlier`` tells whether there were guards.
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
        if not texts or not (self._is_wanted or self._earlier.found):
            return 0
        carrier = next((name for name in graph.inputs if _can_carry(graph, name)), None)
        written: list[str] = []
        if carrier is not None and graph.opsets.get("", 0) >= _SINCE:
            with Edit(graph) as edit:
                written = _write(edit, carrier, texts)
        self.dropped = [text for text in texts if text not in written]
        return len(written)


def _write(edit: Edit, carrier: str, texts: Sequence[str]) -> list[str]:
    """Write the guards of some assumptions, through which a tensor passes.

    Returns the assumptions that have one.
    """
    graph, guards, written = edit.target, _Guards(edit), []
    op, shape = guards.op, guards.shape(carrier)
    for text in texts:
        flags = list(guards.flags(Assumptions.of((text,))))
        if flags:
            fails = op.Cast(reduce(op.Or, flags), to=TensorProto.INT64)
            shape = op.Gather(
                op.Unsqueeze(shape, guards.number([0])), fails, axis=0, name=f"assumed: {text}"
            )
            written.append(text)
    if not written:
        return []
    checked = edit.names.fresh(f"{carrier}_checked")
    op.Reshape(carrier, shape, outputs=[checked])
    for node in edit.created:
        node.metadata = {KEY: node.name}
    graph.rename(carrier, checked)
    try:
        edit.commit([], edit.created, next(iter(graph.nodes)))
    except RewriteError:
        graph.rename(checked, carrier)
        return []
    return written


def _can_carry(graph: Graph, name: str) -> bool:
    """Whether an input can be passed on by a Reshape: it is a tensor that nodes read, and nothing
    else refers to it.
    """
    info = graph.info_of(name)
    is_plain = (
        info.is_tensor
        and bool(info.dtype)
        and info.shape is not None
        and graph.tensor(name) is None
    )
    return is_plain and bool(graph.consumers(name)) and name not in graph.pinned


class _Guards:
    """Makes the nodes that check assumptions; those that several checks need, once."""

    def __init__(self, edit: Edit) -> None:
        self.op = OpBuilder(lambda: edit, Edit.collect)
        self._edit, self._graph = edit, edit.target
        self._made: dict[tuple[str, str], str] = {}
        shapes = {name: _shape(self._graph, name) for name in self._graph.inputs}
        self._places = {
            str(dim): (name, axis)
            for name, shape in shapes.items()
            for axis, dim in enumerate(shape)
        }

    def flags(self, assumptions: Assumptions) -> Iterator[str]:
        """Results that are true where one of these assumptions is broken.

        None for what cannot be checked.
        """
        op = self.op
        for name, fact in assumptions.sizes:
            if self._place(name)[0]:
                yield from self._size_flags(self.size(name), fact)
        for name, formula in assumptions.equal:
            total = dimension(formula)
            names = {name, *(total.symbols if isinstance(total, SymbolicDim) else ())}
            if names <= self._places.keys() and (isinstance(total, int) or total.is_polynomial):
                yield op.Not(op.Equal(self.size(name), self._computed(total)))
        for alternatives in assumptions.either:
            if all(self._place(name)[0] for name, _ in alternatives):
                broken = [
                    reduce(op.Or, self._size_flags(self.size(name), fact))
                    for name, fact in alternatives
                ]
                yield reduce(op.And, broken)
        for word, name in assumptions.values:
            for each in [name] if name else self._graph.inputs:
                if word != "finite" or is_float(self._graph.info_of(each).dtype):
                    yield from map(self._any, _CHECKS[word](self, each))

    def _once(self, kind: str, of: str, make: Callable[[], str]) -> str:
        key = (kind, of)
        if key not in self._made:
            self._made[key] = make()
        return self._made[key]

    def number(self, value: Any, dtype: type[np.generic] = np.int64) -> str:
        """A constant."""
        array = np.array(value, dtype)
        return self._once(array.dtype.name, str(value), lambda: store(self._edit, "assumed", array))

    def shape(self, name: str) -> str:
        """The shape of an input."""
        return self._once("Shape", name, lambda: str(self.op.Shape(name)))

    def size(self, name: str) -> str:
        """A size of an input."""
        owner, axis = self._place(name)
        return self._once(
            "size", name, lambda: str(self.op.Gather(self.shape(owner), self.number(axis), axis=0))
        )

    def floats(self, name: str) -> str:
        """The numbers of an input, or what they are near."""
        return self._once("Cast", name, lambda: str(self.op.Cast(name, to=TensorProto.FLOAT)))

    def part(self, x: str, start: int, end: int) -> str:
        """A part along the last axis."""
        return str(self.op.Slice(x, *(self.number([each]) for each in (start, end, -1))))

    def _place(self, name: str) -> tuple[str, int]:
        """The input and the axis of a size, an empty name for a size that no input has."""
        owner, _, axis = name.rpartition(":")
        number = whole_number(axis)
        written = ("", 0) if number is None or owner not in self._graph.inputs else (owner, number)
        return self._places.get(name, written)

    def _size_flags(self, size: str, fact: SizeFact) -> Iterator[str]:
        op = self.op
        if fact.least:
            yield op.Less(size, self.number(fact.least))
        if fact.most is not None:
            yield op.Greater(size, self.number(fact.most))
        if fact.divisor > 1:
            yield op.Not(op.Equal(op.Mod(size, self.number(fact.divisor)), self.number(fact.rest)))

    def _computed(self, total: Dim) -> str:
        """A polynomial of sizes."""
        if isinstance(total, int):
            return self.number(total)
        found = self.number(total.constant)
        for monomial, factor in total.terms:
            term = self.number(factor)
            for name in (atom.name for atom, exponent in monomial for _ in range(exponent)):
                term = self.op.Mul(term, self.size(name))
            found = self.op.Add(found, term)
        return found

    def _any(self, flag: str) -> str:
        """Whether any element is true; none is in an empty tensor."""
        count = self.op.ReduceSum(self.op.Cast(flag, to=TensorProto.FLOAT), keepdims=0)
        return str(self.op.Greater(count, self.number(0, np.float32)))


def _shape(graph: Graph, name: str) -> Sequence[Dim]:
    """The dimensions as they are declared: under an assumption, inference has others in their
    place.
    """
    source = graph.source
    given = (
        {}
        if source is None
        else {value.name: value.type.tensor_type.shape for value in source.input}
    )
    if name not in given:
        return graph.info_of(name).shape or ()
    return [dimension(dim.dim_param) if dim.dim_param else dim.dim_value for dim in given[name].dim]


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
    yield g.op.Less(g.part(g.floats(x), 0, -1), g.part(g.floats(x), 1, _END))


def _unsorted(g: _Guards, x: str) -> Iterator[str]:
    before, after = g.part(x, 0, -1), g.part(x, 1, _END)
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
