"""``xopt apply``."""

import re

import onnx
import pytest

from tests.cli.command import TRANSPOSES, Xopt, files, types_in, write
from tests.cli.commands.test_explain import BROKEN


@pytest.mark.parametrize("at", ["u", "t", "#1"])
def test_apply(xopt: Xopt, at: str) -> None:
    write(
        "agraph (float[a,b] x) => (float[a,b] y) { t = Transpose(x) u = Transpose(t) "
        "z = Cast <to = 9> (x) w = Not(z) v = Not(w) y = Where(v, x, u) q = Not(w) }"
    )
    outcome = xopt("apply", "model.onnx", "TransposeTranspose", "--at", at, "-o", "out.onnx")
    assert outcome.code == 0, outcome
    assert re.search(r"\bequal\b.* \d+ runs", outcome.out)
    assert "opset" not in outcome.out
    assert "Transpose" not in types_in("out.onnx")
    assert types_in("out.onnx").count("Not") == 3  # nothing else is done
    onnx.checker.check_model("out.onnx", full_check=True)


def test_apply_as_json(xopt: Xopt) -> None:
    write(TRANSPOSES)
    found = xopt(
        "apply",
        "model.onnx",
        "TransposeTranspose",
        "--at",
        "u",
        "-o",
        "out.onnx",
        "--json",
        "--no-verify",
    ).json
    assert found["patterns"] == {"TransposeTranspose": 1}
    assert (found["written"], found["nodes_before"], found["nodes_after"]) == (["out.onnx"], 3, 1)
    assert (found["exactness"], found["verification"]) == ("exact", [])
    assert found["opset_before"] == found["opset_after"] > 0


def test_apply_where_it_does_not_match(xopt: Xopt) -> None:
    case = BROKEN["another type"]
    write(case.text)
    outcome = xopt("apply", "model.onnx", "MatMulAdd", "--at", "t", "-o", "out.onnx")
    assert (outcome.code, outcome.err) == (1, "")
    assert case.reason in outcome.out.splitlines()[0]
    assert files() == {"model.onnx"}


def test_apply_verifies(xopt: Xopt, bad_patterns: None) -> None:
    write("agraph (float[a,b] x) => (float[a,b] y) { y = Relu(x) }")
    outcome = xopt("apply", "model.onnx", "WrongRelu", "--at", "y", "-o", "out.onnx")
    assert outcome.code == 1
    assert files() == {"model.onnx"}
    assert xopt("apply", "model.onnx", "WrongRelu", "--at", "y", "-o", "model.onnx").code == 2
