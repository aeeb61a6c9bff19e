"""Options that change inputs, outputs and sizes."""

import re
from pathlib import Path

import onnx
import pytest

from tests.cli.command import TRANSPOSES, Xopt, files, types_in, write
from tests.support import values_in

TWO = (
    "agraph (float[batch,seq] x) => (float[batch,seq] y, float[batch,seq] z) "
    "{ t = Transpose(x) u = Transpose(t) y = Relu(u) z = Exp(u) }"
)


def ends(path: str = "model.opt.onnx") -> list[str]:
    graph = onnx.load(path).graph
    return [value.name for value in (*graph.input, *graph.output)]


def shape(path: str = "model.opt.onnx") -> list[int | str]:
    dims = onnx.load(path).graph.input[0].type.tensor_type.shape.dim
    return [dim.dim_param or dim.dim_value for dim in dims]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--fix", "batch=2,seq=5"), [2, 5]),
        (("--fix", "batch=2", "--fix", "seq=5"), [2, 5]),
        (("--fix", "x=2,5"), [2, 5]),
        (("--fix", "seq=5"), ["batch", 5]),
    ],
)
def test_sizes_are_written_and_proved(
    xopt: Xopt, words: tuple[str, ...], expected: list[int | str]
) -> None:
    write(TWO)
    (report,) = xopt("model.onnx", *words, "--json").json["verification"]
    assert report["status"] == "equal"
    assert shape() == expected
    known = {
        name: size
        for name, size in zip(("batch", "seq"), expected, strict=True)
        if isinstance(size, int)
    }
    assert all(not known.keys() & run["dims"].keys() for run in report["runs"])
    assert shape("model.onnx") == ["batch", "seq"]


def test_inputs_and_outputs(xopt: Xopt) -> None:
    write(TWO)
    words = ("--drop-output", "z", "--keep-output", "t", "--rename", "x=pixels,y=scores")
    (report,) = xopt("model.onnx", *words, "--json").json["verification"]
    assert report["status"] == "equal"
    assert ends() == ["pixels", "scores", "t"]


def test_texts_are_stripped(xopt: Xopt) -> None:
    model = onnx.load(write(TRANSPOSES))
    model.graph.node[2].doc_string = "/home/me/model.py"
    write(model)
    assert xopt("model.onnx", "--strip").code == 0
    (node,) = onnx.load("model.opt.onnx").graph.node
    assert (node.doc_string, len(node.metadata_props)) == ("", 0)


@pytest.mark.usefixtures("brief")
def test_measured_and_bisected_models_are_the_prepared_ones(xopt: Xopt, brief: None) -> None:
    write(TWO)
    outcome = xopt(
        "model.onnx", "--rename", "x=pixels", "--fix", "batch=2,seq=3", "--benchmark", "--json"
    )
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.json["latency"] is not None


def test_nothing_is_folded(xopt: Xopt) -> None:
    write("agraph (float[2] x) => (float[2] y) <float[2] w = {1, 2}> { t = Neg(w) y = Add(x, t) }")
    assert xopt("model.onnx", "--no-fold", "--patterns", "TransposeTranspose").code == 0
    assert types_in("model.opt.onnx") == ["Neg", "Add"]


def test_a_seed(xopt: Xopt) -> None:
    write(TWO)
    (report,) = xopt("model.onnx", "--seed", "7", "--json").json["verification"]
    assert [run["seed"] for run in report["runs"]][:2] == [7, 8]
    (report,) = xopt("verify", "model.onnx", "model.opt.onnx", "--seed", "9", "--json").json
    assert report["runs"][0]["seed"] == 9


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--fix", "batch"), "--fix 'batch': write it as NAME=SIZE"),
        (("--fix", "batch=two"), "--fix 'batch=two': write it as NAME=SIZE"),
        (("--fix", "5,batch=2"), "--fix '5,batch=2': write it as NAME=SIZE"),
        (
            ("--fix", "bacth=2"),
            "--fix: the model has no dynamic dimension or input 'bacth' (it has batch, seq, x); "
            "did you mean 'batch'?",
        ),
        (("--fix", "batch=1", "--fix", "batch=2"), "--fix batch is given twice"),
        (("--rename", "x"), "--rename 'x': write it as OLD=NEW"),
        (("--rename", "w=v"), "the model has no input or output 'w'; it has x, y, z"),
        (("--drop-output", "w"), "the model has no output 'w'; it has y, z"),
        (("--keep-output", "w"), "no node of the main graph produces 'w'"),
    ],
)
def test_changes_that_do_not_fit(xopt: Xopt, words: tuple[str, ...], message: str) -> None:
    write(TWO)
    assert message in xopt("model.onnx", *words).error
    assert files() == {"model.onnx"}


def test_a_part(xopt: Xopt) -> None:
    write(TWO)
    outcome = xopt("extract", "model.onnx", "--from", "t", "--to", "y,z", "-o", "part.onnx")
    assert (outcome.code, outcome.err) == (0, "")
    assert re.match(r"3 .* t .* y, z: part\.onnx\n$", outcome.out)
    assert types_in("part.onnx") == ["Transpose", "Relu", "Exp"]
    assert xopt("stats", "part.onnx").code == 0
    error = xopt("extract", "model.onnx", "--to", "yy", "-o", "other.onnx").error
    assert values_in(error)[-2:] == ["yy", "y"]
    assert not Path("other.onnx").exists()


def test_shapes(xopt: Xopt) -> None:
    write(TWO)
    outcome = xopt("extract", "model.onnx", "-o", "shapes.onnx")
    assert (outcome.code, values_in(outcome.out), outcome.err) == (0, ["4", "4"], "")
    found = onnx.load("shapes.onnx").graph.value_info
    assert [value.name for value in found] == ["t", "u"]


def test_a_free_batch(xopt: Xopt) -> None:
    write(
        "agraph (float[1,6] x) => (float[1,6] y) <int64[2] s = {1, 6}> { t = Transpose(x) "
        "u = Transpose(t) y = Reshape(u, s) }"
    )
    (report,) = xopt("model.onnx", "--free", "batch", "--json").json["verification"]
    assert {run["dims"]["batch"] for run in report["runs"]} >= {2, 3}
    assert shape() == ["batch", 6]
    write("agraph (float[1,6] x) => (float[1,6] y) { y = Softmax <axis = 0> (x) }")
    assert xopt("model.onnx", "--free", "batch").error.startswith("--free batch: output 'y' ")


def test_sizes_with_which_the_model_does_not_run(xopt: Xopt) -> None:
    """They are bad usage; a model that does not run anyway is written, and not verified."""
    write(
        "agraph (float[n] x) => (float[n] y) <float[3] w = {1, 2, 3}> { t = Add(x, w) y = Neg(t) }"
    )
    assert "--fix: onnxruntime " in xopt("model.onnx", "--fix", "n=5").error
    assert files() == {"model.onnx"}
    write("agraph (float[n] x) => (float[n] y) { y = acme.Foo(x) }", domains={"acme": 1})
    assert xopt("model.onnx", "--fix", "n=5").code == 3
