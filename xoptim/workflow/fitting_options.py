"""Options of fitting a result to its target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from xoptim.targets.target import FITTING_SECONDS

if TYPE_CHECKING:
    from xoptim.verification.runs.session import Value


@dataclass(frozen=True, slots=True, kw_only=True)
class FittingOptions:
    """The options of the search for a fitted result, and of its verification.

    Attributes:
        seconds: time limit of the search.
        verifies: whether the result is run on the target and compared with the original.
        tolerance: the error that is allowed on the target, ``None`` for the default of the target's
            arithmetic.
        feeds: the values of the inputs to compare on; random ones when empty.
    """

    seconds: float = FITTING_SECONDS
    verifies: bool = True
    tolerance: float | None = None
    feeds: Sequence[Mapping[str, Value]] = ()
