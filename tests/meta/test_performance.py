"""The README shows rows of docs/performance.md, and the page has a column for each of our
selections.
"""

from typing import Any

from benchmarks.performance import PAGE, README, TOOLS, mean, number_of_nodes, page, readme, table
from tests.meta.sources import ROOT
from tests.support import parse

SECTION = "## How much smaller and faster"


def test_the_figures_of_the_readme_are_those_of_the_page() -> None:
    readme, page = (path.read_text(encoding="utf-8") for path in (ROOT / "README.md", PAGE))
    section = readme.split(SECTION)[1].split("\n## ")[0]
    rows = [
        line.split("|")[2:]
        for line in section.splitlines()
        if line.startswith("| ") and "%" not in line
    ][1:]
    shown = [[cell.strip() for cell in row if cell.strip()] for row in rows]
    found = [
        [cell.strip() for cell in line.split("|") if cell.strip()] for line in page.splitlines()
    ]
    averages = [cells[2:] for cells in found if cells[:1] == ["all"]]
    assert len(shown) == len(averages)
    assert all(row == average[: len(row)] for row, average in zip(shown, averages, strict=True))


def test_the_columns_of_the_page() -> None:
    heads = [
        line
        for line in PAGE.read_text(encoding="utf-8").splitlines()
        if line.startswith("| family")
    ]
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


FIGURES: dict[str, dict[str, Any]] = {
    name: {
        "the same": {"time": 1.0},
        "xopt": {
            "nodes": 0.5,
            "time": time,
            "interval": [time, time],
            "time off": 1.1,
            "interval off": [1.05, 1.2],
            **lengths,
        },
        "onnxslim": {"failed": "not equal"},
    }
    for name, time, lengths in (
        ("bert.a.script", 0.8, {"at 1": 0.4, "at 512": 1.1}),
        ("cnn.b.script", 0.9, {}),
    )
}


def test_the_page_has_a_table_for_each_length_and_the_readme_its_last_rows() -> None:
    averages = [line for line in page(FIGURES).splitlines() if line.startswith("| all")]
    assert averages == [
        "| all | 2 | 0.50 |  |", "| all | 2 | 0.85 |  |", "| all | 1 | 0.40 |  |",
        "| all | 1 | 1.10 |  |", "| all | 2 | 1.10 |  |",
    ]  # fmt: skip
    text = README.read_text(encoding="utf-8")
    changed = readme(text, FIGURES).splitlines()
    assert [line for line in changed if line not in text.splitlines()] == [
        "| | xopt | onnxslim |", "|---|---:|---:|", "| nodes | 0.50 |  |",
        "| time of a run | 0.85 |  |", "| one token | 0.40 |  |", "| 512 tokens | 1.10 |  |",
        "| without onnxruntime's | 1.10 |  |",
    ]  # fmt: skip
    others = [line for line in text.splitlines() if not line.startswith("|")]
    assert [line for line in changed if not line.startswith("|")] == others
    section = text.split(SECTION)[1].split("\n## ")[0]
    elsewhere = text.count("\n|") - section.count("\n|")
    assert len(changed) == len(others) + elsewhere + 7


def test_results_that_are_slower_are_named() -> None:
    assert "| xopt | 2 | 2 | bert.a.script 1.10, cnn.b.script 1.10 |  |" in page(FIGURES)


def test_nodes_of_subgraphs_count_and_constants_do_not() -> None:
    text = """agraph (float[n] x,
      bool c) => (float[n] y) { o = Constant <value = float {1}> () t = Add(x, o)
        y = If (c) <then_branch = a () => (float[n] z) { z = Neg(t) },
          else_branch = b () => (float[n] z) { z = Abs(t) }> }"""
    assert number_of_nodes(parse(text).graph) == 4
