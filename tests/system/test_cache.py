"""The folder for caches."""

from pathlib import Path

import pytest

from xoptim.system.cache import cache_folder, store


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
