"""Print JSON, and tables that never truncate a cell: cells that do not fit go below their row."""

import json
import textwrap
from collections.abc import Collection, Sequence
from typing import Any, Final

import click
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table

from xoptim.diagnose.explanation import json_value

from .files import readable
from .terminal import in_line, open_console as open_console

_GAP: Final = 2
_INDENT: Final = " " * 4


class Rows:
    """The rows of a table.

    Args:
        headings: the headings of the columns. The first column identifies a row.
        prose: the headings of columns with words. Only their cells are wrapped, between words.
        right: the headings of the columns that are justified to the right.
    """

    def __init__(
        self, *headings: str, prose: Collection[str] = (), right: Collection[str] = ()
    ) -> None:
        self._headings = headings
        self._prose = prose
        self._right = right
        self._rows: list[tuple[Sequence[str], str]] = []

    def add(self, *cells: str, style: str = "") -> None:
        """Add a row. Missing cells at its end are empty."""
        missing = [""] * (len(self._headings) - len(cells))
        self._rows.append(([*map(in_line, cells), *missing], style))

    def add_title(self, text: str) -> None:
        """Add a title above the rows that follow."""
        self.add(text, style="bold")

    def print(self, console: Console) -> None:
        """Print the rows as a table, if it fits into the width of the console.

        Otherwise, the cells of a row that do not fit are printed below the row.
        """
        rows = [(self._headings, "bold"), *self._rows]
        widths = [
            max(map(cell_len, column)) + _GAP
            for column in zip(*(cells for cells, _ in rows), strict=True)
        ]
        if sum(widths) <= console.width:
            console.print(self._table())
            return
        columns = range(len(widths))
        plain = [number for number in columns if self._headings[number] not in self._prose]
        inline = plain if sum(widths[number] for number in plain) <= console.width else [0]
        for cells, style in rows:
            line = "".join(
                cells[number] + " " * (widths[number] - cell_len(cells[number]))
                for number in inline
            )
            self._say(console, line.rstrip(), style)
            for number in columns:
                if number not in inline and cells is not self._headings:
                    self._below(console, self._headings[number], cells[number])

    def _table(self) -> Table:
        table = Table(box=None, pad_edge=False)
        for heading in self._headings:
            table.add_column(
                heading, justify="right" if heading in self._right else "left", no_wrap=True
            )
        for cells, style in self._rows:
            table.add_row(*cells, style=style or None)
        return table

    def _below(self, console: Console, heading: str, cell: str) -> None:
        if heading in self._prose:
            width = max(console.width - len(_INDENT), 20 - len(_INDENT))
            for line in textwrap.wrap(cell, width, break_long_words=False, break_on_hyphens=False):
                self._say(console, f"{_INDENT}{line}")
        elif cell:
            self._say(console, f"{_INDENT}{heading} {cell}")

    @staticmethod
    def _say(console: Console, text: str, style: str = "") -> None:
        console.print(text, style=style or None, soft_wrap=True, highlight=False)


def print_json(value: Any) -> None:
    """Print a result, or results, as JSON, in which NaN and infinities are texts.

    The temporary folder of a model that was read from a stream is not printed.
    """
    click.echo(readable(json.dumps(json_value(value), indent=2, allow_nan=False)))
