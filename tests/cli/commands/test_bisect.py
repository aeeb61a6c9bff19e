"""A wrong pattern is found, left out and named.

The rest is done; and it can be shown in a small model.
"""

import json
from pathlib import Path
from typing import Any

import onnx
import pytest

from tests.cli.command import Xopt, files, types_in, write
from tests.support import parse
from xoptim import optimize, select
from xoptim.verification import verify_models

MODEL = """agraph (float[N,3] x) => (float[N,3] y)
    { a = Neg(x) b = Neg(a) c = Exp(b) d = Relu(c) e = Sin(d) f = Neg(e) y = Abs(f) }"""
pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("bad_patterns")]


@pytest.mark.parametrize("check", ["end", "each"])
def test_it_is_dropped_and_the_rest_is_done(xopt: Xopt, check: str) -> None:
    write(MODEL)
    outcome = xopt("model.onnx", "--patterns", "default+WrongRelu", "--check", check)
    assert outcome.code == 0
    (warning,) = outcome.warnings
    assert "WrongRelu" in warning
    assert types_in("model.opt.onnx") == ["Exp", "Relu", "Sin", "Abs"]
    assert outcome.summary["verification"].startswith("equal ")
    assert "WrongRelu" in outcome.summary["dropped"]
    assert verify_models("model.onnx", "model.opt.onnx").ok


def test_several_are_dropped(xopt: Xopt) -> None:
    write(MODEL.replace("c = Exp(b)", "g = Exp(b) c = LeakyRelu(g)"))
    outcome = xopt("model.onnx", "--patterns", "default+WrongRelu+ShiftedRelu", "--json")
    assert outcome.code == 0
    assert {culprit["name"] for culprit in outcome.json["dropped"]} == {"WrongRelu", "ShiftedRelu"}
    assert [report["status"] for report in outcome.json["verification"]] == ["equal"]


def test_strict_refuses_to_heal(xopt: Xopt) -> None:
    write(MODEL)
    for check in ("end", "each"):
        outcome = xopt(
            "model.onnx", "--patterns", "default+WrongRelu", "--strict", "--check", check
        )
        assert outcome.code == 1
        assert files() == {"model.onnx"}


def test_each_rewrite_is_counted(xopt: Xopt) -> None:
    write(MODEL)
    outcome = xopt("model.onnx", "--check", "each", "--json")
    each: dict[str, Any] = outcome.json["each"]
    assert each["checked"] == sum(outcome.json["patterns"].values()) > 0
    assert each["disagreements"] == each["unchecked"] == []
    assert "checked individually" in xopt("model.onnx", "--check", "each").out


def test_each_rewrite_without_the_comparison_at_the_end(xopt: Xopt) -> None:
    write(MODEL)
    assert (
        xopt("model.onnx", "--patterns", "default+WrongRelu", "--check", "each", "--no-verify").code
        == 0
    )
    assert types_in("model.opt.onnx") == ["Exp", "Relu", "Sin", "Abs"]


@pytest.mark.parametrize(("opset", "flattened"), [("14", 1), ("newest", 0)])
def test_a_model_that_is_raised_first(xopt: Xopt, opset: str, flattened: int) -> None:
    """`newest` stops before the set in which a Softmax over several axes needs further nodes."""
    write(MODEL.replace("e = Sin(d)", "g = Sin(d) e = Softmax <axis = 0> (g)"), opset=11)
    outcome = xopt("model.onnx", "--patterns", "default+WrongRelu", "--opset", opset)
    assert (outcome.code, len(outcome.warnings)) == (0, 1)
    assert types_in("model.opt.onnx").count("Flatten") == flattened
    outcome = xopt("bisect", "model.onnx", "--patterns", "default+WrongRelu", "--opset", opset)
    assert outcome.code == 1
    assert "WrongRelu" in outcome.out.splitlines()[0]
    assert types_in("model.bisect.onnx") == ["Relu"]


def test_bisect_writes_a_model_that_shows_it(xopt: Xopt) -> None:
    write(MODEL)
    outcome = xopt("bisect", "model.onnx", "--patterns", "default+WrongRelu")
    assert outcome.code == 1
    assert "WrongRelu" in outcome.out.splitlines()[0]
    assert "model.bisect.onnx: a model of 1 node" in outcome.out
    small = onnx.load("model.bisect.onnx")
    assert [node.op_type for node in small.graph.node] == ["Relu"]
    wrong = optimize(small, patterns=select("WrongRelu"))
    assert verify_models(small, wrong).status == "different"


def test_bisect_in_json(xopt: Xopt) -> None:
    write(MODEL)
    outcome = xopt(
        "bisect", "model.onnx", "--patterns", "default+WrongRelu", "--json", "-o", "small.onnx"
    )
    assert outcome.code == 1
    assert outcome.json["name"] == "WrongRelu"
    assert outcome.json["model"] == "small.onnx"
    assert Path("small.onnx").is_file()


def test_bisect_finds_nothing(xopt: Xopt) -> None:
    onnx.save(parse(MODEL), "model.onnx")
    outcome = xopt("bisect", "model.onnx")
    assert (outcome.code, outcome.err) == (0, "")
    assert json.loads(xopt("bisect", "model.onnx", "--json").out) is None
    assert files() == {"model.onnx"}


def test_bisect_cannot_judge_what_does_not_run(xopt: Xopt) -> None:
    write(
        "agraph (float[n] x) => (float[n] y) { t = acme.Frobnicate(x) y = Neg(t) }",
        domains={"acme": 1},
    )
    outcome = xopt("bisect", "model.onnx")
    assert outcome.code == 3
    assert outcome.warnings[0].startswith("not verified: ")
    assert "Frobnicate" in outcome.warnings[0]
