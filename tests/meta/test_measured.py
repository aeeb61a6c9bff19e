"""Pages show the measurements that stand in files next to them."""

from pathlib import Path

import pytest

from benchmarks.measured import ROOT, Table, current, keep, merged, pages, read


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.relative_to(ROOT).as_posix())
def test_pages_are_current(page: Path) -> None:
    written = page.read_text(encoding="utf-8")
    assert current(page) == written, "run `python -m benchmarks.measured`"


def test_pages_have_measurements() -> None:
    assert {page.stem for page in pages()} >= {"decoders", "payoff", "performance"}


def test_tables_are_kept_as_they_are(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("one\n<!-- a b -->\n| old |\n\ntwo\n", encoding="utf-8")
    table = Table(["name", "time"], [['"x" → y', "0.50 (0.40 to 0.60)"], ["z", ""]])
    keep(page, {"a b": table})
    assert read(page) == {"a b": table}
    assert page.read_text(encoding="utf-8").splitlines() == [
        "one",
        "<!-- a b -->",
        "| name | time |",
        "|---|---:|",
        '| "x" → y | 0.50 (0.40 to 0.60) |',
        "| z |  |",
        "",
        "two",
    ]
    keep(page, {"a b": Table(["name"], [])})
    assert "0.50" not in page.read_text(encoding="utf-8")
    with pytest.raises(ValueError, match="one mark is expected: <!-- c -->"):
        keep(page, {"c": table})


def test_rows_replace_older_ones() -> None:
    old = Table(["name", "threads", "time"], [["b", "1", "0.5"], ["a", "2", "0.7"]])
    new = Table(["name", "threads", "time"], [["b", "1", "0.4"]])
    assert merged(old, new, keys=2).rows == [["a", "2", "0.7"], ["b", "1", "0.4"]]
    assert merged(None, new, keys=2).rows == [["b", "1", "0.4"]]
