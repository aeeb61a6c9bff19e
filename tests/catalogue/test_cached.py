"""The cache of facts about patterns, and patterns that are imported when they are tried."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.meta.sources import ROOT
from xoptim import OptimizationOptions, installed_patterns, select
from xoptim.catalogue import discovery
from xoptim.catalogue.cached import cached_patterns, sources_of, write_cache
from xoptim.catalogue.entries import shared
from xoptim.match.deferred import DeferredPattern
from xoptim.match.making import metadata_of
from xoptim.match.pattern import PatternOptimization
from xoptim.passes.repeated import Repeated
from xoptim.patterns.movement.transpose_transpose import TransposeTransposePattern

MODEL = ROOT / "examples" / "models" / "tiny_bert.onnx"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder for caches."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    discovery.refresh()
    yield tmp_path / "caches" / "xoptim"
    discovery.refresh()


@pytest.fixture
def pack(tmp_path: Path) -> Path:
    """A package without patterns."""
    made = tmp_path / "pack"
    made.mkdir()
    (made / "__init__.py").write_text("")
    return made


def test_facts_are_those_of_the_patterns(folder: Path) -> None:
    assert not any(isinstance(item, DeferredPattern) for item in discovery.installed().values())
    assert len(list(folder.iterdir())) == 1
    discovery.refresh()
    found = {n: i for n, i in discovery.installed().items() if isinstance(i, DeferredPattern)}
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


def run(caches: Path) -> tuple[int, bytes]:
    """The number of modules of patterns that one optimization imports, and its result."""
    done = subprocess.run(
        [sys.executable, "-c", COUNT, str(MODEL)],
        env={**os.environ, "XDG_CACHE_HOME": str(caches)},
        check=True,
        stdout=subprocess.PIPE,
    )
    count, _, result = done.stdout.partition(b"\n")
    return int(count), result


def test_only_what_is_tried_is_imported(tmp_path: Path) -> None:
    """The result is the same without a cache, with one, and where none can be written."""
    first, expected = run(tmp_path)
    second, result = run(tmp_path)
    assert result == expected
    assert second < first / 3
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


@pytest.mark.parametrize("text", ["", "{", "[]", '{"sources": 3}', "\0"])
def test_a_damaged_cache_is_written_again(folder: Path, pack: Path, text: str) -> None:
    write_cache(pack, sources_of(pack), [TransposeTransposePattern])
    (file,) = folder.iterdir()
    file.write_text(text)
    assert cached_patterns(pack, sources_of(pack)) is None
    write_cache(pack, sources_of(pack), [TransposeTransposePattern])
    assert cached_patterns(pack, sources_of(pack)) is not None


def test_a_cache_names_modules_of_the_catalogue_only(folder: Path, pack: Path) -> None:
    write_cache(pack, sources_of(pack), [Repeated])  # a pass of the engine
    assert cached_patterns(pack, sources_of(pack)) is None
    write_cache(pack, sources_of(pack), [TransposeTransposePattern])
    (file,) = folder.iterdir()
    contents = json.loads(file.read_text())
    contents["patterns"][0][2] = "antigravity"
    file.write_text(json.dumps(contents))
    found = cached_patterns(pack, sources_of(pack))
    assert found is not None
    (deferred,) = found
    assert isinstance(deferred, DeferredPattern)
    with pytest.raises(ValueError, match="antigravity is not a part of the catalogue"):
        deferred.loaded  # noqa: B018
    assert "antigravity" not in sys.modules


def test_nothing_is_cached_without_a_home(
    folder: Path, pack: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
