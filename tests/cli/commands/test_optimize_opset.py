"""``xopt MODEL --opset N``: raised and lowered models."""

import json

import onnx
import pytest

from tests.cli.command import Xopt, files, write
from tests.support import values_in

OLD = (
    "agraph (float[2,3] x) => (float[2,1,3] y) { t = Clip <min = 0.0> (x) "
    "y = Unsqueeze <axes = [1]> (t) }"
)


def opset_of(name: str) -> int:
    """The operator set of ONNX that a model imports."""
    return next(entry.version for entry in onnx.load(name).opset_import if not entry.domain)


def test_a_newer_operator_set(xopt: Xopt) -> None:
    write(OLD, opset=9)
    said = xopt("model.onnx", "--opset", "18")
    assert said.code == 0
    assert "opset         9 → 18" in said.out
    assert opset_of("model.opt.onnx") == 18
    report = json.loads(xopt("model.onnx", "--opset", "13", "--json").out)
    assert (report["opset_before"], report["opset_after"]) == (9, 13)
    assert report["verification"][0]["status"] == "equal"


def test_the_newest_operator_set(xopt: Xopt) -> None:
    write(OLD, opset=9)
    assert xopt("model.onnx", "--opset", "newest", "--check", "each").code == 0
    assert opset_of("model.opt.onnx") >= 21
    assert xopt("model.opt.onnx", "--opset", "newest", "-o", "same.onnx").code == 0
    assert opset_of("same.onnx") == opset_of("model.opt.onnx")


@pytest.mark.parametrize(
    ("opset", "expected"),
    [
        ("6", "models are lowered to operator set 7 or newer, not to 6"),
        ("1000", "there is no operator set 1000"),
        ("old", "'old' is neither a number nor `newest`"),
    ],
)
def test_operator_sets_to_which_a_model_cannot_be_raised(
    xopt: Xopt, opset: str, expected: str
) -> None:
    write(OLD, opset=9)
    said = xopt("model.onnx", "--opset", opset)
    assert said.code == 2
    assert expected in said.err
    assert said.err.count("\n") == 1
    assert files() == {"model.onnx"}


def test_an_older_operator_set(xopt: Xopt) -> None:
    write("agraph (float[n,4] x) => (float[n,4] y) { y = Gelu (x) }", opset=20)
    said = xopt("model.onnx", "--opset", "17")
    assert said.code == 0
    assert "20 → 17" in said.out
    assert "--opset" not in said.out, "no hint to raise what was lowered"
    assert opset_of("model.opt.onnx") == 17


def test_a_node_that_cannot_be_lowered(xopt: Xopt) -> None:
    write("agraph (float[n] x) => (int32[n] y) { [bits] y = BitCast <to = 6> (x) }", opset=26)
    error = xopt("model.onnx", "--opset", "17").error
    assert "'bits' (BitCast)" in error
    assert values_in(error) == ["bits", "17"]
    assert files() == {"model.onnx"}


def test_a_node_that_cannot_be_raised(xopt: Xopt) -> None:
    write("agraph (float[2] x) => (float[2] y, float[2] m) { [drop] y, m = Dropout(x) }", opset=9)
    error = xopt("model.onnx", "--opset", "13").error
    assert "'drop' (Dropout)" in error
    assert values_in(error)[:2] == ["drop", "10"]
    assert files() == {"model.onnx"}
