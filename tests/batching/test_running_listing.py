"""Folders, patterns and lists of models."""

from pathlib import Path

import pytest

from tests.batching.fakes import write
from xoptim.batching import BatchError
from xoptim.batching.running import find_models


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with models."""
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "in", a="", sub__b="", sub__deep__c="", out__a="")
    for name in (".hidden/d.onnx", "._a.onnx", "notes.txt", "sub/t.onnxtxt", "sub/w.onnx.data"):
        path = tmp_path / "in" / name
        path.parent.mkdir(exist_ok=True)
        path.touch()
    return tmp_path


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("in", ["a", "sub/b", "sub/deep/c", "sub/t"]),
        ("in/", ["a", "sub/b", "sub/deep/c", "sub/t"]),
        ("in/**/*.onnx", ["a", "sub/b", "sub/deep/c"]),
        ("in/sub/*.onnx*", ["b", "t", "w.onnx.data"]),
        ("in/s*/b.onnx", ["sub/b"]),
        ("in/a.onnx", ["a"]),
        (["in/sub/b.onnx", "in/sub/deep/c.onnx", "in/sub/b.onnx"], ["b", "deep/c"]),
    ],
)
def test_what_is_found(folder: Path, source: str | list[str], names: list[str]) -> None:
    found = find_models(source, folder / "in/out")
    assert sorted(found) == [f"{name}.onnx" for name in names]
    assert all(path.is_file() for path in found.values())


@pytest.mark.parametrize("source", ["in/sub/*.onnx", "in/sub/deep"])
def test_results_above_the_models(folder: Path, source: str) -> None:
    assert find_models(source, folder) == find_models(source, folder / "out") != {}


def test_weights_in_a_folder_are_no_model(folder: Path) -> None:
    (folder / "in/sub/deep/c.onnx_data").touch()
    assert list(find_models("in/sub/deep", folder / "out")) == ["c.onnx"]


def test_a_list(folder: Path) -> None:
    """Relative to the current folder; a byte order mark is no part of the first path.

    A file that is missing is a model, which will have no result.
    """
    text = f"in/a.onnx\n# models\n\n{folder}/in/sub/b.onnx\nin/gone.onnx\n"
    Path("list.txt").write_text(text, encoding="utf-8-sig")
    found = find_models("list.txt", folder / "out")
    assert list(found) == ["a.onnx", "sub/b.onnx", "gone.onnx"]


@pytest.mark.parametrize(
    ("source", "output", "message"),
    [
        ("nowhere", "out", "neither a folder"),
        ("in/*.pb", "out", "no model"),
        ("in/sub/*/../../a.onnx", "out", "is outside"),
        (["in/a.onnx", "in/a.onnxtxt"], "out", "same file, 'a.onnx'"),
        (["in/a.onnx"], "in", "would replace"),
        ("in", "in/..", "would replace|no model"),
        (["in/a.onnx", "in/\udcff.onnx"], "out", r"'in/\\udcff.onnx' is not valid UTF-8"),
    ],
)
def test_what_cannot_be_used(
    folder: Path, source: str | list[str], output: str, message: str
) -> None:
    if source == "in" and output == "in/..":
        (folder / "a.onnx").symlink_to(folder / "in/a.onnx")
    with pytest.raises(BatchError, match=message):
        find_models(source, folder / output)
