"""The exit codes of the command, and their meanings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:  # `start` imports this module before signals are handled: keep it quick to load
    from xoptim import VerificationReport

DONE: Final = 0
DIFFERENT: Final = 1
BAD_USAGE: Final = 2
NOT_VERIFIED: Final = 3
UNAVAILABLE: Final = 3
"""The execution provider of a target is missing or finds no device."""
# As in the shell: 128 plus the number of SIGINT, SIGPIPE and SIGTERM. `EndRequested` has the codes
# of all signals.
INTERRUPTED: Final = 130
UNREAD: Final = 141
TERMINATED: Final = 143
MEANINGS: Final[Mapping[int, str]] = {
    DONE: "done; a model that was written was found equal, unless --no-verify was given",
    DIFFERENT: "the models differ, or a check failed; the result is not written",
    BAD_USAGE: "bad usage, unreadable input, or another error; nothing is written",
    NOT_VERIFIED: "not verified, or the target cannot be used here; the messages say why",
    INTERRUPTED: "interrupted (Ctrl-C)",
    UNREAD: "standard output was closed",
    TERMINATED: "terminated (SIGTERM)",
}
"""The meaning of each exit code. The help of a command describes the codes of this command."""


def table() -> str:
    """The exit codes for the help, in short: the documentation has the meanings."""
    return "Exit codes: 0 done, 1 models differ or a check failed, 2 error, 3 not verified"


def code_of(reports: Iterable[VerificationReport], *, doubtful: int = NOT_VERIFIED) -> int:
    """The exit code of a command that compares models: ``doubtful`` if one is not verified.

    `NOT_VERIFIED` if models may be equal under assumptions in their metadata that were not given.
    """
    failed = [report for report in reports if not report.ok]
    if any(report.status == "different" for report in failed):
        return DIFFERENT
    if any(report.cause == "assumptions" for report in failed):
        return NOT_VERIFIED
    return doubtful if failed else 0
