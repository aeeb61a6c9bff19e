"""Files and lines of the code of patterns, for messages."""

import inspect
import re
import traceback
from pathlib import Path
from types import FrameType

from xoptim.match.rewrite import Rewrite


def calling_frame(levels: int = 1) -> FrameType:
    """The frame that is ``levels`` calls above the function that calls this one."""
    frame = inspect.currentframe()
    for _ in range(levels + 1):
        assert frame is not None
        frame = frame.f_back
    assert frame is not None
    return frame


def class_line(cls: type[Rewrite], method: str = "") -> tuple[str, int]:
    """File and line of a class or of its method; empty when there is no source."""
    try:
        code = getattr(cls, method) if method else cls
        return inspect.getsourcefile(code) or "", inspect.getsourcelines(code)[1]
    except (OSError, TypeError, AttributeError):
        return "", 0


def attribute_line(cls: type[Rewrite], name: str) -> tuple[str, int]:
    """File and line where a class, or one that it extends, sets an attribute.

    Empty when there is no source.
    """
    owner = next(
        (
            c
            for c in cls.__mro__
            if name in vars(c) and not c.__module__.startswith("xoptim.match.")
        ),
        cls,
    )
    try:
        lines, first = inspect.getsourcelines(owner)
    except (OSError, TypeError):
        return "", 0
    offset = next((i for i, line in enumerate(lines) if re.match(rf"\s+{name}\b", line)), 0)
    return inspect.getsourcefile(owner) or "", first + offset


def error_line(error: BaseException, cls: type[Rewrite]) -> tuple[str, int]:
    """File and line where the code of a pattern raised an error.

    This is the innermost line in the file of the pattern; if there is none, the line that raised
    the error.
    """
    frames = traceback.extract_tb(error.__traceback__)
    home = class_line(cls)[0]
    frame = next((f for f in reversed(frames) if f.filename == home), frames[-1])
    return frame.filename, frame.lineno or 0


def line_of_mistake(error: BaseException, cls: type[Rewrite]) -> str:
    """``FILE:LINE`` of the mistake in a pattern: of the call that raised an error, or else of the
    method that makes the replacement.

    Empty when there is no source.
    """
    frames = [
        (frame.filename, frame.lineno or 0) for frame in traceback.extract_tb(error.__traceback__)
    ]
    methods = [class_line(cls, method) for method in ("apply_pattern", "apply", "run", "")]
    home = class_line(cls)[0]
    places = [
        *(place for place in reversed(frames) if place[0] == home),
        *reversed(frames),
        *methods,
    ]
    return next((f"{file}:{line}" for file, line in places if file and not _is_own(file)), "")


_PACKAGE = Path(__file__).parent.parent


def _is_own(file: str) -> bool:
    """Whether a file belongs to xoptim, and not to its patterns."""
    path = Path(file)
    return path.is_relative_to(_PACKAGE) and not path.is_relative_to(_PACKAGE / "patterns")


def raised_at(error: BaseException) -> tuple[str, int]:
    """File and line at which an error left the function that the ``try`` block called."""
    entry = error.__traceback__ and error.__traceback__.tb_next
    return (entry.tb_frame.f_code.co_filename, entry.tb_lineno) if entry else ("", 0)
