"""``xopt verify --target``: the original on the processor, the other model on a target."""

import re
from typing import Any

import onnxruntime
import pytest

from tests.cli.command import RELU, Xopt, write
from tests.plugged import needs
from tests.support import values_in
from xoptim.targets.verifying import TargetCheck
from xoptim.verification.runs.plugins import Plugin

FIXED = "agraph (float[2,4] x) => (float[2,4] y) { t = Abs(x) u = Neg(t) y = Relu(u) }"
WRONG = FIXED.replace("Neg", "Identity")
WORDS = ("verify", "model.onnx", "other.onnx", "--target", "webgpu")


@pytest.fixture
def verdict(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The fields of the verdict of each target, and the options with which it was asked for."""
    found: dict[str, Any] = {"status": "equal", "runs": 2}

    def verified(
        original: object, result: object, target: Any, checks: Any, *_: Any, **asked: Any
    ) -> TargetCheck:
        found["checks"], found["asked"] = checks, asked
        return TargetCheck(
            target.name, **{key: found[key] for key in found.keys() - {"checks", "asked"}}
        )

    monkeypatch.setattr("xoptim.cli.commands.verify.verify_on_target", verified)
    write(RELU)
    write(RELU, "other.onnx")
    return found


def test_they_are_equal_there(xopt: Xopt, verdict: dict[str, Any]) -> None:
    outcome = xopt(*WORDS, "--software-device", "--dim", "batch=3", "--seed", "7")
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out.startswith("webgpu: equal ")
    assert values_in(outcome.out) == ["2", "0", "0"]
    assert verdict["asked"] == {"software_device": True}
    assert (verdict["checks"].providers, verdict["checks"].dims, verdict["checks"].seed) == (
        ("cpu",),
        {"batch": 3},
        7,
    )


def test_the_first_node_that_differs_is_named(xopt: Xopt, verdict: dict[str, Any]) -> None:
    verdict |= {
        "status": "different",
        "reason": "output 'y' differs by 50.00%",
        "node": "t",
        "operator": "Erf",
    }
    outcome = xopt(*WORDS)
    assert outcome.code == 1
    assert re.search("output 'y' differs by 50.00%; .* Erf 't'\n$", outcome.out)
    found = xopt(*WORDS, "--json")
    assert (found.code, found.json["node"], found.json["operator"]) == (1, "t", "Erf")


def test_there_is_no_verdict(xopt: Xopt, verdict: dict[str, Any]) -> None:
    verdict |= {"status": "not verified", "reason": "the result does not run there: no kernel"}
    outcome = xopt(*WORDS)
    assert (outcome.code, outcome.out) == (3, f"webgpu: not verified: {verdict['reason']}\n")


def test_a_target_that_is_not_installed(xopt: Xopt, monkeypatch: pytest.MonkeyPatch) -> None:
    write(RELU)
    write(RELU, "other.onnx")
    monkeypatch.setattr(Plugin, "is_installed", False)
    # Other tests of this process may have loaded it.
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: ["CPUExecutionProvider"])
    outcome = xopt(*WORDS)
    assert outcome.code == 3
    assert values_in(outcome.out) == ["webgpu", "xoptim[webgpu]"]


@needs("qnn")
def test_qnn(xopt: Xopt) -> None:
    write(FIXED)
    write(WRONG, "other.onnx")
    assert xopt("verify", "model.onnx", "model.onnx", "--target", "qnn").code == 0
    assert xopt("verify", "model.onnx", "other.onnx", "--target", "qnn").code == 1
