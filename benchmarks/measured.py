"""Measurements in TOML files, next to the pages that show them as tables.

    python -m benchmarks.measured           # write the tables into the pages (make docs)

``lab/payoff.toml`` holds the tables of ``lab/payoff.md``. On the page, each table follows an HTML
comment with its name.
"""

import json
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parents[1]


class Table(NamedTuple):
    """A table of a page: names of the columns, and rows of cells."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]

    def markdown(self) -> str:
        """The table as Markdown. Columns of numbers are aligned right, but for the first one."""
        marks = [
            "---:" if self._has_numbers(index) else "---" for index in range(len(self.columns))
        ]
        lines = [self.columns, *self.rows]
        shown = [f"| {' | '.join(cells)} |" for cells in lines]
        return "\n".join((shown[0], f"|{'|'.join(marks)}|", *shown[1:]))

    def dictionaries(self) -> list[dict[str, str]]:
        """The rows, each by column."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]

    def _has_numbers(self, index: int) -> bool:
        cells = [row[index] for row in self.rows if row[index]]
        return index > 0 and bool(cells) and all(cell[0].isdigit() for cell in cells)


def pages() -> list[Path]:
    """The pages with measurements in a file next to them."""
    files = (*(ROOT / "docs").glob("*.toml"), *(ROOT / "lab").glob("*.toml"))
    return sorted(file.with_suffix(".md") for file in files)


def read(page: Path) -> dict[str, Table]:
    """The tables of a page by name."""
    text = page.with_suffix(".toml").read_text(encoding="utf-8")
    return {name: Table(**fields) for name, fields in tomllib.loads(text).items()}


def keep(page: Path, tables: Mapping[str, Table]) -> None:
    """Write tables into the file next to a page, and into the page."""
    lines = ["# Measured; `python -m benchmarks.measured` writes the tables into the page."]
    for name, table in tables.items():
        lines += ["", f"[{_quoted(name)}]", f"columns = {_quoted(table.columns)}", "rows = ["]
        lines += [*(f"    {_quoted(row)}," for row in table.rows), "]"]
    page.with_suffix(".toml").write_text("\n".join(lines) + "\n", encoding="utf-8")
    page.write_text(current(page), encoding="utf-8")


def current(page: Path) -> str:
    """The text of a page with the tables of its file."""
    text = page.read_text(encoding="utf-8")
    for name, table in read(page).items():
        text = with_table(text, name, table)
    return text


def with_table(text: str, name: str, table: Table) -> str:
    """The text of a page with a table after the comment of its name, in place of the old table.

    Raises `ValueError` when the page does not have exactly one such comment.
    """
    mark = f"<!-- {name} -->\n"
    if text.count(mark) != 1:
        raise ValueError(f"one mark is expected: {mark.strip()}")
    head, _, rest = text.partition(mark)
    while rest.startswith("|"):
        rest = rest.partition("\n")[2]
    return f"{head}{mark}{table.markdown()}\n{rest}"


def merged(old: Table | None, new: Table, keys: int) -> Table:
    """The sorted rows of both tables; of rows whose first ``keys`` cells are equal, the new one."""
    rows = {tuple(row[:keys]): row for table in (old, new) if table for row in table.rows}
    return Table(new.columns, [row for _, row in sorted(rows.items())])


def _quoted(value: str | Iterable[str]) -> str:
    return json.dumps(value if isinstance(value, str) else [*value], ensure_ascii=False)


if __name__ == "__main__":
    for page_path in pages():
        page_path.write_text(current(page_path), encoding="utf-8")
