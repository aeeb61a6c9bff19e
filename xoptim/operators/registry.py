"""One record for each operator, which the modules of the families fill facet by facet."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from xoptim.operators.protocols import Formula, Kernel

OperatorKey: TypeAlias = tuple[str, str]
"""Domain and operator."""


@dataclass
class Operator:
    """What is known about an operator; a facet that is not known is ``None``."""

    formula: Formula | None = None  # types, shapes and small values of the results
    kernel: Kernel | None = None  # values of the results of constants


OPERATORS: Final[dict[OperatorKey, Operator]] = {}
"""All operators of which something is known."""
_UNKNOWN: Final = Operator()


def operator_of(domain: str, op_type: str) -> Operator:
    """What is known about an operator. Do not modify the result."""
    return OPERATORS.get((domain, op_type), _UNKNOWN)


def record(domain: str, op_type: str) -> Operator:
    """The record of an operator, to be filled."""
    return OPERATORS.setdefault((domain, op_type), Operator())


def infers(*op_types: str, domain: str = "") -> Callable[[Formula], Formula]:
    """Register a formula for one or several operators of a domain."""

    def register(formula: Formula) -> Formula:
        for op_type in op_types:
            found = record(domain, op_type)
            assert found.formula is None, f"two formulas for {op_type}"
            found.formula = formula
        return formula

    return register
