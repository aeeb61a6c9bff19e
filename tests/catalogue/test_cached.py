"""The cache of facts about patterns, and patterns that are imported when they are tried."""

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.meta.sources import ROOT
from xoptim import OptimizationOptions, Rewrite, installed_patterns, select
from xoptim.catalogue import discovery
from xoptim.catalogue.cached import cached_patterns, sources_of, write_cache
from xoptim.catalogue.entries import shared
from xoptim.match.deferred import DeferredPattern
from xoptim.match.making import metadata_of
from xoptim.match.pattern import PatternOptimization
from xoptim.passes.repeated import Repeated
from xoptim.patterns.movement.movement_pair import TransposeTransposePattern

MODEL = ROOT / "examples" / "models" / "tiny_bert.onnx"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder for caches."""
    monkeypatch.setattr("xoptim.catalogue.cached.cache_from_source", beside(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    discovery.refresh()
    yield tmp_path / "facts"
    discovery.refresh()


def beside(folder: Path) -> Callable[[str], str]:
    """Says that Python keeps all bytecode in a folder."""
    return lambda source: str(folder / "module.pyc")


@pytest.fixture
def pack(tmp_path: Path) -> Path:
    """A package without patterns."""
    made = tmp_path / "pack"
    made.mkdir()
    (made / "__init__.py").write_text("")
    return made


def installed_items() -> dict[str, type[Rewrite] | DeferredPattern]:
    """The installed patterns by name, deferred or not."""
    return {name: pattern.item for name, pattern in discovery.installed().items()}


def test_facts_are_those_of_the_patterns(folder: Path) -> None:
    assert not any(isinstance(item, DeferredPattern) for item in installed_items().values())
    assert len(list(folder.iterdir())) == 1
    discovery.refresh()
    found = {n: i for n, i in installed_items().items() if isinstance(i, DeferredPattern)}
    known = installed_patterns()
    patterns = {name for name, cls in known.items() if issubclass(cls, PatternOptimization)}
    assert found.keys() == patterns
    for name, deferred in found.items():
        pattern = shared(known[name])
        assert isinstance(pattern, PatternOptimization)
        assert deferred.loaded is pattern
        assert (deferred.name(), deferred.family()) == (pattern.name(), pattern.family())
        assert deferred.paths() == pattern.paths()
        assert deferred.anchor_keys() == pattern.anchor_keys()
        assert deferred.reach() == pattern.reach()
        for key in metadata_of(known[name]) - {"examples"}:
            assert getattr(deferred, key) == getattr(pattern, key), (name, key)
    options = OptimizationOptions()
    assert [p.name() for p in options.scheduled()] == [p.name() for p in options.selected()]
    assert not any(isinstance(each, DeferredPattern) for each in options.selected())
    assert not any(isinstance(each, DeferredPattern) for each in select("all"))


COUNT = """
import sys
import xoptim
smaller = xoptim.optimize(sys.argv[1])
print(sum(name.startswith("xoptim.patterns.") for name in sys.modules))
sys.stdout.flush()
sys.stdout.buffer.write(smaller.SerializeToString(deterministic=True))
"""


COUNT_IN_COMMAND = """
import sys
from xoptim.cli.start import main
sys.argv[0] = "xopt"
try:
    main()
except SystemExit as exit:
    assert not exit.code
print(sum(name.startswith("xoptim.patterns.") for name in sys.modules))
"""


def printed(caches: Path, *arguments: str) -> bytes:
    """What Python prints with its bytecode in a folder."""
    done = subprocess.run(
        [sys.executable, "-c", *arguments],
        env={
            **os.environ,
            "PYTHONPYCACHEPREFIX": str(caches),
            "PYTHONDONTWRITEBYTECODE": "",
        },
        check=True,
        stdout=subprocess.PIPE,
    )
    return done.stdout


def run(caches: Path) -> tuple[int, bytes]:
    """The number of modules of patterns that one optimization imports, and its result."""
    count, _, result = printed(caches, COUNT, str(MODEL)).partition(b"\n")
    return int(count), result


def test_only_what_is_tried_is_imported(tmp_path: Path) -> None:
    """The result is the same without a cache, with one, and where none can be written."""
    first, expected = run(tmp_path)
    second, result = run(tmp_path)
    assert result == expected
    assert second < first / 3
    target = tmp_path / "model.onnx"
    # Hints, the check of the selection, and the summary need the facts about patterns only.
    lines = printed(tmp_path, COUNT_IN_COMMAND, str(MODEL), "-o", str(target)).splitlines()
    assert int(lines[-1]) < first / 2
    (tmp_path / "a_file").write_text("")
    third, result = run(tmp_path / "a_file")
    assert (third, result) == (first, expected)


def test_a_cache_is_valid_until_a_file_changes(folder: Path, pack: Path) -> None:
    assert cached_patterns(pack, sources_of(pack)) is None
    write_cache(pack, sources_of(pack), [TransposeTransposePattern])
    assert [item.name() for item in cached_patterns(pack, sources_of(pack)) or ()] == [
        "TransposeTranspose"
    ]
    (pack / "__init__.py").write_text("# longer")
    assert cached_patterns(pack, sources_of(pack)) is None
    write_cache(pack, sources_of(pack), [TransposeTransposePattern])
    assert cached_patterns(pack, sources_of(pack)) is not None
    (pack / "more").mkdir()
    (pack / "more" / "other.py").write_text("")
    assert cached_patterns(pack, sources_of(pack)) is None


def rewritten(file: Path, text: str) -> None:
    """Replace the text of a cache, with its hash."""
    file.write_text(f"{hashlib.sha256(text.encode()).hexdigest()}\n{text}")


def text_of(file: Path) -> str:
    return file.read_text().partition("\n")[2]


def replaced_by(make: Callable[[Path], object], file: Path) -> None:
    file.unlink()
    make(file)


DEEP = "[" * 100_000
DAMAGES: dict[str, Callable[[Path], object]] = {
    "empty": lambda file: file.write_text(""),
    "truncated": lambda file: os.truncate(file, file.stat().st_size // 2),
    "one byte": lambda file: file.write_text(text_of(file).replace("Transpose", "Transpoze", 1)),
    "deep": lambda file: rewritten(file, DEEP),
    "no JSON": lambda file: rewritten(file, "{"),
    "a list": lambda file: rewritten(file, "[]"),
    "wrong types": lambda file: rewritten(file, '{"sources": 3}'),
    "wrong rows": lambda file: rewritten(
        file, text_of(file).partition('"passes"')[0] + '"passes": [], "patterns": [3]}'
    ),
    "binary": lambda file: file.write_bytes(b"\0\xff\n\0"),
    "huge": lambda file: os.truncate(file, 1 << 40),
    "writable by others": lambda file: file.chmod(0o666),
    "in a folder of others": lambda file: file.parent.chmod(0o777),
    "a link": lambda file: file.symlink_to(file.rename(file.with_suffix(".old"))),
    "a pipe": lambda file: replaced_by(os.mkfifo, file),
    "a folder": lambda file: replaced_by(os.mkdir, file),
}


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes and permissions of POSIX")
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_cache_is_written_again(folder: Path, pack: Path, damage: str) -> None:
    write_cache(pack, sources_of(pack), [TransposeTransposePattern])
    (file,) = folder.iterdir()
    DAMAGES[damage](file)
    assert cached_patterns(pack, sources_of(pack)) is None
    write_cache(pack, sources_of(pack), [TransposeTransposePattern])
    is_valid = cached_patterns(pack, sources_of(pack)) is not None
    assert is_valid == (damage != "a folder")


def test_a_cache_that_lists_fewer_patterns_than_there_are_is_made_anew(folder: Path) -> None:
    names = discovery.installed().keys()
    (file,) = folder.iterdir()
    contents = json.loads(text_of(file))
    for patterns in (contents["patterns"][:0], contents["patterns"][1:]):
        rewritten(file, json.dumps({**contents, "patterns": patterns}))
        discovery.refresh()
        assert discovery.installed().keys() == names
    discovery.refresh()
    assert any(isinstance(item, DeferredPattern) for item in installed_items().values())


def test_a_cache_of_another_version_is_not_read(
    folder: Path, pack: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_cache(pack, sources_of(pack), [TransposeTransposePattern])
    monkeypatch.setattr("xoptim.catalogue.cached.package_version", lambda name: f"another {name}")
    assert cached_patterns(pack, sources_of(pack)) is None


def test_a_cache_names_modules_of_the_catalogue_only(folder: Path, pack: Path) -> None:
    write_cache(pack, sources_of(pack), [Repeated])  # a pass of the engine
    assert cached_patterns(pack, sources_of(pack)) is None
    write_cache(pack, sources_of(pack), [TransposeTransposePattern])
    (file,) = folder.iterdir()
    contents = json.loads(text_of(file))
    contents["patterns"][0][2] = "antigravity"
    rewritten(file, json.dumps(contents))
    found = cached_patterns(pack, sources_of(pack))
    assert found is not None
    (deferred,) = found
    assert isinstance(deferred, DeferredPattern)
    with pytest.raises(ValueError, match="antigravity"):
        deferred.loaded  # noqa: B018
    assert "antigravity" not in sys.modules


def writes_no_bytecode(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in many containers."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)


def cannot_write(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in an installation by root."""
    monkeypatch.setattr(os, "access", lambda _path, mode: mode != os.W_OK)


@pytest.mark.parametrize("prepare", [writes_no_bytecode, cannot_write])
def test_facts_are_cached_in_the_folder_of_the_user_where_they_cannot_be_next_to_bytecode(
    folder: Path,
    pack: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    prepare: Callable[[pytest.MonkeyPatch], None],
) -> None:
    prepare(monkeypatch)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    write_cache(pack, sources_of(pack), [TransposeTransposePattern])
    assert cached_patterns(pack, sources_of(pack)) is not None
    assert not folder.exists()
    assert len([*(tmp_path / "home" / "xoptim").iterdir()]) == 1


def test_nothing_is_cached_without_a_home(
    folder: Path, pack: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writes_no_bytecode(monkeypatch)
    monkeypatch.setattr("xoptim.catalogue.cached.cache_folder", lambda: None)
    write_cache(pack, sources_of(pack), [TransposeTransposePattern])
    assert cached_patterns(pack, sources_of(pack)) is None
    assert not folder.exists()


def test_a_pattern_that_cannot_be_described_is_an_error_where_it_is_used(
    folder: Path, pack: Path
) -> None:
    class BrokenPattern(PatternOptimization):
        """A → B"""

        def paths(self) -> Any:
            raise ZeroDivisionError

    write_cache(pack, sources_of(pack), [TransposeTransposePattern, BrokenPattern])
    assert cached_patterns(pack, sources_of(pack)) is None
    assert not folder.exists()
