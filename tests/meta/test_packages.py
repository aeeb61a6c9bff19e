"""The pages that name the rooms of the house name all of them, on the floors where they are."""

import re

from tests.meta.sources import FOLDERS, ROOT
from tests.meta.test_floors import FLOORS

UNNAMED = {"__init__", "__main__"}
"""Modules that are the package itself."""


def _names(text: str) -> list[str]:
    """The words in code style."""
    return re.findall(r"`([^`]+)`", text)


def test_the_table_of_rooms_is_complete() -> None:
    page = (ROOT / "docs" / "how-it-works.md").read_text(encoding="utf-8")
    rows = re.findall(r"(?m)^\| (\d+) \| ([^|]+) \|", page)
    floors = {name: int(floor) for floor, names in rows for name in _names(names)}
    assert all((ROOT / name).exists() for name in floors), floors
    rooms = {
        re.sub(r"^xoptim/|\.py$|/$", "", name): floor
        for name, floor in floors.items()
        if name.startswith("xoptim/")
    }
    assert rooms == {name: floor for name, floor in FLOORS.items() if name not in UNNAMED}
    assert set(floors) - {name for name in floors if name.startswith("xoptim/")} == {"cli/"}


def test_contributing_names_the_folders() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    named = re.findall(r"(?m)^\| `(\w+)/` \|", page)
    assert sorted(named) == sorted((*FOLDERS, "docs"))
    assert all((ROOT / name).is_dir() for name in named)


def test_contributing_names_the_rooms_in_order() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    (line,) = re.findall(r"(?s)lowest layer first: (.*?)\. \[", page)
    floors = [{FLOORS[name] for name in _names(names)} for names in line.split("<")]
    assert all(len(floor) == 1 for floor in floors)
    assert [floor for (floor,) in floors] == sorted({floor for (floor,) in floors})
    # links
    packages = {path.parent.name for path in (ROOT / "xoptim").glob("*/__init__.py")} - {
        "cli",
        "patterns",
    }
    assert sorted(_names(line)) == sorted(packages)
