"""All wrong rewrites, by kind."""

from collections.abc import Sequence
from types import ModuleType
from typing import Final

from tests.verification.wrong import (
    absent,
    accepted,
    arithmetic,
    attributes,
    bias16,
    bounds,
    branches,
    classic,
    comparisons,
    conditions,
    elements,
    fresh_bias16,
    fresh_late,
    fresh_masks,
    fresh_numbers,
    fresh_optional,
    fresh_ranges,
    fresh_rare,
    fresh_relations,
    fresh_strings,
    fusions,
    hidden,
    images,
    iterations,
    kernels,
    labels,
    lengths,
    many,
    masks,
    medium,
    narrowed,
    numbers,
    operands,
    places,
    quantized,
    ranges,
    relations,
    right,
    sampling,
    shapes,
    states,
    tolerance,
    unreached,
    vocabulary,
)
from tests.verification.wrong.case import Pair, Wrong

MODULES: Final[Sequence[ModuleType]] = (
    narrowed,
    absent,
    bounds,
    operands,
    branches,
    tolerance,
    arithmetic,
    shapes,
    attributes,
    many,
    conditions,
    fusions,
    lengths,
    quantized,
    classic,
    medium,
    hidden,
    images,
    states,
    sampling,
    relations,
    places,
    labels,
    kernels,
    numbers,
    masks,
    unreached,
    iterations,
    elements,
    ranges,
    bias16,
    vocabulary,
    comparisons,
    fresh_numbers,
    fresh_masks,
    fresh_rare,
    fresh_late,
    fresh_optional,
    fresh_ranges,
    fresh_bias16,
    fresh_strings,
    fresh_relations,
)


def cases() -> list[Wrong]:
    """The wrong rewrites, in order of their kinds."""
    return [case for module in MODULES for case in module.CASES]


def right_cases() -> list[Pair]:
    """The rewrites that hold."""
    return [*right.CASES, *accepted.CASES]
