"""Files on Linux, macOS and Windows: locks, replacement, permissions.

Ranges are tested with the files of weights.
"""

import os
from pathlib import Path

import pytest

from xoptim.system import files
from xoptim.system.files import move, try_lock
from xoptim.system.optional import fcntl


class Locking:
    """The module `msvcrt` of Windows; locked files are held by another process."""

    LK_NBLCK = 2

    def __init__(self, locked: set[int]) -> None:
        self.locked = locked
        self.asked: list[tuple[int, int, int, int]] = []

    def locking(self, file: int, mode: int, size: int) -> None:
        self.asked.append((file, mode, size, os.lseek(file, 0, os.SEEK_CUR)))
        if file in self.locked:
            raise OSError(13, "Permission denied")


@pytest.mark.skipif(fcntl is None, reason="locks of POSIX")
def test_a_lock_holds_until_the_file_is_closed(tmp_path: Path) -> None:
    first, second = (os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT) for _ in range(2))
    assert try_lock(first)
    assert not try_lock(second)
    os.close(first)
    assert try_lock(second)
    os.close(second)


def test_locks_of_windows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its first byte is locked, wherever the file was read."""
    with (tmp_path / "lock").open("w+b", buffering=0) as stream:
        stream.write(b"some")
        file = stream.fileno()
        for locked, answer in ((set[int](), True), ({file}, False)):
            windows = Locking(locked)
            monkeypatch.setattr(files, "fcntl", None)
            monkeypatch.setattr(files, "msvcrt", windows)
            assert try_lock(file) is answer
            assert windows.asked == [(file, 2, 1, 0)]


def test_a_system_without_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "fcntl", None)
    monkeypatch.setattr(files, "msvcrt", None)
    assert try_lock(0)


@pytest.mark.parametrize(
    ("platform", "failures", "moves"),
    [("win32", 3, True), ("win32", 10, False), ("linux", 1, False)],
)
def test_a_file_that_is_open_elsewhere(
    platform: str, failures: int, *, moves: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Windows is asked again; elsewhere the refusal means that there is no permission."""
    left = iter(range(failures))
    replace = os.replace

    def refuse(source: Path, target: Path) -> None:
        if next(left, None) is not None:
            raise PermissionError(13, "Access is denied")
        replace(source, target)

    monkeypatch.setattr("sys.platform", platform)
    monkeypatch.setattr(os, "replace", refuse)
    monkeypatch.setattr(files, "_PAUSE", 0.0)
    (tmp_path / "new").write_text("new")
    (tmp_path / "old").write_text("old")
    if moves:
        move(tmp_path / "new", tmp_path / "old")
    else:
        with pytest.raises(PermissionError):
            move(tmp_path / "new", tmp_path / "old")
    assert (tmp_path / "old").read_text() == ("new" if moves else "old")
    assert (tmp_path / "new").exists() is not moves
