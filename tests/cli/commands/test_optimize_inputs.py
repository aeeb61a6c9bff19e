"""``xopt --drop-unused-inputs``, and ``xopt verify --fewer-inputs``."""

import re
from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.cli.command import Xopt, write

UNUSED = (
    "agraph (float[n,2] x, int64[n] unread, float[2,3] sizes, float[2] v) "
    "=> (float[n,2] y, float[2] s) <float[2] v = {1, 2}> { h = Shape(sizes) s = Cast <to = 1> (h) "
    "d = Neg(unread) y = Relu(x) }"
)


def inputs(path: str) -> list[str]:
    return [value.name for value in onnx.load(path).graph.input]


def test_inputs_that_nothing_reads(xopt: Xopt) -> None:
    write(UNUSED)
    outcome = xopt("model.onnx", "-o", "kept.onnx")
    assert re.search("unread, sizes; --drop-unused-inputs ", outcome.summary["hint"])
    outcome = xopt("model.onnx", "--drop-unused-inputs", "-o", "dropped.onnx")
    assert outcome.summary["dropped"].startswith("unread, sizes: ")
    assert "unread" not in outcome.summary.get("hint", "")
    assert (inputs("kept.onnx"), inputs("dropped.onnx")) == (
        ["x", "unread", "sizes", "v"],
        ["x", "v"],
    )
    onnx.checker.check_model("dropped.onnx")
    summary = xopt("model.onnx", "--drop-unused-inputs", "--dry-run", "--json").json
    assert (summary["unused_inputs"], summary["dropped_inputs"]) == ([], ["unread", "sizes"])
    assert summary["verification"][0]["status"] == "equal"


def test_values_for_an_input_that_goes(xopt: Xopt) -> None:
    write(UNUSED)
    np.savez("feeds.npz", x=np.ones((3, 2), np.float32), unread=np.zeros(3, np.int64))
    assert xopt("model.onnx", "--drop-unused-inputs", "--feeds", "feeds.npz").code == 0
    assert (
        xopt(
            "verify", "model.onnx", "model.opt.onnx", "--feeds", "feeds.npz", "--fewer-inputs"
        ).code
        == 0
    )


def test_models_that_lack_inputs_are_compared_when_asked(xopt: Xopt) -> None:
    write(UNUSED)
    xopt("model.onnx", "--drop-unused-inputs", "-o", "dropped.onnx")
    outcome = xopt("verify", "model.onnx", "dropped.onnx")
    assert outcome.code == 1
    assert "input 'unread': " in outcome.out
    assert xopt("verify", "model.onnx", "dropped.onnx", "--fewer-inputs").code == 0
    outcome = xopt("verify", "dropped.onnx", "model.onnx", "--fewer-inputs")
    assert outcome.code == 1
    assert "input 'unread': " in outcome.out
    write("agraph (float[n,2] x, float[n,2] z) => (float[n,2] y) { y = Add(x, z) }", "sum.onnx")
    write("agraph (float[n,2] x) => (float[n,2] y) { y = Relu(x) }", "relu.onnx")
    assert "instead of" in xopt("verify", "sum.onnx", "relu.onnx", "--fewer-inputs").out


@pytest.mark.usefixtures("brief")
@pytest.mark.usefixtures("brief")
def test_both_are_measured(xopt: Xopt) -> None:
    write(UNUSED)
    outcome = xopt("model.onnx", "--drop-unused-inputs", "--benchmark", "--only-if-faster")
    assert outcome.code == 0
    assert "not measured" not in outcome.err
    assert Path("model.opt.onnx").exists()
