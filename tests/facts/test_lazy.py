import sys
import threading
from pathlib import Path

import pytest

from xoptim.facts.lazy import lazy_module


@pytest.fixture
def counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module that notes each time it is executed."""
    name = "lazily_imported_example"
    (tmp_path / f"{name}.py").write_text(
        "import time\n"
        "from pathlib import Path\n"
        f"log = Path({str(tmp_path / 'log')!r})\n"
        "log.write_text(log.read_text() + 'x' if log.exists() else 'x')\n"
        "time.sleep(0.05)\n"
        "value = 42\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, name, raising=False)
    return name


def test_imports_at_first_attribute(counted: str, tmp_path: Path) -> None:
    module = lazy_module(counted)
    assert counted not in sys.modules
    assert counted in repr(module)
    assert not (tmp_path / "log").exists()
    assert module.value == 42
    assert "value" in dir(module)
    assert (tmp_path / "log").read_text() == "x"


def test_follows_later_changes(counted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module = lazy_module(counted)
    assert module.value == 42
    monkeypatch.setattr(sys.modules[counted], "value", 43)
    assert module.value == 43


def test_threads_import_once_and_see_everything(counted: str, tmp_path: Path) -> None:
    module = lazy_module(counted)
    seen: list[int] = []
    threads = [threading.Thread(target=lambda: seen.append(module.value)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [42] * 4
    assert (tmp_path / "log").read_text() == "x"


def test_a_missing_module_hurts_only_who_uses_it() -> None:
    module = lazy_module("no_such_module_anywhere")
    with pytest.raises(ModuleNotFoundError, match="no_such_module_anywhere"):
        _ = module.value
    with pytest.raises(AttributeError, match="nothing_like_it"):
        _ = lazy_module("math").nothing_like_it
