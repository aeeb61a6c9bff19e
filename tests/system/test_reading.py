"""Files to read: their kind and their size."""

import errno
import os
import socket
from pathlib import Path

import pytest

from xoptim.system.reading import check_kind, make_own_folder, open_file, read_file, read_own_file

pytestmark = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="kinds of files of POSIX")


def special(kind: str, path: Path) -> str:
    """Make a file of a kind; returns its name in the reason why it cannot be read."""
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "socket":
        # a socket stays when it is closed; its path may have about 100 bytes
        with socket.socket(socket.AF_UNIX) as server:
            here = os.open(path.parent, os.O_RDONLY)
            server.bind(f"/proc/self/fd/{here}/{path.name}")
            os.close(here)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "folder":
        path.mkdir()
        return os.strerror(errno.EISDIR)
    else:
        path.symlink_to(path)
        return os.strerror(errno.ELOOP)
    return f" {kind}, "


@pytest.mark.parametrize("kind", ["pipe", "socket", "device", "folder", "loop"])
def test_what_is_not_a_file(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "special"
    reason = special(kind, path)
    for read in (check_kind, open_file, read_file):
        with pytest.raises(OSError, match=reason) as caught:
            read(path)
        assert caught.value.filename == str(path)
    with pytest.raises(OSError, match=f"{kind}|symbolic link|{os.strerror(errno.EISDIR)}"):
        read_own_file(path, 9)


def test_a_file_that_becomes_a_pipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    os.mkfifo(path)
    monkeypatch.setattr("xoptim.system.reading.check_kind", lambda place: None)
    with pytest.raises(OSError, match=" pipe, "):
        open_file(path)


def test_sizes(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"1234")
    assert read_file(path, 4) == read_own_file(path, 4) == b"1234"
    with pytest.raises(OSError, match=" 3 bytes"):
        read_file(path, 3)
    os.truncate(path, 1 << 40)
    with pytest.raises(OSError, match=" 67,108,864 bytes"):
        read_file(path)
    path.unlink()
    with pytest.raises(FileNotFoundError):
        read_file(path)


def test_a_file_that_grows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The size of files of the system is 0; memory is not reserved for the largest file."""
    path = tmp_path / "file"
    path.write_bytes(b"12345")
    monkeypatch.setattr("os.fstat", lambda number: path.stat().__class__((0o100600, *[0] * 9)))
    assert read_file(path, 1 << 60) == b"12345"
    with pytest.raises(OSError, match=" 4 bytes"):
        read_file(path, 4)


def test_files_of_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"1")
    link = tmp_path / "link"
    link.symlink_to(path)
    assert read_file(link, 1) == b"1"
    with pytest.raises(OSError, match="symbolic link"):
        read_own_file(link, 1)
    path.chmod(0o620)
    with pytest.raises(PermissionError, match="may write"):
        read_own_file(path, 1)
    path.chmod(0o600)
    tmp_path.chmod(0o702)
    with pytest.raises(PermissionError, match="may write"):
        read_own_file(path, 1)
    tmp_path.chmod(0o700)
    assert read_own_file(path, 1) == b"1"
    monkeypatch.setattr("os.getuid", lambda: path.stat().st_uid + 1)
    with pytest.raises(PermissionError, match="another user"):
        read_own_file(path, 1)
    with pytest.raises(PermissionError, match="another user"):
        make_own_folder(tmp_path)
