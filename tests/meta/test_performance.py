"""The README shows rows of docs/performance.md, and the page has a column for each of our selections."""

from typing import Any

from benchmarks.performance import PAGE, TOOLS, mean, number_of_nodes, table
from tests.meta.sources import ROOT
from tests.support import parse

SECTION = "## How much smaller and faster"


def test_the_figures_of_the_readme_are_those_of_the_page() -> None:
    readme, page = (path.read_text(encoding="utf-8") for path in (ROOT / "README.md", PAGE))
    section = readme.split(SECTION)[1].split("\n## ")[0]
    rows = [line.split("|")[2:] for line in section.splitlines() if line.startswith("| ") and "%" not in line][1:]
    shown = [[cell.strip() for cell in row if cell.strip()] for row in rows]
    found = [[cell.strip() for cell in line.split("|") if cell.strip()] for line in page.splitlines()]
    averages = [cells[2:] for cells in found if cells[:1] == ["all"]]
    assert len(shown) == len(averages)
    assert all(row == average[: len(row)] for row, average in zip(shown, averages, strict=True))


def test_the_columns_of_the_page() -> None:
    heads = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| family")]
    columns = [[cell.strip() for cell in head.split("|") if cell.strip()][2:] for head in heads]
    assert columns
    assert all(set(each) <= set(TOOLS) and "xopt" in each for each in columns)


def test_averages_are_geometric() -> None:
    figures: dict[str, dict[str, Any]] = {
        "a.x.y": {"xopt": {"time": 0.5}},
        "a.z.y": {"xopt": {"time": 2.0}},
        "b.u.y": {"xopt": {"failed": "no"}},
    }
    assert mean([0.5, 2.0]) == 1.0
    assert table(figures, "time")[2:] == ["| a | 2 | 1.00 |", "| b | 1 |  |", "| all | 3 | 1.00 |"]


def test_nodes_of_subgraphs_count_and_constants_do_not() -> None:
    text = """agraph (float[n] x, bool c) => (float[n] y) { o = Constant <value = float {1}> () t = Add(x, o)
        y = If (c) <then_branch = a () => (float[n] z) { z = Neg(t) }, else_branch = b () => (float[n] z) { z = Abs(t) }> }"""
    assert number_of_nodes(parse(text).graph) == 4
