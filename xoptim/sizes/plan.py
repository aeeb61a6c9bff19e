"""Terms that compute sizes, and those that are planned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np

from xoptim.facts.dims import Dim
from xoptim.sizes.region import Key

Operand: TypeAlias = "Term | str | np.ndarray[Any, Any]"


@dataclass(frozen=True, eq=False, slots=True)
class Term:
    """A value and how it is computed.

    Attributes:
        key: the value, or the name of a result of another type.
        op_type: operator; empty for a constant.
        operands: terms, names of results that stay, and constants.
        attributes: of the operator.
        steps: what has to be computed for it, besides what is planned already: values, and tensors that nothing else reads.
        place: label of the node after which it can be computed; negative at the beginning.
    """

    key: Key | str
    op_type: str = ""
    operands: tuple[Operand, ...] = ()
    attributes: Mapping[str, Any] = field(default_factory=dict)
    steps: frozenset[object] = frozenset()
    place: float = float("-inf")


class Plan:
    """The terms that are planned.

    Attributes:
        terms: for each value, the term that can be computed first.
        measured: names of the results that they read.
        holders: vectors of several elements, by element.
    """

    def __init__(self) -> None:
        self.terms: dict[Key | str, Term] = {}
        self.measured: set[str] = set()
        self.holders: dict[Dim, list[Term]] = {}

    def enter(self, term: Term) -> None:
        """Plan a term, and those of its operands."""
        known = self.terms.get(term.key)
        if not term.op_type or (known is not None and known.place <= term.place):
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
        """The planned term of a value, which takes no more steps, if it can be computed before the node of a label."""
        term = self.terms.get(key)
        return None if term is None or term.place >= limit else replace(term, steps=frozenset())

    def terms_of(self, key: Key | str) -> list[Term]:
        """The terms of which a value is computed, and its own, operands first."""
        found: dict[Key | str, Term] = {}

        def visit(key: Key | str) -> None:
            term = self.terms.get(key)
            if term is not None and key not in found:
                for operand in term.operands:
                    if isinstance(operand, Term):
                        visit(operand.key)
                found[key] = term

        visit(key)
        return list(found.values())
