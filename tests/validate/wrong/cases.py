"""All wrong rewrites, by kind."""

from collections.abc import Sequence
from types import ModuleType
from typing import Final

from tests.validate.wrong import (
    absent,
    arithmetic,
    attributes,
    bounds,
    branches,
    conditions,
    many,
    narrowed,
    operands,
    right,
    shapes,
    tolerance,
)
from tests.validate.wrong.case import Pair, Wrong

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
)


def cases() -> list[Wrong]:
    """The wrong rewrites, in order of their kinds."""
    return [case for module in MODULES for case in module.CASES]


def right_cases() -> list[Pair]:
    """The rewrites that hold."""
    return list(right.CASES)
