import errno
import os
from pathlib import Path

import pytest

from xoptim.facts.errors import ModelError
from xoptim.graph.atomic_write import replace_file, replacing


def test_one_file(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "a")
    replace_file(link, b"new")
    assert (tmp_path / "a").read_bytes() == b"new"
    assert link.is_symlink()
    with pytest.raises(ModelError, match="folder"):
        replace_file(tmp_path, b"new")
    with pytest.raises(ModelError, match=os.strerror(errno.ENOENT)):
        replace_file(tmp_path / "none" / "a", b"new")
    with pytest.raises(ModelError, match="a device"):
        replace_file(Path(os.devnull), b"new")


def test_a_full_disk_leaves_the_file_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "a"
    target.write_bytes(b"old")

    def full(handle: int) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ModelError, match=f"'{target}': {os.strerror(28)}"):
        replace_file(target, b"new")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    assert target.read_bytes() == b"old"


def test_all_or_none(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.write_bytes(b"old")

    def write(*paths: Path) -> list[Path]:
        with replacing(second) as files:
            for path in paths:
                with files.open(path) as stream:
                    stream.write(path.name.encode())
        return files.targets

    with pytest.raises(ModelError, match=os.strerror(errno.ENOENT)):
        write(first, tmp_path / "missing" / "second")
    assert [path.name for path in tmp_path.iterdir()] == ["first"]
    assert first.read_bytes() == b"old"
    assert write(first, second) == [first, second]
    assert [path.read_bytes() for path in (first, second)] == [b"first", b"second"]
