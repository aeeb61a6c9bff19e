"""Values of models that are known to be equal: a congruence closure over operators.

The results of one operator are equal where its operands are equal.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Sequence
from typing import Final, TypeAlias, final

from xoptim.facts.shapes import UNKNOWN, Info
from xoptim.graph.node import Node
from xoptim.graph.tensors import Tensor

_OMITTED: Final = -1
_Key: TypeAlias = tuple[Hashable, tuple[int, ...]]


@final
class Value:
    """A value, or several values that are known to be equal; `Values` makes them."""

    __slots__ = ("info", "is_fixed", "parent", "readers", "serial", "tensor", "terms")

    def __init__(self, serial: int, info: Info) -> None:
        self.parent: Value | None = None  # an equal value, on the way to `root`
        self.serial = serial
        self.info = info
        self.tensor: Tensor | None = None  # the constant that it is, if any
        self.is_fixed = False  # whether nodes compute it from constants alone
        self.terms: list[tuple[Term, int]] = []  # terms that compute it, with the result's index
        self.readers: dict[Term, None] = {}

    @property
    def root(self) -> Value:
        """The value that stands for all that are equal to this one."""
        value = self
        while value.parent is not None:
            value.parent = value.parent.parent or value.parent
            value = value.parent
        return value

    def is_same(self, other: Value) -> bool:
        """Whether both are known to be equal."""
        return self.root is other.root

    def learn(self, info: Info) -> None:
        """Take facts that add a shape or known integers."""
        if self.info.shape is None or (self.info.data is None and info.data is not None):
            self.info = info if info.shape is not None or self.info == UNKNOWN else self.info

    def absorb(self, other: Value) -> None:
        """Become the root of another value, and take its facts and terms."""
        other.parent = self
        self.learn(other.info)
        self.tensor = self.tensor if self.tensor is not None else other.tensor
        self.terms += other.terms
        other.terms = []
        self.is_fixed = self.is_fixed or other.is_fixed


@final
class Term:
    """An operator applied to values, or a value without operands, such as an input."""

    __slots__ = ("is_commutative", "key", "label", "node", "operands", "opset", "results")

    def __init__(
        self,
        label: Hashable,
        operands: tuple[Value | None, ...],
        node: Node | None,
        *,
        is_commutative: bool,
    ) -> None:
        self.label = label
        self.operands = operands
        self.node = node  # a node that computes it, which may be removed from its graph later
        self.opset = 0 if node is None else node.opset
        self.is_commutative = is_commutative  # whether the order of the operands does not matter
        self.results: list[Value] = []
        self.key = self.current_key()

    @property
    def is_fixed(self) -> bool:
        """Whether its results are computed by a node from constants alone."""
        is_plain = self.node is not None and not self.node.bodies and bool(self.operands)
        return is_plain and all(x is None or x.root.is_fixed for x in self.operands)

    def current_key(self) -> _Key:
        """The key of the term: terms with equal keys have equal results."""
        serials = [_OMITTED if x is None else x.root.serial for x in self.operands]
        return self.label, tuple(sorted(serials) if self.is_commutative else serials)


class Values:
    """All values of some models, each once."""

    def __init__(self) -> None:
        self._terms: dict[_Key, Term] = {}
        self._serials = itertools.count()

    def leaf(self, label: Hashable, info: Info) -> Value:
        """The value without operands that a label names."""
        return self.apply(label, (), [info])[0]

    def apply(
        self,
        label: Hashable,
        operands: Sequence[Value | None],
        infos: Sequence[Info],
        node: Node | None = None,
        *,
        is_commutative: bool = False,
    ) -> list[Value]:
        """The results of an operator, one for each of ``infos``.

        Args:
            label: all that decides what the operator computes.
            operands: ``None`` for one that is omitted; trailing omitted operands are dropped.
            infos: facts about the results.
            node: a node that computes them.
            is_commutative: whether the order of the operands does not matter.
        """
        arguments = list(operands)
        while arguments and arguments[-1] is None:
            arguments.pop()
        candidate = Term(label, tuple(arguments), node, is_commutative=is_commutative)
        term = self._terms.setdefault(candidate.key, candidate)
        if term is candidate:
            for operand in arguments:
                if operand is not None:
                    operand.root.readers[term] = None
        for place in range(len(term.results), len(infos)):
            value = Value(next(self._serials), infos[place])
            value.is_fixed = term.is_fixed
            value.terms.append((term, place))
            term.results.append(value)
        results = [value.root for value in term.results[: len(infos)]]
        for value, info in zip(results, infos, strict=True):
            value.learn(info)
        return results

    def set_constant(self, value: Value, tensor: Tensor) -> None:
        """Note that a value is a constant."""
        value.tensor = tensor
        self._fix(value)

    def _fix(self, value: Value) -> None:
        """Mark a value as fixed, and all values that only depend on fixed values."""
        value.root.is_fixed = True
        pending = [*value.root.readers]
        while pending:
            term = pending.pop()
            if term.is_fixed:
                for result in term.results:
                    if not result.root.is_fixed:
                        result.root.is_fixed = True
                        pending += result.root.readers

    def unite(self, first: Value, second: Value) -> None:
        """Make two values one, and all that the same operators compute from them."""
        pending = [(first, second)]
        while pending:
            representative, absorbed = (value.root for value in pending.pop())
            if representative is absorbed:
                continue
            if len(representative.readers) < len(absorbed.readers):
                representative, absorbed = absorbed, representative
            changes_fixed = representative.is_fixed != absorbed.is_fixed
            representative.absorb(absorbed)
            for term in absorbed.readers:
                if self._terms.get(term.key) is term:
                    del self._terms[term.key]
                term.key = term.current_key()
                twin = self._terms.setdefault(term.key, term)
                representative.readers[term] = None
                if twin is not term:
                    pending += zip(twin.results, term.results, strict=False)
                    twin.results += term.results[len(twin.results) :]
            absorbed.readers = {}
            if changes_fixed:
                self._fix(representative)
