"""``xopt MODEL --target``: what cannot be fitted or verified there, a line each."""

import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import onnx
import pytest

from tests.cli.command import RELU, Xopt, files, types_in, write
from tests.plugged import CRASH, fake_package, needs
from tests.support import parse, values_in
from tests.targets.test_fitting import without
from xoptim import ModelError
from xoptim.targets import Placement, PlacementError
from xoptim.targets.verifying import TargetCheck
from xoptim.verification import ProviderUnavailable
from xoptim.verification.runs.plugins import Plugin

FIXED = "agraph (float[2,4] x) => (float[2,4] y) { t = Ceil(x) y = Relu(t) }"
ERF = "agraph (float[2,4] x) => (float[2,4] y) { t = Erf(x) y = Relu(t) }"
LAYER = (
    "agraph (float[2,3,4] x, float[2,3,4] z) => (float[2,3,4] y) "
    "<float[4] s = {1, 2, 3, 4}, float[4] b = {0, 1, 0, 1}> { "
    "t = Add(x, z) n = LayerNormalization(t, s, b) y = Relu(n) }"
)
MATMUL = "agraph (float[2,8] x, float[8,8] w) => (float[2,8] y) { t = MatMul(x, w) y = Exp(t) }"
TRANSPOSED = (
    "agraph (float[2,3,4] x, float[2,3,5] w) => (float[2,4,5] y) { "
    "t = Transpose <perm = [0, 2, 1]> (x) y = MatMul(t, w) }"
)
LINE = "xopt: warning: not fitted to {}, and not verified there: {}\n"


@dataclass
class _Fake:
    """A provider that is installed: how it places a model, and the verdicts about it, the last one
    again and again.
    """

    ask: Callable[[onnx.ModelProto], Placement] = field(default_factory=without)
    fault: Exception | None = None
    verdicts: list[TargetCheck] = field(
        default_factory=lambda: [TargetCheck("webgpu", "equal", runs=2)]
    )
    asked: list[dict[str, Any]] = field(default_factory=list)

    def place(self, model: onnx.ModelProto, *_: Any, **asked: Any) -> Placement:
        """The placement, in the place of `xoptim.targets.place`."""
        self.asked.append(asked)
        if self.fault is not None:
            raise self.fault
        return self.ask(model)

    def verify(self, *_: Any, **__: Any) -> TargetCheck:
        """The verdict, in the place of `verify_on_target`."""
        return self.verdicts.pop(0) if len(self.verdicts) > 1 else self.verdicts[0]


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> _Fake:
    """In the place of all plug-ins."""
    found = _Fake()
    monkeypatch.setattr(Plugin, "is_installed", True)
    monkeypatch.setattr("xoptim.workflow.fitting.place", found.place)
    monkeypatch.setattr("xoptim.workflow.fitting.verify_on_target", found.verify)
    return found


def test_a_model_is_fitted_and_verified(xopt: Xopt, fake: _Fake) -> None:
    write(FIXED)
    fake.ask = without("Ceil")
    outcome = xopt("model.onnx", "--target", "webgpu", "-v")
    assert (outcome.code, outcome.err) == (0, "")
    assert "Ceil" not in types_in("model.opt.onnx")
    summary = outcome.summary
    assert summary["lowered"].startswith("Ceil by LowerCeil, 1 time: ")
    assert "verification  of the lowering: equal on cpu: " in outcome.out
    assert "webgpu" in summary["time"]
    assert summary["verification"].startswith("on webgpu: equal ")
    assert values_in(summary["verification"]) == ["2", "0", "0"]
    assert "left" not in summary


def test_a_provider_that_is_not_installed(xopt: Xopt, monkeypatch: pytest.MonkeyPatch) -> None:
    write(FIXED)
    monkeypatch.setattr(Plugin, "is_installed", False)
    outcome = xopt("model.onnx", "--target", "webgpu")
    assert outcome.code == 3
    assert outcome.err == LINE.format("webgpu", "not installed: pip install 'xoptim[webgpu]'")
    assert types_in("model.opt.onnx") == ["Ceil", "Relu"]


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        (ProviderUnavailable("it finds no device here"), "it finds no device here"),
        (
            PlacementError("the provider gave no answer within 600 s"),
            "the provider gave no answer within 600 s",
        ),
        (ModelError("its weights take more than 2 GB"), "its weights take more than 2 GB"),
    ],
)
def test_a_provider_that_cannot_be_asked(
    xopt: Xopt, fake: _Fake, fault: Exception, told: str
) -> None:
    """No device, no answer in time, or weights over 2 GB in the protobuf: the model is written, but
    not verified there.
    """
    write(FIXED)
    fake.fault = fault
    outcome = xopt("model.onnx", "--target", "webgpu")
    assert (outcome.code, outcome.err) == (3, LINE.format("webgpu", told))
    assert Path("model.opt.onnx").is_file()


def test_a_provider_that_is_too_slow_is_asked_once(xopt: Xopt, fake: _Fake) -> None:
    write(FIXED)
    fake.fault = PlacementError("no answer")
    assert xopt("model.onnx", "--target", "webgpu").code == 3
    assert len(fake.asked) == 1


def test_with_strict_nothing_is_written(xopt: Xopt, fake: _Fake) -> None:
    write(FIXED)
    fake.fault = ProviderUnavailable("it finds no device here")
    outcome = xopt("model.onnx", "--target", "webgpu", "--strict")
    assert outcome.code == 1
    assert re.search("it finds no device here; .*--strict\n$", outcome.err)
    assert files() == {"model.onnx"}


def test_a_result_that_differs_there(xopt: Xopt, fake: _Fake) -> None:
    write(ERF)
    fake.verdicts = [
        TargetCheck("webgpu", "different", "output 'y' differs by 9.00%", node="t", operator="Relu")
    ]
    outcome = xopt("model.onnx", "--target", "webgpu")
    assert outcome.code == 1
    assert re.search("webgpu.*: output 'y' differs by 9.00%; .* Relu 't'; ", outcome.err)
    assert files() == {"model.onnx"}


def test_a_pattern_that_is_slower_there_is_named(xopt: Xopt, fake: _Fake) -> None:
    write(LAYER, opset=17)
    outcome = xopt("model.onnx", "--target", "webgpu")
    assert (outcome.code, outcome.err) == (0, "")
    told = "not applied   LayerNormalizationRow 1: known to be faster on cpu only"
    assert told in outcome.out.splitlines()
    found = xopt("model.onnx", "--target", "webgpu", "--json").json
    (unfit,) = found["target"]["unfit"]
    assert (unfit["pattern"], unfit["count"]) == ("LayerNormalizationRow", 1)


def test_a_fusion_into_what_the_target_lacks_is_not_used(xopt: Xopt) -> None:
    """Of a GELU, all but Erf runs there; as one operator, nothing would."""
    write(
        "agraph (float[2,8] x) => (float[2,8] y) <float r = {1.41421356}, float one = {1}, "
        "float h = {0.5}> { a = Div(x, r) e = Erf(a) f = Add(e, one) g = Mul(x, f) y = Mul(g, h) }",
        opset=20,
    )
    outcome = xopt("model.onnx", "--target", "nnapi")
    assert "4 of 5 nodes" in outcome.summary["placement"]
    assert outcome.summary["not applied"] == "GeluErf 1: it writes Gelu, which nnapi lacks"
    outcome = xopt("model.onnx", "--target", "webnn", "-o", "other.onnx")
    assert "1 of 1 node" in outcome.summary["placement"]


def test_a_conversion_that_nobody_asked_for_names_the_target(xopt: Xopt) -> None:
    write(MATMUL)
    outcome = xopt("model.onnx", "--target", "coreml")
    assert outcome.code == 3
    assert re.match("float16, .* coreml: ", outcome.summary["quantization"])
    found = xopt("model.onnx", "--target", "coreml", "--json").json["precision"]
    assert (found["scheme"], found["target"]) == ("float16", "coreml")
    asked = xopt("model.onnx", "--target", "coreml", "--precision", "float16", "--json")
    assert asked.json["precision"]["target"] == ""


def test_a_model_that_no_lowering_fits(xopt: Xopt, fake: _Fake) -> None:
    write(ERF)
    fake.ask = without("Erf")
    outcome = xopt("model.onnx", "--target", "webgpu", "--patterns", "")
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.summary["placement"].startswith("fake: 1 of 2 nodes in 1 partition ")
    assert outcome.summary["not placed"].startswith("Erf 1: ")


def test_open_dimensions(xopt: Xopt) -> None:
    write(RELU)
    expected = "qnn needs fixed shapes, but batch is dynamic; --fix NAME=SIZE fixes a dimension"
    assert xopt("model.onnx", "--target", "qnn").error == expected
    assert files() == {"model.onnx"}


def test_a_table_verifies_nothing(xopt: Xopt) -> None:
    write(FIXED)
    outcome = xopt("model.onnx", "--target", "webnn")
    assert outcome.code == 3
    assert outcome.err.startswith("xopt: warning: not verified on webnn: ")
    standard = xopt("model.onnx", "--target", "onnx", "-o", "other.onnx")
    assert (standard.code, standard.err) == (0, ""), "onnxruntime is a runtime of the standard"


def test_operators_of_other_domains_are_left(xopt: Xopt) -> None:
    """They are named, and the exit code says that the model is not fitted."""
    text = "agraph (float[2,2] x) => (float[2,2] y) { t = com.microsoft.Inverse(x) y = Relu(t) }"
    onnx.save(parse(text, domains={"com.microsoft": 1}), "model.onnx")
    line = "xopt: warning: not fitted to onnx, as no lowering applies: com.microsoft::Inverse 1\n"
    for words in ((), ("--no-verify",)):
        outcome = xopt("model.onnx", "--target", "onnx", "-o", "other.onnx", *words)
        assert (outcome.code, outcome.err) == (3, line)
    assert xopt("model.onnx", "--target", "onnx", "-o", "no.onnx", "--strict").code == 1
    assert files() == {"model.onnx", "other.onnx"}


def test_an_integer_that_lies_halfway(xopt: Xopt) -> None:
    """The kernel rounds 0.5 + 3 to 4, and QuantizeLinear rounds 0.5 to 0."""
    text = (
        "agraph (uint8[4] x) => (uint8[4] z) <float s = {0.5}, float t = {1}, uint8 u = {0}, "
        "uint8 v = {3}> { z = com.microsoft.QLinearAdd(x, s, u, x, s, v, t, v) }"
    )
    onnx.save(parse(text, domains={"com.microsoft": 1}), "model.onnx")
    assert (xopt("model.onnx", "--target", "onnx", "-o", "other.onnx")).code == 0
    assert "QuantizeLinear" in types_in("other.onnx")


def test_no_verification_is_asked_for(xopt: Xopt, fake: _Fake) -> None:
    write(FIXED)
    outcome = xopt("model.onnx", "--target", "webgpu", "--no-verify", "--software-device")
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.summary["verification"] == "skipped on webgpu: --no-verify"
    assert all(each["software_device"] for each in fake.asked)
    found = xopt("model.onnx", "--target", "webnn", "--no-verify", "-o", "other.onnx", "--json")
    assert (found.code, found.json["target"]["is_verified"]) == (0, False)


def test_the_model_on_standard_output(xopt: Xopt, fake: _Fake) -> None:
    write(FIXED)
    outcome = xopt("model.onnx", "--target", "webgpu", "-o", "-", "-q")
    assert (outcome.code, outcome.err) == (0, "")
    assert files() == {"model.onnx"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("webgqu",), "there is no target 'webgqu'; did you mean 'webgpu'?"),
        (
            ("webgpu", "--provider", "cuda"),
            "--provider cuda does not run models on --target webgpu; remove --provider",
        ),
        (
            ("qnn", "--provider", "webgpu"),
            "--provider webgpu does not run models on --target qnn",
        ),
        (
            ("qnn", "--precision", "int4"),
            "--precision int4 writes com.microsoft::MatMulNBits, which qnn does not run",
        ),
        (
            ("onnx", "--precision", "int4"),
            "--precision int4 writes com.microsoft::MatMulNBits, which onnx does not run",
        ),
        (
            ("qnn", "--software-device"),
            "--software-device has no effect without --target webgpu or --provider webgpu",
        ),
    ],
)
def test_bad_usage(xopt: Xopt, words: tuple[str, ...], message: str) -> None:
    write(FIXED)
    assert message in xopt("model.onnx", "--target", *words).error
    assert files() == {"model.onnx"}


def test_fast_keeps_to_the_operators_of_the_target(xopt: Xopt, fake: _Fake) -> None:
    """WebGPU runs operators of onnxruntime, a runtime of the standard does not.

    Both take the newest operator set.
    """
    write(TRANSPOSED, opset=17)
    for target, expected in (("webgpu", {"com.microsoft"}), ("onnx", {""})):
        assert xopt("fast", "model.onnx", "--target", target, "-o", "fast.onnx").code == 0
        found = onnx.load("fast.onnx")
        assert {node.domain for node in found.graph.node} == expected
        assert next(each.version for each in found.opset_import if not each.domain) > 17


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no signals")
def test_a_library_that_crashes_is_one_line(
    xopt: Xopt, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(FIXED)
    with monkeypatch.context() as patch:
        fake_package("qnn", CRASH, tmp_path, patch)
        outcome = xopt("model.onnx", "--target", "qnn", "-o", "other.onnx")
    assert outcome.code == 3
    (warning,) = outcome.warnings
    assert warning.startswith("not verified on qnn: ")
    assert "SIGSEGV" in warning


@needs("webgpu")
def test_webgpu(xopt: Xopt) -> None:
    write(FIXED)
    outcome = xopt("model.onnx", "--target", "webgpu", "--software-device")
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.summary["verification"].startswith("on webgpu: equal on 2 ")


@needs("qnn")
def test_qnn(xopt: Xopt) -> None:
    write(parse(RELU))
    outcome = xopt("model.onnx", "--target", "qnn", "--fix", "batch=2")
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.summary["verification"].startswith("on qnn: equal on 2 ")
