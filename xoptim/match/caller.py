"""The code that calls a function: where a pattern states a condition, or where a class is made."""

from __future__ import annotations

import inspect
from types import FrameType


def calling_frame(levels: int = 1) -> FrameType:
    """The frame of the code that calls the function which calls this one.

    Args:
        levels: 2 for the caller of that code, and so on.
    """
    frame = inspect.currentframe()
    for _ in range(levels + 1):
        assert frame is not None
        frame = frame.f_back
    assert frame is not None
    return frame


def raised_at(error: BaseException) -> tuple[str, int]:
    """File and line of the call, made by the function that caught an error, in which it was raised."""
    below = error.__traceback__ and error.__traceback__.tb_next
    return (below.tb_frame.f_code.co_filename, below.tb_lineno) if below else ("", 0)
