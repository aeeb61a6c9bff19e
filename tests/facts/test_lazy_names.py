"""Names of a package that are imported when they are asked for."""

import sys
from pathlib import Path
from typing import Any, cast

import pytest

import xoptim
from lab.public_names import FILE, imported, text
from xoptim.facts.lazy import exports
from xoptim.facts.public_names import PUBLIC_NAMES

SOURCE = """
from typing import TYPE_CHECKING

from xoptim.facts.lazy import on_demand

if TYPE_CHECKING:
    from lazy_package.first import one as one, two as zwei
else:
    __getattr__ = on_demand(__name__)
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    folder = tmp_path / "lazy_package"
    folder.mkdir()
    (folder / "__init__.py").write_text(SOURCE)
    (folder / "first.py").write_text("one = 1\ntwo = 2\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("lazy_package", "lazy_package.first"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(cast(dict[str, Any], PUBLIC_NAMES), "lazy_package", imported(SOURCE))
    return "lazy_package"


def test_a_name_is_imported_when_it_is_asked_for(package: str) -> None:
    made = __import__(package)
    assert exports(package) == ["one", "zwei"]
    assert f"{package}.first" not in sys.modules
    assert (made.one, made.zwei) == (1, 2)
    assert vars(made)["one"] == 1
    assert f"{package}.first" in sys.modules
    with pytest.raises(AttributeError, match=r"'lazy_package' .*'two'"):
        made.two  # noqa: B018


def test_all_public_names_can_be_imported() -> None:
    assert {*xoptim.__all__} <= {*exports("xoptim")}
    for package in ("xoptim", "xoptim.bench", "xoptim.targets", "xoptim.tuning"):
        module = __import__(package, fromlist=["_"])
        for name in exports(package):
            assert getattr(module, name) is not None


def test_the_table_has_the_imports_for_type_checkers() -> None:
    assert FILE.read_text(encoding="utf-8") == text(), "`make docs` writes it"
