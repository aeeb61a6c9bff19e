"""Files that replace others in one step, and never follow a link."""

import os
import socket
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from xoptim.system.files import move
from xoptim.system.temporary import PlaceError, make_folder, temporary, write_file

posix = pytest.mark.skipif(os.name != "posix", reason="files of POSIX")


@posix
def test_permissions(tmp_path: Path) -> None:
    path, like = tmp_path / "path", tmp_path / "like"
    mask = os.umask(0o027)
    try:
        write_file(path, b"new")
        assert stat.S_IMODE(path.stat().st_mode) == 0o640
        like.touch()
        like.chmod(0o604)
        write_file(like, b"new")
    finally:
        os.umask(mask)
    assert stat.S_IMODE(like.stat().st_mode) == 0o604


@posix
def test_what_replaces_a_private_file_is_never_open_to_others(tmp_path: Path) -> None:
    path = tmp_path / "path"
    path.touch(0o600)
    with temporary(path) as (_, made):
        assert stat.S_IMODE(made.stat().st_mode) == 0o600


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as holder:
        holder.bind(os.path.relpath(path))


@posix
@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda path: path.symlink_to(path.with_name("victim")), "symbolic link"),
        (lambda path: path.symlink_to(path), "symbolic link"),
        (Path.mkdir, "folder"),
        (os.mkfifo, "a pipe or a socket"),
        (_socket, "a pipe or a socket"),
    ],
    ids=["link", "loop", "folder", "pipe", "socket"],
)
@pytest.mark.parametrize("exists", [True, False])
def test_what_a_file_does_not_replace(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    make: Callable[[Path], None],
    reason: str,
    exists: bool,
) -> None:
    monkeypatch.chdir(tmp_path)
    victim, path = tmp_path / "victim", tmp_path / "path"
    if exists:
        victim.write_text("mine")
    make(path)
    before = sorted(each.name for each in tmp_path.iterdir())
    with pytest.raises(PlaceError, match=reason) as error:
        write_file(path, b"new")
    assert error.value.filename == str(path)
    assert sorted(each.name for each in tmp_path.iterdir()) == before
    assert not exists or victim.read_text() == "mine"


@posix
def test_a_link_that_comes_later_is_replaced_and_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    victim, path = tmp_path / "victim", tmp_path / "path"
    victim.write_text("mine")

    def swapped(source: Path, target: Path) -> None:
        path.symlink_to(victim)
        move(source, target)

    monkeypatch.setattr("xoptim.system.temporary.move", swapped)
    write_file(path, b"new")
    assert (path.is_symlink(), path.read_bytes(), victim.read_text()) == (False, b"new", "mine")


def test_what_cannot_be_moved_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Path) -> None:
        raise PermissionError

    monkeypatch.setattr("xoptim.system.temporary.move", fail)
    with pytest.raises(PermissionError):
        write_file(tmp_path / "path", b"new")
    assert list(tmp_path.iterdir()) == []


def test_an_error_closes_no_file_of_others(tmp_path: Path) -> None:
    """A file that is opened later may have the number of the file that was closed."""
    with pytest.raises(KeyError), temporary(tmp_path / "path") as (stream, _):  # noqa: PT012
        number = stream.fileno()
        stream.close()
        later = (tmp_path / "later").open("wb")
        assert later.fileno() == number
        raise KeyError
    later.write(b"new")
    later.close()
    assert [file.name for file in tmp_path.iterdir()] == ["later"]


@posix
def test_folders_below_one_that_is_named(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    named = tmp_path / "named"
    named.symlink_to("real", target_is_directory=True)
    assert make_folder(named, "a", "b").is_dir()
    assert (tmp_path / "real" / "a" / "b").is_dir()
    (named / "link").symlink_to(tmp_path, target_is_directory=True)
    with pytest.raises(PlaceError, match="symbolic link"):
        make_folder(named, "link", "b")
    (named / "file").touch()
    with pytest.raises(PlaceError, match="is a file"):
        make_folder(named, "file", "b")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["named", "real"]
