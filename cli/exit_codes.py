"""Exit codes; `Ended` has those of signals."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:  # `start` reads this module before signals are handled: nothing large may load
    from xoptim import ValidationReport

DIFFERENT: Final = 1
BAD_USAGE: Final = 2
NOT_VALIDATED: Final = 3
UNAVAILABLE: Final = 3
"""The execution provider of a target is missing or finds no device."""
INTERRUPTED: Final = 130  # as in the shell: 128 plus the number of the signal
UNREAD: Final = 141


def code_of(reports: Iterable[ValidationReport], *, doubtful: int = NOT_VALIDATED) -> int:
    """The exit code of a command that compares models; ``doubtful`` where they are not validated.

    Models that list assumptions that were not given may be equal where these hold.
    """
    failed = [report for report in reports if not report.ok]
    if any(report.status == "different" for report in failed):
        return DIFFERENT
    if any(report.cause == "assumptions" for report in failed):
        return NOT_VALIDATED
    return doubtful if failed else 0
