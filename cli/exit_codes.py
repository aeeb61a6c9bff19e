"""Exit codes, and the exception that SIGTERM raises."""

from typing import Final

DIFFERENT: Final = 1
BAD_USAGE: Final = 2
NOT_VALIDATED: Final = 3
INTERRUPTED: Final = 130  # as in the shell: 128 plus the number of the signal
UNREAD: Final = 141
TERMINATED: Final = 143


class Terminated(BaseException):
    """The process received SIGTERM; raised so that no half-written file remains."""


def terminate(*_: object) -> None:
    """Handle SIGTERM."""
    raise Terminated
