"""Output: JSON, and tables that never truncate a cell: what a narrow terminal has no room for goes below its row."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Collection, Sequence
from typing import Any, Final, NamedTuple

import click
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table

from .files import readable

_GAP: Final = 2
_INDENT: Final = " " * 4
_UNWRAPPED: Final = 1 << 16
"""Columns of output that is not a terminal."""


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Leave the exit code to the command (rich would return 1, as for models that differ)."""
        raise BrokenPipeError


def open_console(*, to_stderr: bool = False) -> Console:
    """Standard output, or standard error, without markup, since names may look like it. Piped lines are not wrapped."""
    width = None if Console(stderr=to_stderr).is_terminal else _UNWRAPPED
    return _Console(markup=False, emoji=False, soft_wrap=True, width=width, stderr=to_stderr)


class _Row(NamedTuple):
    cells: Sequence[str]
    style: str
    is_title: bool


class Rows:
    """The rows of a table.

    Args:
        headings: of the columns. The first column identifies a row.
        prose: headings of the columns that hold words: only these are wrapped, between words.
        right: headings of the columns that are justified to the right.
    """

    def __init__(self, *headings: str, prose: Collection[str] = (), right: Collection[str] = ()) -> None:
        self._headings = headings
        self._prose = prose
        self._right = right
        self._rows: list[_Row] = []

    def add(self, *cells: str, style: str = "") -> None:
        """Add a row; cells that are missing at its end are empty."""
        self._rows.append(_Row([*cells, *[""] * (len(self._headings) - len(cells))], style, False))

    def add_title(self, text: str) -> None:
        """Add a title above the rows that follow."""
        self._rows.append(_Row([text], "bold", True))

    def print(self, console: Console) -> None:
        """Print the rows as a table if it fits, else with the rest of each row below its beginning."""
        widths = [self._width(number) for number in range(len(self._headings))]
        if self._total(widths) <= console.width:
            console.print(self._table(range(len(self._headings))))
            return
        plain = [number for number, heading in enumerate(self._headings) if heading not in self._prose]
        beside = plain if self._total([widths[number] for number in plain]) <= console.width else [0]
        below = [number for number in range(len(self._headings)) if number not in beside]
        self._line(console, [self._headings[number] for number in beside], [widths[number] for number in beside], "bold")
        for row in self._rows:
            if row.is_title:
                self._say(console, row.cells[0], row.style)
                continue
            self._line(console, [row.cells[number] for number in beside], [widths[number] for number in beside], row.style)
            for number in below:
                self._below(console, self._headings[number], row.cells[number])

    def _width(self, number: int) -> int:
        cells = [row.cells[number] for row in self._rows if number < len(row.cells)]
        return max(map(cell_len, [self._headings[number], *cells]))

    @staticmethod
    def _total(widths: Sequence[int]) -> int:
        return sum(widths) + _GAP * len(widths)

    def _table(self, columns: Sequence[int]) -> Table:
        table = Table(box=None, pad_edge=False)
        for number in columns:
            heading = self._headings[number]
            table.add_column(heading, justify="right" if heading in self._right else "left", no_wrap=True)
        for row in self._rows:
            cells = [*row.cells, *[""] * (len(self._headings) - len(row.cells))]
            table.add_row(*(cells[number] for number in columns), style=row.style or None)
        return table

    def _line(self, console: Console, cells: Sequence[str], widths: Sequence[int], style: str) -> None:
        padded = (cell + " " * (width - cell_len(cell)) for cell, width in zip(cells, widths, strict=True))
        self._say(console, (" " * _GAP).join(padded).rstrip(), style)

    def _below(self, console: Console, heading: str, cell: str) -> None:
        if heading in self._prose:
            wrapped = textwrap.wrap(
                cell,
                max(console.width, 20),
                initial_indent=_INDENT,
                subsequent_indent=_INDENT,
                break_long_words=False,
                break_on_hyphens=False,
            )
            for line in wrapped:
                self._say(console, line)
        elif cell:
            self._say(console, f"{_INDENT}{heading} {cell}")

    @staticmethod
    def _say(console: Console, text: str, style: str = "") -> None:
        console.print(text, style=style or None, soft_wrap=True, highlight=False)


def print_json(value: Any) -> None:
    """Print a value as JSON; of a model that was read from a stream, without its temporary folder."""
    click.echo(readable(json.dumps(value, indent=2)))
