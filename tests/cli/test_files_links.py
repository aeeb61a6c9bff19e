"""Links are followed only for a name that the user gives: a downloaded folder may hold one that
leads anywhere.
"""

from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.cli.command import RELU, TRANSPOSES, Xopt, types_in, write
from tests.support import values_in


@pytest.fixture
def victim(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file outside the current folder."""
    path = tmp_path / "victim"
    path.write_text("mine")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return path


def write_large() -> None:
    """A model whose weights are in a file of their own."""
    write(
        "agraph (float[n,64] x) => (float[n,64] y) { y = MatMul(x, w) }".replace(
            "{ y", "<float[64,64] w = {0}> { y"
        )
    )
    model = onnx.load("model.onnx")
    model.graph.initializer[0].CopyFrom(
        onnx.numpy_helper.from_array(np.eye(64, dtype=np.float32), "w")
    )
    onnx.save(model, "model.onnx", save_as_external_data=True, location="weights", size_threshold=0)


@pytest.mark.parametrize(
    ("link", "words"),
    [
        ("model.opt.onnx", ("model.onnx",)),
        ("model.opt.onnx", ("fast", "model.onnx")),
        ("model.opt.onnx", ("tune", "model.onnx", "--budget", "0.1")),
        ("model.bisect.onnx", ("bisect", "model.onnx")),
    ],
)
@pytest.mark.parametrize("exists", [True, False])
def test_default_names(
    xopt: Xopt, victim: Path, link: str, words: tuple[str, ...], exists: bool
) -> None:
    write(TRANSPOSES)
    write(TRANSPOSES, "other.onnx")
    if not exists:
        victim.unlink()
    Path(link).symlink_to(victim)
    before = {path.name for path in Path().iterdir()}
    assert xopt(*words).error.startswith(f"{link!r} is a symbolic link; ")
    assert {path.name for path in Path().iterdir()} == before
    assert Path(link).is_symlink()
    assert (victim.read_text() if victim.exists() else None) == ("mine" if exists else None)


def test_a_name_that_is_given(xopt: Xopt, victim: Path) -> None:
    write(TRANSPOSES)
    Path("model.opt.onnx").symlink_to(victim)
    assert xopt("model.onnx", "-o", "model.opt.onnx").code == 0
    assert types_in(victim) == ["Relu"]
    assert Path("model.opt.onnx").is_symlink()


@pytest.mark.parametrize("words", [(), ("-o", "model.opt.onnx")])
def test_weights_next_to_the_result(xopt: Xopt, victim: Path, words: tuple[str, ...]) -> None:
    write_large()
    Path("model.opt.onnx.data").symlink_to(victim)
    assert values_in(xopt("model.onnx", *words).error) == ["model.opt.onnx.data"]
    assert (victim.read_text(), Path("model.opt.onnx").exists()) == ("mine", False)
    assert Path("model.opt.onnx.data").is_symlink()
    for command in (("extract",), ("extract", "--to", "y")):
        error = xopt(*command, "model.onnx", "-o", "model.opt.onnx").error
        assert "symbolic link" in error
    assert victim.read_text() == "mine"


@pytest.mark.parametrize("kind", ["before.onnx", "after.onnx", "txt"])
def test_dumps(xopt: Xopt, victim: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    write(TRANSPOSES)
    Path("dumps").mkdir()
    number = 1 if kind == "txt" else 0
    Path(f"dumps/0000{number}_TransposeTranspose.{kind}").symlink_to(victim)
    monkeypatch.setenv("DUMPPATTERNS", "dumps")
    stem = f"dumps/0000{number}_TransposeTranspose"
    assert values_in(xopt("model.onnx").error) == [f"{stem}.{kind}"]
    assert victim.read_text() == "mine"
    assert [path.name for path in Path("dumps").iterdir()] == [f"{Path(stem).name}.{kind}"]


@pytest.mark.parametrize("exists", [True, False])
def test_session_settings(xopt: Xopt, victim: Path, exists: bool) -> None:
    write(TRANSPOSES)
    if not exists:
        victim.unlink()
    Path("model.opt.onnx.session.json").symlink_to(victim)
    error = xopt("tune", "model.onnx", "--budget", "0.1").error
    assert values_in(error) == ["model.opt.onnx.session.json"]
    assert (victim.read_text() if victim.exists() else None) == ("mine" if exists else None)
    assert not Path("model.opt.onnx").exists()


def test_new_patterns(xopt: Xopt, victim: Path) -> None:
    victim.unlink()
    Path("relu_relu.py").symlink_to(victim)
    assert "'relu_relu.py'" in xopt("new-pattern", "ReluReluPattern").error
    assert not victim.exists()


def test_batches(xopt: Xopt, victim: Path) -> None:
    Path("models").mkdir()
    Path("out").mkdir()
    write(RELU, "models/model.onnx")
    Path("out/model.onnx").symlink_to(victim)
    outcome = xopt("batch", "models", "-o", "out", "-j", "1")
    assert outcome.code == 2
    assert "/out/model.onnx': it is a symbolic link" in outcome.out
    assert victim.read_text() == "mine"
