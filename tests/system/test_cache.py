"""The folder for caches."""

import os
from pathlib import Path

import pytest

from xoptim.system.cache import cache_folder, store
from xoptim.system.reading import read_own_file


def test_the_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "xoptim"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")  # to be ignored, says the standard
    monkeypatch.setattr("os.path.expanduser", lambda path: str(tmp_path))
    found = cache_folder()
    assert found is not None
    assert found.is_relative_to(tmp_path)
    monkeypatch.setattr("os.path.expanduser", lambda path: path)
    assert cache_folder() is None


def test_a_file_is_stored_as_a_whole(tmp_path: Path) -> None:
    place = tmp_path / "a" / "b.json"
    store(place, b"1")
    store(place, b"22")
    assert place.read_bytes() == b"22"
    assert list(place.parent.iterdir()) == [place]


def test_nothing_is_left_where_it_cannot_be_stored(tmp_path: Path) -> None:
    place = tmp_path / "folder"
    place.mkdir()
    with pytest.raises(OSError, match="folder"):
        store(place, b"1")
    assert list(tmp_path.iterdir()) == [place]


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="permissions of POSIX")
@pytest.mark.parametrize("exists", [False, True])
def test_only_the_user_may_write_into_the_folder(tmp_path: Path, exists: bool) -> None:
    folder = tmp_path / "a"
    if exists:
        folder.mkdir()
        folder.chmod(0o777)
    store(folder / "b.json", b"1")
    assert folder.stat().st_mode & 0o022 == 0
    assert (folder / "b.json").stat().st_mode & 0o077 == 0


@pytest.mark.skipif(not hasattr(os, "umask"), reason="there are no permissions")
def test_a_mask_that_lets_the_group_write_does_not_make_a_cache_foreign(tmp_path: Path) -> None:
    former = os.umask(0o002)
    try:
        store(tmp_path / "cache" / "names", b"content")
    finally:
        os.umask(former)
    assert read_own_file(tmp_path / "cache" / "names", 100) == b"content"
