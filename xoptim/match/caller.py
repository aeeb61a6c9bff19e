"""The code that calls a function: where a pattern states a condition, or where a class is made."""

from __future__ import annotations

import inspect
from types import FrameType


def calling_frame(levels: int = 1) -> FrameType:
    """The frame of the code that calls the function which calls this one; ``levels=2`` is the caller of that code."""
    frame = inspect.currentframe()
    for _ in range(levels + 1):
        assert frame is not None
        frame = frame.f_back
    assert frame is not None
    return frame
