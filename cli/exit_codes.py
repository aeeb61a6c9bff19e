"""Exit codes; `Ended` has those of signals."""

from typing import Final

DIFFERENT: Final = 1
BAD_USAGE: Final = 2
NOT_VALIDATED: Final = 3
INTERRUPTED: Final = 130  # as in the shell: 128 plus the number of the signal
UNREAD: Final = 141
