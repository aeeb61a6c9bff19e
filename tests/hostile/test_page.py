"""The page in the docs says what the tests say."""

from importlib import import_module
from pathlib import Path

from tests.hostile.page import TARGET, THEMES, page, rows


def test_the_page_is_up_to_date() -> None:
    assert TARGET.read_text(encoding="utf-8") == page(), "run `make docs`"


def test_every_theme_is_in_the_page() -> None:
    found = {path.stem for path in Path(__file__).parent.glob("test_*.py")}
    assert found - {"test_page"} == set(THEMES.values())


def test_rows_have_names_of_their_own() -> None:
    ids = [
        row.id for name in THEMES.values() for row in rows(import_module(f"tests.hostile.{name}"))
    ]
    assert len(set(ids)) == len(ids) > 150
