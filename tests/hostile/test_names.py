"""Names that are hard to write down."""

from collections.abc import Callable
from pathlib import Path

import onnx
import pytest

from tests.cli.command import TRANSPOSES, Xopt, types_in, write
from tests.hostile.cases import PLAIN, Case, Made, changed, check, listed, optimized

STRANGE = "größe / 模型 :0\n\t\"'`$(x) ☃"
FILES = [
    "two words.onnx",
    "modèle.onnx",
    "模型.onnx",
    "-dash.onnx",
    "semi;colon&.onnx",
    "näme ☃",
    "a.b.c.onnx",
    "x" * 200,
]


def renamed(name: str) -> Callable[[], Made]:
    def change(model: onnx.ModelProto) -> None:
        model.graph.input[0].name = model.graph.node[0].input[0] = name
        model.graph.node[0].output[0] = model.graph.node[1].input[0] = f"{name} of a node"
        model.graph.node[0].name = model.graph.name = model.doc_string = name

    return changed(PLAIN.format("t = Abs(x) u = Identity(t) y = Relu(u)"), change)


def dimension(name: str) -> Callable[[], Made]:
    def change(model: onnx.ModelProto) -> None:
        for value in (*model.graph.input, *model.graph.output):
            value.type.tensor_type.shape.dim[0].dim_param = name

    return changed(
        "agraph (float[n,2] x) => (float[n,2] y) { t = Identity(x) y = Relu(t) }", change
    )


def fresh_names(model: onnx.ModelProto) -> None:
    """Results are called what a new result might be called."""
    graph = model.graph
    for index, node in enumerate(graph.node):
        node.name = f"Relu_{index}"


CASES = [
    optimized(
        "name-strange",
        "names with line breaks, quotes, signs of other scripts",
        renamed(STRANGE),
        "Abs Relu",
    ),
    optimized("name-long", "names of 100,000 letters", renamed("n" * 100_000), "Abs Relu"),
    optimized("name-python", "names that are words of Python", renamed("None"), "Abs Relu"),
    optimized(
        "name-fresh",
        "nodes with names that new nodes might get",
        changed(PLAIN.format("t = Abs(x) u = Identity(t) y = Relu(u)"), fresh_names),
    ),
    optimized("name-dim-formula", "a dimension called `2*(N+1`", dimension("2*(N+1"), "Relu"),
    optimized("name-dim-number", "a dimension called `3`", dimension("3"), "Relu"),
    optimized("name-dim-strange", "a dimension with a strange name", dimension(STRANGE), "Relu"),
    optimized(
        "name-dim-long",
        "a dimension whose name has 100,000 letters",
        dimension("d" * 100_000),
        "Relu",
    ),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_names(xopt: Xopt, case: Case) -> None:
    check(case, xopt)


@listed(
    "name-file",
    "file names with spaces, dashes, dots, signs of other scripts, of 200 letters",
    "optimized; `NAME.opt.onnx` is written",
)
@pytest.mark.parametrize("name", FILES)
def test_names_of_files(xopt: Xopt, name: str) -> None:
    write(TRANSPOSES, name)
    target = f"{Path(name).stem}.opt.onnx"
    outcome = xopt("optimize", "--", name)
    assert outcome.code == 0
    assert outcome.out.splitlines()[-1] == f"written       {target}"
    assert types_in(target) == ["Relu"]


@listed(
    "name-file-long",
    "a target whose name has 300 letters",
    "error: “cannot write …: File name too long”",
)
def test_a_target_with_too_long_a_name(xopt: Xopt) -> None:
    write(TRANSPOSES)
    assert "File name too long" in xopt("model.onnx", "-o", "x" * 300).error
    assert [path.name for path in Path().iterdir()] == ["model.onnx"]


@listed(
    "name-file-250",
    "a model whose name has 253 letters, so that `NAME.opt.onnx` is too long",
    "error: “…: File name too long”",
)
def test_a_default_target_with_too_long_a_name(xopt: Xopt) -> None:
    name = f"{'x' * 248}.onnx"
    write(TRANSPOSES, name)
    assert "File name too long" in xopt(name).error
    assert xopt(name, "--in-place", "-q") == (0, "", "")
    assert [path.name for path in Path().iterdir()] == [name]
    assert types_in(name) == ["Relu"]
