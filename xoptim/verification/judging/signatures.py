"""Comparison of the inputs and outputs of two models: names, order and types."""

from collections.abc import Sequence
from typing import TypeAlias

from xoptim.verification.judging.compare import Comparison
from xoptim.verification.runs.session import Port

Signature: TypeAlias = tuple[Sequence[Port], Sequence[Port]]
"""Inputs and outputs of a model."""


def compare_signatures(
    expected: Signature, actual: Signature, *, fewer_inputs: bool = False
) -> tuple[Comparison, ...]:
    """Faults of names, order and types of ports; with ``fewer_inputs``, inputs may be missing."""
    (inputs, outputs), (other_inputs, other_outputs) = expected, actual
    if fewer_inputs:
        names = {port.name for port in other_inputs}
        inputs = [port for port in inputs if port.name in names]
    return (
        *_compare_ports("input", inputs, other_inputs),
        *_compare_ports("output", outputs, other_outputs),
    )


def _compare_ports(kind: str, expected: Sequence[Port], actual: Sequence[Port]) -> list[Comparison]:
    types, other_types = {p.name: p.type for p in expected}, {p.name: p.type for p in actual}
    faults = [
        Comparison(f"{kind} {name!r}", "missing", "only the original has it")
        for name in types
        if name not in other_types
    ]
    faults += [
        Comparison(f"{kind} {name!r}", "structure", "the original does not have it")
        for name in other_types
        if name not in types
    ]
    faults += [
        Comparison(f"{kind} {name!r}", "dtype", f"{other_types[name]} instead of {types[name]}")
        for name in types
        if other_types.get(name, types[name]) != types[name]
    ]
    if not faults and list(types) != list(other_types):
        faults.append(
            Comparison(
                f"{kind}s", "structure", f"order {list(other_types)} instead of {list(types)}"
            )
        )
    return faults
