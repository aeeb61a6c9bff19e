"""The tests mirror the tree: ``xoptim/package/file.py`` is tested in ``tests/package``."""

from pathlib import Path

from tests.meta.sources import ROOT

TESTS = ROOT / "tests"
ACROSS = {
    "conformance",
    "decoders",
    "discovery",
    "fuzzing",
    "hostile",
    "meta",
    "mutation",
    "properties",
    "reach",
    "real_models",
    "seeds",
}
"""Folders of tests that concern several packages."""


def sources_of(folder: Path) -> Path:
    """The folder of the sources that a folder of tests is about."""
    inside = folder.relative_to(TESTS)
    return (
        ROOT / inside if inside.parts[:1] in (("cli",), ("patterns",)) else ROOT / "xoptim" / inside
    )


def folders() -> list[Path]:
    """The folders of tests that are about one package, and ``tests`` itself."""
    found = {path.parent for path in TESTS.rglob("test_*.py")}
    return sorted(folder for folder in found if not ACROSS & set(folder.relative_to(TESTS).parts))


def test_each_folder_is_about_a_package() -> None:
    assert [folder for folder in folders() if not sources_of(folder).is_dir()] == []
    assert {name for name in ACROSS if not list((TESTS / name).glob("*.py"))} == set()
