"""Files of a folder in which others put links, at any moment."""

import os
from pathlib import Path
from typing import Any

import pytest

from xoptim.system import confined
from xoptim.system.confined import ConfinedFolder

pytestmark = pytest.mark.skipif(os.name != "posix", reason="links of POSIX")


@pytest.fixture(params=[True, False], ids=["descriptors", "paths"])
def folder(tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A folder, with the calls of this system and without them, next to one outside."""
    monkeypatch.setattr(confined, "_HAS_DESCRIPTORS", request.param)
    for name in ("inside", "outside"):
        (tmp_path / name / "sub").mkdir(parents=True)
        (tmp_path / name / "sub" / "file").write_text(name)
    return ConfinedFolder(tmp_path / "inside")


def swap_after_a_look(monkeypatch: pytest.MonkeyPatch, path: Path) -> None:
    """Replace a file or a folder by a link when it has been looked at."""
    status = confined._Level.status
    outside = Path(str(path).replace("inside", "outside"))

    def looked(self: Any, name: str) -> os.stat_result:
        found = status(self, name)
        if self.path / name == path and not path.is_symlink():
            path.rename(path.with_name("gone"))
            path.symlink_to(outside, target_is_directory=outside.is_dir())
        return found

    monkeypatch.setattr(confined._Level, "status", looked)


@pytest.mark.parametrize("name", ["sub", "sub/file"])
@pytest.mark.parametrize("can_link", [True, False])
def test_a_link_that_appears_between_the_look_and_the_opening(
    folder: ConfinedFolder,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    can_link: bool,
) -> None:
    if not can_link:
        monkeypatch.setattr("os.link", _fail)
    swap_after_a_look(monkeypatch, folder.root / name)
    with pytest.raises(OSError, match=r"link|directory|replaced"):
        folder.stage(("sub", "file"), tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


def _fail(*_: Any, **__: Any) -> None:
    raise PermissionError


@pytest.mark.parametrize("can_link", [True, False])
def test_a_file_is_staged(
    folder: ConfinedFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, can_link: bool
) -> None:
    if not can_link:
        monkeypatch.setattr("os.link", _fail)
    target, given = tmp_path / "copy", folder.root / "sub" / "file"
    folder.stage(("sub", "file"), target)
    assert target.read_text() == "inside"
    assert target.samefile(given) is can_link


def test_what_is_published_replaces_what_is_known(folder: ConfinedFolder, tmp_path: Path) -> None:
    parts, source = ("sub", "new"), tmp_path / "source"
    source.write_text("1")
    first = folder.publish(source, parts, None)
    source.write_text("2")
    assert folder.publish(source, parts, first) == folder.version(parts) != first
    for before in (None, first):
        source.write_text("3")
        with pytest.raises(OSError, match="changed meanwhile"):
            folder.publish(source, parts, before)
    assert (folder.root / "sub" / "new").read_text() == "2"
    assert sorted(folder.names(("sub",))) == ["file", "new"]


def test_another_disk(
    folder: ConfinedFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.rename", _fail)
    (tmp_path / "source").write_text("new")
    folder.publish(tmp_path / "source", ("sub", "new"), None)
    assert (folder.root / "sub" / "new").read_text() == "new"


def test_nothing_is_published_through_a_link(
    folder: ConfinedFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "source").write_text("new")
    swap_after_a_look(monkeypatch, folder.root / "sub")
    with pytest.raises(OSError, match=r"link|directory"):
        folder.publish(tmp_path / "source", ("sub", "new"), None)
    assert [path.name for path in (tmp_path / "outside" / "sub").iterdir()] == ["file"]


def test_only_a_known_version_is_removed(folder: ConfinedFolder) -> None:
    parts = ("sub", "file")
    version = folder.version(parts)
    assert version is not None
    (folder.root / "sub" / "file").write_text("changed")
    folder.remove(parts, version)
    assert folder.version(parts) is not None
    changed = folder.version(parts)
    assert changed is not None
    folder.remove(parts, changed)
    assert folder.version(parts) is None


def test_a_file_that_is_named(folder: ConfinedFolder) -> None:
    assert not folder.is_named(("sub", "weights"), [".onnx"])
    (folder.root / "sub" / "a.txt").write_text("weights")
    (folder.root / "sub" / "empty.onnx").touch()
    (folder.root / "sub" / "link.onnx").symlink_to("a.txt")
    assert not folder.is_named(("sub", "weights"), [".onnx"])
    (folder.root / "sub" / "a.onnx").write_text("its weights are here")
    assert folder.is_named(("sub", "weights"), [".onnx"])


def test_paths(folder: ConfinedFolder, tmp_path: Path) -> None:
    assert folder.parts("a/../sub/./file") == ("sub", "file")
    assert folder.parts(str(tmp_path / "inside" / "a")) == ("a",)
    for path in ("", ".", "..", "../outside/a", "/etc/passwd", "a/../../outside"):
        with pytest.raises(ValueError, match="stay"):
            folder.parts(path)
    for path in ("a\0b", "\ud800"):
        with pytest.raises(ValueError, match="name"):
            folder.parts(path)
