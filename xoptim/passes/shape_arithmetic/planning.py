"""Plan the shortest computations of the sizes that the nodes of a graph compute."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias

import numpy as np

from xoptim.facts.dims import Dim
from xoptim.operators.broadcasting import SIZE_OPERATORS, size_result
from xoptim.passes.shape_arithmetic.operations import Decompositions, Operation
from xoptim.passes.shape_arithmetic.region import Key, SizeRegion

Operand: TypeAlias = "Term | str | np.ndarray[Any, Any]"
_MAX_VISITS: Final = 100
"""Maximal number of values that are considered for the plan of one value."""
_MAX_LENGTH: Final = 8
"""Longer vectors are neither split into parts nor computed by one operation of all elements."""
_MAX_CANDIDATES: Final = 4
"""Maximal number of tensors, vectors and operations that are compared for one value."""


@dataclass(frozen=True, eq=False, slots=True)
class Term:
    """A value and how it is computed."""

    key: Key | str  # the value, or the name of a result of another type
    op_type: str = ""  # operator; empty for a constant
    operands: tuple[Operand, ...] = ()  # terms, names of results that stay, and constants
    attributes: Mapping[str, Any] = field(default_factory=dict)  # of the operator
    # values that it adds to the plan, and tensors that nothing else reads
    steps: frozenset[object] = frozenset()
    # label of the node after which it can be computed; -inf at the beginning
    place: float = float("-inf")


class SizePlan:
    """The terms that are planned."""

    def __init__(self) -> None:
        # for each value, the term that can be computed earliest
        self.terms: dict[Key | str, Term] = {}
        self.measured: set[str] = set()  # names of the results that the terms read
        self.holders: dict[Dim, list[Term]] = {}  # vectors of several elements, by element

    def enter(self, term: Term) -> None:
        """Plan a term, and the terms of its operands."""
        previous = self.terms.get(term.key)
        if not term.op_type or (previous is not None and previous.place <= term.place):
            return
        for operand in term.operands:
            if isinstance(operand, Term):
                self.enter(operand)
            elif isinstance(operand, str):
                self.measured.add(operand)
        self.terms[term.key] = term
        if not isinstance(term.key, str) and len(term.key[1]) > 1:
            for dim in dict.fromkeys(term.key[1]):
                self.holders.setdefault(dim, []).append(term)

    def reused(self, key: Key, limit: float) -> Term | None:
        """The planned term of a value, with no further steps, if it is computed before the node of
        label ``limit``.
        """
        term = self.terms.get(key)
        return None if term is None or term.place >= limit else replace(term, steps=frozenset())

    def terms_of(self, key: Key | str) -> list[Term]:
        """The terms that compute a value, operands first."""
        terms: dict[Key | str, Term] = {}

        def visit(key: Key | str) -> None:
            term = self.terms.get(key)
            if term is not None and key not in terms:
                for operand in term.operands:
                    if isinstance(operand, Term):
                        visit(operand.key)
                terms[key] = term

        visit(key)
        return list(terms.values())


class Planner:
    """Finds the term of the fewest steps for each value; planned terms are reused."""

    def __init__(self, region: SizeRegion) -> None:
        self.region = region
        self.graph = region.graph
        self.planned = SizePlan()  # the terms planned so far
        self._members = set(region.nodes)
        self._decompositions = Decompositions(_observed(region))
        self._origins = {key: name for name, key in reversed(region.values.items())}
        self._axes: dict[Dim, list[tuple[str, int]]] = {}
        for name, shape in region.sources.items():
            for axis, dim in enumerate(shape):
                self._axes.setdefault(dim, []).append((name, axis))
        self._cache: dict[tuple[Key, bool], Term | None] = {}
        self._open: set[tuple[Key, bool]] = set()
        self._limit = 0.0
        self._visits = 0

    def plan(self, name: str) -> Term | None:
        """Plan the term of a demanded value, computed no later than now; ``None`` without any."""
        producer = self.graph.producer(name)
        assert producer is not None
        self._cache, self._limit, self._visits = {}, producer.label, 0
        term = self._best(self.region.values[name])
        if term is not None:
            self.planned.enter(term)
        return term

    # ---------------------------------------------------------------- the search

    def _best(self, key: Key, *, may_split: bool = True) -> Term | None:
        """The term of the fewest steps, a Concat of parts only if it ``may_split``."""
        planned = self.planned.reused(key, self._limit)
        if planned is not None:
            return planned
        rank, data = key
        if all(type(dim) is int for dim in data):
            return Term(key)
        if (key, may_split) in self._cache:
            return self._cache[key, may_split]
        if (key, may_split) in self._open or self._visits >= _MAX_VISITS:
            return None
        self._visits += 1
        self._open.add((key, may_split))
        best: Term | None = None
        for term in self._candidates(rank, data, may_split):
            if best is None or len(term.steps) < len(best.steps):
                best = term
                if len(term.steps) == 1:
                    break
        self._open.discard((key, may_split))
        self._cache[key, may_split] = best
        return best

    def _candidates(self, rank: int, data: tuple[Dim, ...], may_split: bool) -> Iterator[Term]:
        yield from self._by_shape(rank, data)
        yield from self._by_gather(rank, data)
        if len(data) <= _MAX_LENGTH:
            if may_split and rank and len(data) > 1:  # first: other vectors may share the parts
                yield from self._by_concat(data)
            yield from self._by_operation(rank, data)
            if rank == 0:
                yield from self._on_best((0, data), "Squeeze", [(1, data)])
            elif len(data) == 1:
                scalar = self.planned.reused((0, data), self._limit)
                if scalar is not None:
                    yield from self._term((1, data), "Unsqueeze", [scalar, np.zeros(1, np.int64)])
        origin = self._origins.get((rank, data))
        if origin is not None:
            yield from self._by_current_node(origin)

    def _term(
        self, key: Key | str, op_type: str, operands: Sequence[Operand], **attributes: Any
    ) -> Iterator[Term]:
        """The term with these operands, if it can be computed in time."""
        places = [
            operand.place if isinstance(operand, Term) else self._place_of(operand)
            for operand in operands
        ]
        place = max(places, default=float("-inf"))
        operand_steps = frozenset[object]().union(
            *(operand.steps for operand in operands if isinstance(operand, Term))
        )
        if place < self._limit and key not in operand_steps:
            steps = operand_steps | {key}
            tensors = [
                operand
                for operand in operands
                if isinstance(operand, str) and operand in self.region.spared
            ]
            steps = steps.union(
                (name, "tensor") for name in tensors if name not in self.planned.measured
            )
            yield Term(key, op_type, tuple(operands), attributes, steps, place)

    def _place_of(self, operand: Operand) -> float:
        producer = self.graph.producer(operand) if isinstance(operand, str) else None
        return float("-inf") if producer is None else producer.label

    def _on_best(
        self, key: Key, op_type: str, parts: Iterable[Key], *more: Operand, **attributes: Any
    ) -> Iterator[Term]:
        """The term whose first operands are the best terms of some values."""
        terms: list[Operand] = []
        for part in parts:
            term = self._best(part)
            if term is None:
                return
            terms.append(term)
        yield from self._term(key, op_type, [*terms, *more], **attributes)

    def _by_shape(self, rank: int, data: tuple[Dim, ...]) -> Iterator[Term]:
        """Adjacent dimensions of a tensor."""
        start = next(place for place, dim in enumerate(data) if type(dim) is not int)
        count = 0
        for name, axis in self._axes.get(data[start], ()):
            shape, first = self.region.sources[name], axis - start
            if (
                first < 0
                or shape[first : first + len(data)] != data
                or self._place_of(name) >= self._limit
            ):
                continue
            key, last = (1, shape), first + len(data)
            bounds = {"start": first or None, "end": last if last < len(shape) else None}
            if rank == 1 and (len(shape) == len(data) or self.graph.opsets[""] >= 15):
                yield from self._term((1, data), "Shape", [name], **bounds)
            else:
                for term in self._term(key, "Shape", [name]):
                    yield from self._gather(rank, data, term)
            count += 1
            if count == _MAX_CANDIDATES:
                return

    def _by_gather(self, rank: int, data: tuple[Dim, ...]) -> Iterator[Term]:
        """Elements of a vector that is planned already."""
        symbol = next(dim for dim in data if type(dim) is not int)
        for holder in self.planned.holders.get(symbol, ())[:_MAX_CANDIDATES]:
            if holder.place < self._limit:
                yield from self._gather(rank, data, replace(holder, steps=frozenset()))

    def _gather(self, rank: int, data: tuple[Dim, ...], holder: Term) -> Iterator[Term]:
        assert not isinstance(holder.key, str)
        elements = holder.key[1]
        if all(dim in elements for dim in data):
            indices = np.array([elements.index(dim) for dim in data], np.int64)
            yield from self._term(
                (rank, data), "Gather", [holder, indices if rank else indices.reshape(())], axis=0
            )

    def _by_operation(self, rank: int, data: tuple[Dim, ...]) -> Iterator[Term]:
        """One operation of all elements."""
        first = next(dim for dim in data if type(dim) is not int)
        for op_type in dict.fromkeys(item.op_type for item in self._decompositions.of(first)):
            lefts, rights = [], []
            for dim in data:
                operation = self._decompositions.by(op_type, dim)
                if operation is None:
                    break
                lefts.append(operation.left)
                rights.append(operation.right)
            else:
                left, right = _narrowed(lefts), _narrowed(rights)
                if len(left) == len(right) == 1:  # neither has the length of the result
                    left = tuple(lefts)
                yield from self._on_best((rank, data), op_type, [(rank, left), (rank, right)])

    def _by_concat(self, data: tuple[Dim, ...]) -> Iterator[Term]:
        """A Concat of parts: the best split of each tail of the vector, the shortest tail first."""
        count = len(data)
        tails: list[tuple[int, list[Term]] | None] = [None] * count + [(0, [])]
        for start in reversed(range(count)):
            for end in range(start + 1, count + (start > 0)):
                tail, part = tails[end], self._best((1, data[start:end]), may_split=False)
                if tail is not None and part is not None:
                    cost = tail[0] + len(part.steps)
                    best = tails[start]
                    if best is None or (cost, len(tail[1]) + 1) < (best[0], len(best[1])):
                        tails[start] = cost, [part, *tail[1]]
        if tails[0] is not None:
            yield from self._term((1, data), "Concat", tails[0][1], axis=0)

    def _by_current_node(self, name: str) -> Iterator[Term]:
        """The node that computes a result now, on the best terms of its operands."""
        node = self.graph.producer(name)
        assert node is not None
        operands: list[Operand] = []
        for operand in node.input:
            if operand in self.region.values:
                term = self._best(self.region.values[operand])
            elif self.graph.producer(operand) in self._members:
                term = next(self._by_current_node(operand), None)
            else:
                operands.append(operand)
                continue
            if term is None:
                return
            operands.append(term)
        yield from self._term(
            self.region.values.get(name, name), node.op_type, operands, **node.attribute
        )


def _narrowed(data: Sequence[Dim]) -> tuple[Dim, ...]:
    """One element, which is broadcast, if all are equal."""
    return tuple(data[:1] if all(dim == data[0] for dim in data) else data)


def _observed(region: SizeRegion) -> dict[Dim, list[Operation]]:
    """The operations by which the graph computes elements now."""
    operations: dict[Dim, list[Operation]] = {}
    for node in region.nodes:
        if node.op_type not in SIZE_OPERATORS or len(node.input) != 2 or node.attribute.get("fmod"):
            continue
        left, right, result = (
            region.graph.info_of(name).data for name in (*node.input, node.output[0])
        )
        if node.output[0] not in region.values or left is None or right is None or result is None:
            continue
        for index, dim in enumerate(result):
            operation = Operation(
                node.op_type,
                left[index if len(left) > 1 else 0],
                right[index if len(right) > 1 else 0],
            )
            candidates = operations.setdefault(dim, [])
            if (
                len(candidates) < _MAX_CANDIDATES
                and operation not in candidates
                and size_result(*operation) is dim
            ):
                candidates.append(operation)
    return operations
