"""A run without options runs the same part of the large batteries in each checkout, and with a
revision everything that differs from it.
"""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import changes
from tests.changes import files_since, is_touched, touched_modules, touches
from tests.meta.sources import ROOT
from tests.share import (
    FOUNDATION,
    is_in_share,
    is_pattern_in_share,
    is_slow_in_share,
    is_whole,
    packages_of,
    shared_parts,
)
from xoptim import installed_patterns

Changed = Callable[..., None]


@pytest.fixture
def changed(monkeypatch: pytest.MonkeyPatch) -> Changed:
    """Sets the files that differ; none at first, whatever the variables of this run are."""

    def change(*paths: str) -> None:
        monkeypatch.setattr(changes, "changed_files", lambda: frozenset(paths))

    monkeypatch.delenv("BATTERIES", raising=False)
    change()
    return change


def test_a_case_is_chosen_by_its_name(changed: Changed) -> None:
    names = [f"case {number}" for number in range(1000)]
    chosen = [name for name in names if is_in_share(name, 10)]
    assert 60 < len(chosen) < 140
    assert chosen == [name for name in reversed(names) if is_in_share(name, 10)][::-1]
    assert all(is_in_share(name, 1) for name in names)


def test_a_battery_is_whole_where_its_folder_differs(changed: Changed) -> None:
    assert shared_parts(16, 3, "xoptim/passes") == [0, 3, 6, 9, 12, 15]
    for path in ("xoptim/precision/budget.py", "tests/precision/models.py"):
        changed(path)
        assert is_whole("xoptim/precision", "tests/precision")
        assert is_in_share("any", 1000, "xoptim/precision", "tests/precision")
        assert not is_whole("xoptim/verification")
        assert not is_whole()
    changed("docs/precision.md", "xoptim/precision_budget.py")
    assert not is_whole("xoptim/precision")


def test_slow_tests_run_where_they_or_their_package_differ(changed: Changed) -> None:
    path = ROOT / "tests" / "verification" / "test_goals.py"
    place = path.relative_to(ROOT).as_posix()  # the share does not depend on the checkout's folder
    names = [f"{place}::test_{number}" for number in range(300)]

    def chosen(**module: object) -> int:
        return sum(is_slow_in_share(name, path, module) for name in names)

    assert 40 < chosen(parse=path) < 80
    assert chosen(part=is_in_share) == 300
    for file in ("xoptim/verification/inputs/dims.py", "tests/verification/test_goals.py"):
        changed(file)
        assert chosen() == 300
    changed("xoptim/precision/budget.py", "tests/verification/test_judge.py")
    assert chosen() < 80
    assert all(is_slow_in_share(name, ROOT / "tests/meta/test_snippets.py", {}) for name in names)


def test_the_package_of_a_file() -> None:
    assert packages_of("tests/cli/commands/test_list.py") == ["cli"]
    assert packages_of("tests/verification/test_goals.py") == ["xoptim/verification"]
    assert packages_of("tests/patterns/slices/test_sorted.py") == ["patterns/slices"]
    assert packages_of("tests/hostile/test_mcp.py") == packages_of("tests/test_doc.py") == []


@pytest.mark.parametrize("folder", FOUNDATION)
def test_more_runs_where_the_foundation_differs(folder: str, changed: Changed) -> None:
    assert (ROOT / folder).is_dir()
    names = [f"case {number}" for number in range(3000)]
    smaller = {name for name in names if is_in_share(name, 30)}
    changed(f"{folder}/any.py")
    larger = {name for name in names if is_in_share(name, 30)}
    assert smaller < larger
    assert 3 < len(larger) / len(smaller) < 5
    assert shared_parts(16, 8) == [0, 1, 2, 3, 8, 9, 10, 11]


def test_the_variable_runs_all(changed: Changed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BATTERIES", "all")
    assert is_whole()
    assert shared_parts(5, 3) == [0, 1, 2, 3, 4]


def test_all_cases_of_a_pattern_run_where_its_module_differs(changed: Changed) -> None:
    patterns = installed_patterns()
    names = [f"case {number}" for number in range(200)]
    relu, conv = patterns["ClipClip"], patterns["ConvWinograd"]
    assert not all(is_pattern_in_share(relu, name, 30) for name in names)
    changed(relu.__module__.replace("xoptim.", "").replace(".", "/") + ".py")
    assert all(is_pattern_in_share(relu, name, 30) for name in names)
    assert not is_touched(conv)
    passes = [c for c in patterns.values() if not c.__module__.startswith("xoptim.patterns.")]
    assert passes
    for pattern in passes:
        changed(pattern.__module__.replace(".", "/") + ".py")
        assert is_touched(pattern)


def test_a_helper_touches_all_that_import_it(tmp_path: Path) -> None:
    """By a relative import, an absolute one, of a name or a module, and over another helper."""
    texts = {
        "_nodes.py": "",
        "_shapes.py": "from xoptim.patterns._nodes import is_op",
        "a/__init__.py": "",
        "a/direct.py": "from .._nodes import is_op",
        "a/_flat.py": "from ..  import _shapes",
        "a/far.py": "from ._flat import flat",
        "b/of_modules.py": "import xoptim.patterns._shapes",
        "b/other.py": "from xoptim.match import easy\nfrom . import none",
    }
    folder = tmp_path / "patterns"
    for name, text in texts.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    of_all = {"_nodes", "_shapes", "a._flat", "a.direct", "a.far", "b.of_modules"}
    for changed_file, names in {
        "patterns/_nodes.py": of_all,
        "patterns/_shapes.py": of_all - {"_nodes", "a.direct"},
        "patterns/a/far.py": {"a.far"},
        "patterns/b/removed.py": set(),
        "docs/patterns/_nodes.py": set(),
    }.items():
        assert touched_modules(folder, [changed_file]) == {
            f"xoptim.patterns.{name}" for name in names
        }


def test_every_pattern_of_the_catalogue_has_a_module_that_can_differ() -> None:
    """The names that the folder gives are those under which patterns are imported."""
    paths = [f"patterns/{path.relative_to(ROOT / 'patterns').as_posix()}" for path in _modules()]
    modules = {
        c.__module__
        for c in installed_patterns().values()
        if c.__module__.startswith("xoptim.patterns.")
    }
    assert modules <= touched_modules(ROOT / "patterns", paths)


def _modules() -> list[Path]:
    return sorted((ROOT / "patterns").rglob("*.py"))


@pytest.mark.skipif(shutil.which("git") is None, reason="there is no git")
def test_files_since_a_revision(tmp_path: Path) -> None:
    """Those that a commit, or the working tree, changes, adds or removes; not those ignored."""
    root = tmp_path / "inner"  # paths are relative to the root of the project
    root.mkdir()

    def git(*words: str) -> None:
        command = ["git", "-c", "user.name=n", "-c", "user.email=e@x", *words]
        subprocess.run(command, cwd=root, check=True, capture_output=True)

    git("init", "-q")
    for name in ("kept", "changed", "removed", "moved"):
        (root / f"{name}.py").write_text(f"{name}\n" * 9)
    (root / ".gitignore").write_text("*.tmp\n")
    git("add", ".")
    git("commit", "-qm", "first")
    assert files_since(root, "HEAD") == frozenset()
    (root / "changed.py").write_text("other")
    git("rm", "-q", "removed.py")
    git("mv", "moved.py", "place.py")
    git("commit", "-qam", "second")
    (root / "ä new.py").write_text("new")
    (root / "ignored.tmp").write_text("new")
    committed = {"changed.py", "removed.py", "moved.py", "place.py"}
    assert files_since(root, "HEAD") == {"ä new.py"}
    assert files_since(root, "HEAD^1") == committed | {"ä new.py"}
    with pytest.raises(RuntimeError, match="CHANGED_SINCE=absent: "):
        files_since(root, "absent")


def test_nothing_differs_without_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def since(root: Path, revision: str) -> frozenset[str]:
        asked.append(revision)
        return frozenset({"xoptim/match/easy.py"})

    monkeypatch.setattr(changes, "files_since", since)
    for revision, folders in (("", []), ("main", ["main"])):
        monkeypatch.setenv("CHANGED_SINCE", revision)
        changes.changed_files.cache_clear()
        try:
            assert touches("xoptim/match") == bool(folders)
            assert asked == folders
        finally:
            changes.changed_files.cache_clear()


def test_no_test_asks_for_the_number_of_commits() -> None:
    """A checkout of depth 1 has one, so that the others would never be chosen there."""
    asking = "rev-list" + " --count"
    texts = {
        path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
        for path in ROOT.glob("tests/**/*.py")
    }
    words = '"rev-list", ' + '"--count"'
    assert [name for name, text in texts.items() if asking in text or words in text] == []


def test_a_battery_is_about_folders_that_exist() -> None:
    """A folder that was renamed would never differ."""
    with pytest.raises(ValueError, match="there is no xoptim/absent"):
        is_whole("xoptim/match", "xoptim/absent")
