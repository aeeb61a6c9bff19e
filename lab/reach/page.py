"""Write ``lab/reach.md`` from the rows of this package: ``python -m lab.reach.page``.

With ids of rows, print their models before and after the optimization.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import onnx

import xoptim
from lab.reach import choices, cleanup, flow, kernels, matmul, movement, parts, sizes, traditional
from lab.reach.rows import Row, Theme
from lab.reach.suites import section
from tests.support import parse
from xoptim.engine.events import Application

TARGET = Path(__file__).parents[2] / "lab" / "reach.md"
HEAD = """# Reach

Rewrites that optimizers of ONNX graphs have, and whether xoptim has them. Written by `make docs`
from the table in `lab/reach`; each of the {count} covered rows has a tiny model there, and a test
fails when its result is no longer the one listed here. `python -m lab.reach.page ID` prints a
model before and after.

`x @ z` is MatMul, `x · z` is Mul, and `[x, z]` is Concat.
"""


class Reached(NamedTuple):
    """The result of optimizing the model of a row.

    Attributes:
        before: the model.
        after: the optimized model.
        by: names of the patterns and passes that were applied.
    """

    before: onnx.ModelProto
    after: onnx.ModelProto
    by: list[str]


def themes() -> tuple[Theme, ...]:
    """All themes, in the order of the page."""
    portable = (
        movement.THEME,
        parts.THEME,
        sizes.THEME,
        choices.THEME,
        matmul.THEME,
        flow.THEME,
        traditional.THEME,
    )
    return (*portable, cleanup.THEME, kernels.THEME)


def rows() -> Iterator[tuple[str, Row]]:
    """The covered rows with their ids, such as ``2.7`` for row 7 of theme 2."""
    for number, theme in enumerate(themes(), 1):
        for index, row in enumerate(theme.rows, 1):
            yield f"{number}.{index}", row


def reached(row: Row) -> Reached:
    """Optimize the model of a row with the default patterns."""
    applications: list[Application] = []
    before = parse(row.model, row.opset)
    after = xoptim.optimize(before, strict=True, on_application=applications.append)
    names = dict.fromkeys(application.pattern.name() for application in applications)
    return Reached(before, after, list(names))


def operators(model: onnx.ModelProto) -> str:
    """The operators of a graph, sorted."""
    return " ".join(sorted(node.op_type for node in model.graph.node)) or "none"


def page() -> str:
    """The content of ``lab/reach.md``."""
    parts = [HEAD.format(count=sum(1 for _ in rows()))]
    for number, theme in enumerate(themes(), 1):
        lines = [
            f"| {number}.{index} | {_cell(row.rewrite)} | {operators(parse(row.model, row.opset))} "
            f"| {row.after} | {', '.join(row.by) or 'folding and merging'} |\n"
            for index, row in enumerate(theme.rows, 1)
        ]
        parts.append(
            "\n"
            f"## {theme.title}\n"
            "\n"
            "| id | rewrite | before | after | by |\n"
            "|---|---|---|---|---|\n"
            f"{''.join(lines)}"
        )
        if theme.refused:
            lines = [f"| {_cell(row.rewrite)} | {_cell(row.reason)} |\n" for row in theme.refused]
            parts.append(f"\n| not done | reason |\n|---|---|\n{''.join(lines)}")
    return "".join([*parts, section()])


def _cell(words: str) -> str:
    return words.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")


def main(arguments: list[str]) -> int:
    """Write the page, or show the models of some rows."""
    if not arguments:
        TARGET.write_text(page(), encoding="utf-8")
    rows_by_id = dict(rows())
    for key in arguments:
        row = rows_by_id[key]
        result = reached(row)
        before, after = (
            onnx.printer.to_text(model.graph) for model in (result.before, result.after)
        )
        sys.stdout.write(f"{row.rewrite}\n\n{before}\n\nby {', '.join(result.by)}:\n\n{after}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
