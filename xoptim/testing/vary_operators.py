"""Operators that are easily confused, with the constants of the example or with zeros."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import Final

import numpy as np
from onnx import ModelProto

from xoptim.testing.models import optimize_alone
from xoptim.testing.variant import Case, Variant, loosen, set_constant
from xoptim.testing.vary_extremes import real_constants

_FAMILIES: Final = (
    ("Greater", "GreaterOrEqual", "Less", "LessOrEqual"),
    ("Add", "Sub"),
    ("Mul", "Div"),
    ("Max", "Min"),
    ("ReduceMax", "ReduceMin"),
    ("ReduceSum", "ReduceMean"),
    ("And", "Or", "Xor"),
    ("Floor", "Ceil", "Round"),
    ("Squeeze", "Unsqueeze"),
)
SIBLINGS: Final = {name: tuple(other for other in family if other != name) for family in _FAMILIES for name in family}
"""Operators with the same operands, by operator."""


def siblings(case: Case) -> Iterator[Variant]:
    """Each node with another operator for the same operands; where the pattern still applies, with zeros too."""
    for position, node in enumerate(case.model.graph.node):
        for other in SIBLINGS.get(node.op_type, ()) if not node.domain else ():
            model = case.copy()
            model.graph.node[position].op_type = other
            word = f"operator: {node.op_type} {position} as {other}"
            yield Variant(word, loosen(model))
            if _applies(case, model):
                yield from _with_zeros(word, model)


def _applies(case: Case, model: ModelProto) -> bool:
    if case.pattern is None:
        return False
    try:
        return optimize_alone(case.pattern, model).applied > 0
    except Exception:  # reported for the variant itself
        return False


def _with_zeros(word: str, model: ModelProto) -> Iterator[Variant]:
    for name, array in real_constants(model):
        for sign, value in (("0", 0.0), ("-0", -0.0)):
            changed = deepcopy(model)
            set_constant(changed, name, np.full_like(array, value))
            yield Variant(f"{word}, {name} {sign}", loosen(changed))
