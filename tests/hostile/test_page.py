"""The page of the site has a row for each test."""

from importlib import import_module
from pathlib import Path

from tests.hostile.page import THEMES, WITHOUT_ROWS, page, rows


def test_every_row_is_in_the_page() -> None:
    text = page()
    cases = [
        row for name in THEMES.values() for row in rows(import_module(f"tests.hostile.{name}"))
    ]
    assert [case.id for case in cases if f"\n| {case.id} | " not in text] == []
    assert f"; {len(cases)} rows." in text


def test_every_theme_is_in_the_page() -> None:
    found = {path.stem for path in Path(__file__).parent.glob("test_*.py")}
    assert found - {"test_page"} == {*THEMES.values(), *WITHOUT_ROWS}


def test_rows_have_names_of_their_own() -> None:
    ids = [
        row.id for name in THEMES.values() for row in rows(import_module(f"tests.hostile.{name}"))
    ]
    assert len(set(ids)) == len(ids) > 150
