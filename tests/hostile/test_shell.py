"""Names in a model and of files, in the commands that messages show: whoever pastes one into a
shell runs it.
"""

import re
import shlex
from pathlib import Path

import pytest

from tests.cli.command import TRANSPOSES, Xopt, write
from tests.diagnose.test_hints_options import SIZES, hints
from tests.support import parse
from xoptim import optimize
from xoptim.facts.advice import Advice, on_command_line
from xoptim.facts.words import shell_path

RUN = "$(touch ran)"


def command_in(text: str) -> list[str]:
    """The words of the command in backticks."""
    (found,) = re.findall(r"`(.*)`", text)
    return shlex.split(found)


@pytest.mark.parametrize("name", [f"{RUN}.onnx", "a b.onnx", "it's;ls.onnx"])
def test_names_of_files(xopt: Xopt, name: str) -> None:
    write(TRANSPOSES, name)
    assert command_in(xopt("check", name).out) == ["xopt", name, "--in-place"]
    found = command_in(xopt("explain", name, "Gelu", "--matches").out)
    assert found == ["xopt", "explain", name, "Gelu"]
    error = xopt(name, "other.onnx").error
    assert f"`xopt {shlex.quote(name)} -o other.onnx` " in error


def test_names_of_folders(xopt: Xopt) -> None:
    Path(RUN).mkdir()
    write(TRANSPOSES, f"{RUN}/model.onnx")
    assert command_in(xopt(RUN).error) == ["xopt", "batch", RUN, "-o", "OUT"]


def test_names_that_look_like_options() -> None:
    assert shell_path("-rf") == "./-rf"
    assert shell_path(Path("a b")) == "'a b'"


def test_names_of_outputs(xopt: Xopt) -> None:
    model = parse(
        "agraph (float[a,b,c] x) => (float[a,1,c] y, float[a,c] t) <int64 i = {1}, "
        "int64[1] k = {1}> { t = Gather <axis = 1> (x, i) y = Unsqueeze(t, k) }"
    )
    gather, unsqueeze = model.graph.node
    model.graph.output[1].name = gather.output[0] = unsqueeze.input[0] = RUN
    write(model)
    assert f"`--drop-output '{RUN}'` " in xopt("explain", "model.onnx", "GatherUnsqueeze").out


def test_names_of_dimensions() -> None:
    model = parse(SIZES)
    for value in (*model.graph.input, *model.graph.output):
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param:
                dim.dim_param = RUN
    (hint,) = hints(optimize(model), {RUN: 3})
    with on_command_line():
        assert hint.option == f"--fix '{RUN}=1'"


@pytest.mark.parametrize("text", ["a >= 1", "finite", "bool(it's)", f"bool('{RUN}')"])
def test_assumptions_of_a_model(text: str) -> None:
    with on_command_line():
        assert shlex.split(str(Advice("assume", (text, text)))) == ["--assume", text] * 2
