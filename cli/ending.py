"""Exit codes of a command that a signal ends, and the exception that SIGTERM raises."""

from __future__ import annotations

from typing import Final

INTERRUPTED: Final = 130  # as in the shell: 128 plus the number of the signal
TERMINATED: Final = 143


class Terminated(BaseException):
    """The process received SIGTERM; raised so that no half-written file is left behind."""


def terminate(*_: object) -> None:
    """Handle SIGTERM.

    Raises:
        Terminated: always.
    """
    raise Terminated
