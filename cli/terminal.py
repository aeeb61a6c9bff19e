"""Output of the command without control characters, which names in a model may contain."""

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final, TextIO

import click
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

_UNWRAPPED: Final = 1 << 16
"""Width of output that is not a terminal, in columns."""
_UNSAFE: Final = (
    *(code for code in range(0x20) if chr(code) not in "\t\n"),
    *range(0x7F, 0xA0),
    # line separators, and bidirectional controls
    *(0x061C, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A)),
    *range(0xD800, 0xE000),  # bytes of file names that are not UTF-8
)
_ESCAPES: Final = {code: ascii(chr(code))[1:-1] for code in _UNSAFE}
_IN_LINE: Final = {**_ESCAPES, 0x09: "\\t", 0x0A: "\\n"}


def escaped(text: str) -> str:
    """A text whose control characters are escaped: ``\\x1b`` becomes four characters.

    Tabs and line breaks stay.
    """
    return text.translate(_ESCAPES)


def in_line(text: str) -> str:
    """A text in one line, without control characters."""
    return text.translate(_IN_LINE)


def say(text: object, *, err: bool = False) -> None:
    """Print one line."""
    click.echo(in_line(str(text)), err=err)


class EscapedStream:
    """A text stream that escapes all text that is written to it.

    rich writes its styles to the underlying stream (see `SafeConsole`).
    """

    def __init__(self, stream: TextIO) -> None:
        self.rich_proxied_file = stream

    def write(self, text: str | bytes) -> int:
        """Write a text, or bytes: click encodes the completions that a shell asks for."""
        decoded = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
        self.rich_proxied_file.write(escaped(decoded))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write several texts."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        if name == "buffer":  # bytes that are written to the buffer would not be escaped
            raise AttributeError(name)
        return getattr(self.rich_proxied_file, name)


@contextmanager
def escaped_output() -> Iterator[None]:
    """Escape all text that is written to standard output and standard error."""
    streams = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (stream and EscapedStream(stream) for stream in streams)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = streams


class SafeConsole(Console):
    """A console that escapes texts, and prints each text in one line.

    Markup is off, since names in a model may look like markup.
    """

    def __init__(self, *, to_stderr: bool = False, width: int | None = None) -> None:
        super().__init__(markup=False, emoji=False, soft_wrap=True, width=width, stderr=to_stderr)

    def print(self, *objects: Any, **settings: Any) -> None:
        """Print texts and tables."""
        super().print(
            *(in_line(item) if isinstance(item, str) else item for item in objects), **settings
        )

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """The parts of an output, escaped unless rich made them to control the terminal."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(escaped(segment.text), segment.style)

    def on_broken_pipe(self) -> None:
        """Leave the exit code to the command (rich would return 1, as for models that differ)."""
        raise BrokenPipeError


def open_console(*, to_stderr: bool = False) -> SafeConsole:
    """Standard output, or standard error. Piped lines are not wrapped."""
    width = None if SafeConsole(to_stderr=to_stderr).is_terminal else _UNWRAPPED
    return SafeConsole(to_stderr=to_stderr, width=width)
