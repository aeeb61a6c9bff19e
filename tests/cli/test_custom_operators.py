"""Libraries of operators in every command that runs models."""

import shutil
import subprocess
from pathlib import Path

import onnx
import pytest

from tests.cli.command import TRANSPOSES, Xopt, write
from tests.support import parse
from xoptim.cli.main import xopt as group

pytestmark = pytest.mark.slow

SOURCE = """
#include <stdio.h>
void* RegisterCustomOps(void* options, const void* api) {
    FILE* file = fopen("loaded", "a");
    if (file) fclose(file);
    return 0;
}
"""
COMMANDS = {
    "optimize": ("model.onnx",),
    "verify": ("model.onnx", "model.onnx"),
    "bench": ("model.onnx", "--seconds", "0.01"),
    "tune": ("model.onnx", "--budget", "0.1"),
    "bisect": ("model.onnx",),
    "apply": ("model.onnx", "TransposeTranspose", "--at", "u", "-o", "out.onnx"),
    "replay": ("dumps",),
}


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library without operators that leaves a trace when onnxruntime loads it."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    folder = tmp_path_factory.mktemp("library")
    (folder / "ops.c").write_text(SOURCE)
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-o", str(folder / "ops.so"), str(folder / "ops.c")],
        check=True,
    )
    return folder / "ops.so"


def test_every_command_that_runs_models_has_the_option() -> None:
    has = {
        name
        for name, command in group.commands.items()
        if any("--custom-op-lib" in p.opts for p in command.params)
    }
    runs = {
        name
        for name, command in group.commands.items()
        if any("--provider" in p.opts for p in command.params)
    }
    others = {"diff", "check", "extract", "batch", "place"}
    assert has == COMMANDS.keys() | others, (
        "three run models if asked; batch hands its options on; place loads models"
    )
    assert runs - has <= {"explain", "doctor"}, "these only match patterns"


@pytest.mark.usefixtures("brief")
@pytest.mark.parametrize("command", COMMANDS)
def test_it_is_loaded(
    xopt: Xopt, library: Path, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(TRANSPOSES)
    if command == "replay":
        monkeypatch.setenv("DUMPPATTERNS", "dumps")
        xopt("model.onnx", "-q", "--no-verify")
        monkeypatch.delenv("DUMPPATTERNS")
    assert xopt(command, *COMMANDS[command]).code == 0
    assert not Path("loaded").exists()
    assert xopt(command, *COMMANDS[command], "--custom-op-lib", library).code == 0
    assert Path("loaded").exists()


@pytest.mark.parametrize("name", ["gone.so", "onnxruntime-extensions"])
def test_libraries_that_are_missing(xopt: Xopt, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    write(TRANSPOSES)
    monkeypatch.setitem(__import__("sys").modules, "onnxruntime_extensions", None)
    assert name in xopt("model.onnx", "--custom-op-lib", name).error


def test_a_file_that_is_not_a_library(xopt: Xopt) -> None:
    write(TRANSPOSES)
    Path("text.so").write_text("text")
    for words in (("verify", "model.onnx", "model.onnx"), ("model.onnx",)):
        error = xopt(*words, "--custom-op-lib", "text.so").error  # bad usage
        assert "'text.so': " in error
    assert not Path("model.opt.onnx").exists()


@pytest.mark.parametrize(
    ("domain", "library"), [("acme", "FILE"), ("ai.onnx.contrib", "onnxruntime-extensions")]
)
def test_the_option_is_named_where_a_library_is_missing(
    xopt: Xopt, domain: str, library: str
) -> None:
    write(
        parse(f"agraph (float[n] x) => (float[n] y) {{ y = {domain}.Foo(x) }}", domains={domain: 1})
    )
    assert f"`--custom-op-lib {library}`" in xopt("model.onnx").err


def test_operators_of_the_extensions(xopt: Xopt) -> None:
    """A model that onnxruntime alone cannot run is verified."""
    pytest.importorskip("onnxruntime_extensions")
    text = (
        "agraph (float[n] x) => (float[n] y) { t = Neg(x) u = Neg(t) "
        "y = ai.onnx.contrib.NegPos(u) }"
    )
    write(
        parse(
            text.replace("y = ai.onnx.contrib.NegPos(u)", "y, z = ai.onnx.contrib.NegPos(u)"),
            domains={"ai.onnx.contrib": 1},
        )
    )
    assert xopt("model.onnx", "-q").code == 3
    assert xopt("model.onnx", "-q", "--custom-op-lib", "onnxruntime-extensions").code == 0
    assert [node.op_type for node in onnx.load("model.opt.onnx").graph.node] == ["NegPos"]
