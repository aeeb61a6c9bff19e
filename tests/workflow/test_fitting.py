"""Results that are fitted to a target, with a target that is made up."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import onnx
import pytest

from tests.optimizing.test_verified import WrongReluPattern
from tests.support import parse, types
from tests.targets.test_fitting import without
from xoptim import NotVerifiedError, OptimizationOptions, PrecisionOptions
from xoptim.catalogue.discovery import installed_patterns
from xoptim.diagnose.report import Culprit
from xoptim.facts.errors import ModelError, XoptimError
from xoptim.graph.sources import Source
from xoptim.optimizing.plans import Plan
from xoptim.optimizing.verified import VerifiedModel, optimize_verified
from xoptim.targets import Placement, PlacementError, named
from xoptim.targets.fitting import Fitted, FittingStep, fit
from xoptim.targets.placement import PlacedNode
from xoptim.targets.verifying import TargetCheck
from xoptim.verification import ProviderUnavailable
from xoptim.verification.runs.plugins import Plugin
from xoptim.workflow.fitting import Fit, FittingOutcome
from xoptim.workflow.fitting_options import FittingOptions
from xoptim.workflow.job import Job, JobOptions
from xoptim.workflow.outcome import TargetError

MODEL = "agraph (float[2,4] x) => (float[2,4] y) { t = Ceil(x) u = Sum(t, x, t) y = Relu(u) }"
EQUAL = TargetCheck("webgpu", "equal", runs=2)
CEIL = TargetCheck("webgpu", "different", "output 'y' differs", node="t", operator="Ceil")
WEIGHTS: Final = ", ".join(f"{number % 7 - 3}" for number in range(16))
PRODUCT: Final = (
    f"agraph (float[2,4] x) => (float[2,4] y) <float[4,4] w = {{{WEIGHTS}}}> {{ t = MatMul(x, w) "
    "y = Relu(t) }"
)
WRONG: Final = TargetCheck("qnn", "different", "output 'y' differs")


@dataclass
class _Fake:
    """A target: how it places a model, and its verdicts in order, the last one again and again."""

    ask: Callable[[onnx.ModelProto], Placement] = field(default_factory=without)
    faults: list[Exception] = field(default_factory=list)
    verdicts: list[TargetCheck] = field(default_factory=lambda: [EQUAL])
    placed: int = 0
    # the operators of each model that was verified
    verified: list[list[str]] = field(default_factory=list)

    def place(self, model: onnx.ModelProto, *_: Any, **__: Any) -> Placement:
        """The placement."""
        self.placed += 1
        if self.faults:
            raise self.faults.pop(0)
        return self.ask(model)

    def verify(self, _: object, result: onnx.ModelProto, *__: Any, **___: Any) -> TargetCheck:
        """The verdict."""
        self.verified.append(types(result))
        return self.verdicts.pop(0) if len(self.verdicts) > 1 else self.verdicts[0]


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> _Fake:
    """In the place of all plug-ins."""
    found = _Fake()
    monkeypatch.setattr(Plugin, "is_installed", True)
    monkeypatch.setattr("xoptim.workflow.fitting.place", found.place)
    monkeypatch.setattr("xoptim.workflow.fitting.verify_on_target", found.verify)
    return found


def fitted(text: str = MODEL, **options: Any) -> tuple[VerifiedModel, FittingOutcome]:
    """A model as it is, fitted to WebGPU."""
    source, how = Source(parse(text)), Plan()
    verified = optimize_verified(source, OptimizationOptions(patterns=None), how)
    return Fit(named("webgpu"), FittingOptions(**options), how).run(source, verified)


def test_nothing_is_to_be_done(fake: _Fake) -> None:
    verified, found = fitted()
    assert types(verified.proto) == ["Ceil", "Sum", "Relu"]
    assert found.is_verified
    assert (found.doubt, found.difference, found.dropped, found.reports) == ("", "", [], ())


def test_the_lowered_model_is_compared_with_the_optimized_one(fake: _Fake) -> None:
    fake.ask = without("Ceil")
    verified, found = fitted()
    assert "Ceil" not in types(verified.proto)
    assert [report.status for report in found.reports] == ["equal"]
    assert fake.verified == [types(verified.proto)]
    assert found.original is not None
    assert found.fitted is not None
    assert (len(found.original.left), len(found.fitted.after.left)) == (1, 0)


def test_a_lowering_that_changes_numbers_is_dropped(
    fake: _Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first search uses a lowering of Sum that is wrong."""
    fake.ask = without("Ceil", "Sum")
    wrong = parse(MODEL.replace("Sum(t, x, t)", "Add(t, x)"))

    def search(
        model: onnx.ModelProto,
        ask: Any,
        base_dir: Path | None,
        *,
        drop: Sequence[str],
        seconds: float,
        **_: Any,
    ) -> Fitted:
        if "LowerWrongly" in drop:
            return fit(model, ask, base_dir, drop=drop, seconds=seconds)
        return Fitted(wrong, ask(model), ask(wrong), (FittingStep("LowerWrongly", "Sum", 1),))

    monkeypatch.setattr("xoptim.workflow.fitting.fit", search)
    verified, found = fitted()
    assert found.dropped == ["LowerWrongly"]
    assert not {"Ceil", "Sum"} & set(types(verified.proto))
    assert ([report.status for report in found.reports], found.difference) == (["equal"], "")


def test_a_lowering_that_is_wrong_at_one_node_is_not_applied_there(
    fake: _Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake.ask = without("Sum")
    wrong = parse(MODEL.replace("Sum(t, x, t)", "Add(t, x)"))
    avoided: list[dict[str, list[str]]] = []

    def search(
        model: onnx.ModelProto, ask: Any, *_: Any, avoid: dict[str, list[str]], **__: Any
    ) -> Fitted:
        avoided.append({**avoid})
        if avoid:
            return Fitted(model, ask(model), ask(model))
        return Fitted(wrong, ask(model), ask(wrong), (FittingStep("LowerSum", "Sum", 2),))

    def culprit(*_: Any) -> Culprit:
        return Culprit("pattern", "LowerSum", 1, "the sum", result="s")

    monkeypatch.setattr("xoptim.workflow.fitting.fit", search)
    monkeypatch.setattr("xoptim.workflow.fitting.Suspect.find_culprit", culprit)
    _, found = fitted()
    assert avoided == [{}, {"LowerSum": ["the sum"]}]
    assert (found.dropped, found.avoided) == ([], {"LowerSum": ["the sum"]})
    assert found.to_json()["avoided"] == {"LowerSum": ["the sum"]}


def test_a_lowering_that_needs_a_newer_operator_set_is_named(fake: _Fake) -> None:
    contrib = PlacedNode("", "Gelu", "com.microsoft", "CPU", -1)
    fake.ask = lambda _: Placement("fake", (contrib,))
    text = "agraph (float[n,8] x) => (float[n,8] y) { y = com.microsoft.Gelu(x) }"
    model = parse(text, 18, domains={"com.microsoft": 1})
    source, how = Source(model), Plan()
    verified = optimize_verified(source, OptimizationOptions(patterns=None), how)
    _, found = Fit(named("webgpu"), FittingOptions(), how).run(source, verified)
    assert found.newer == {"GeluToStandard": 20}
    assert found.to_json()["newer"] == {"GeluToStandard": 20}


def test_lowerings_that_are_all_wrong_are_a_difference(
    fake: _Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake.ask = without("Sum")
    wrong = parse(MODEL.replace("Sum(t, x, t)", "Add(t, x)"))

    def search(model: onnx.ModelProto, ask: Any, *_: Any, drop: Sequence[str], **__: Any) -> Fitted:
        return Fitted(wrong, ask(model), ask(wrong), (FittingStep(f"Lower{len(drop)}", "Sum", 1),))

    monkeypatch.setattr("xoptim.workflow.fitting.fit", search)
    _, found = fitted()
    assert "lowered model" in found.difference
    assert len(found.dropped) == 5


def test_an_operator_that_the_target_computes_wrongly_is_lowered(fake: _Fake) -> None:
    fake.verdicts = [CEIL, EQUAL]
    verified, found = fitted()
    assert "Ceil" in fake.verified[0]
    assert "Ceil" not in fake.verified[1]
    assert fake.verified[1] == types(verified.proto)
    assert found.is_verified
    assert found.fitted is not None
    (step,) = found.fitted.steps
    assert step.operator == "Ceil"
    assert re.match("webgpu .*wrong", step.reason)


def test_a_difference_that_no_lowering_mends(fake: _Fake) -> None:
    """No lowering helps Relu; that of Ceil is used, but the result still differs; each operator is
    tried once.
    """
    relu = replace(CEIL, operator="Relu", node="y")
    fake.verdicts = [relu]
    assert re.match("on webgpu, .*'y' .*Relu 'y'$", fitted()[1].difference)
    fake.verdicts = [CEIL]
    assert fitted()[1].difference.endswith("Ceil 't'")
    assert len(fake.verified) == 4


def test_it_is_not_installed(fake: _Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Plugin, "is_installed", False)
    verified, found = fitted()
    assert types(verified.proto) == ["Ceil", "Sum", "Relu"]
    assert re.match(r"not fitted to webgpu, .*not installed: .*'xoptim\[webgpu\]'$", found.doubt)
    assert (fake.placed, fake.verified) == (0, [])


@pytest.mark.parametrize("fault", [ProviderUnavailable("no device"), PlacementError("no answer")])
def test_it_cannot_be_asked(fake: _Fake, fault: Exception) -> None:
    fake.faults = [fault]
    _, found = fitted()
    assert re.match(f"not fitted to webgpu, .*: {fault}$", found.doubt)
    assert (found.original, found.fitted, fake.placed) == (None, None, 1)


def test_an_original_that_cannot_be_placed(fake: _Fake) -> None:
    """The result may be smaller than the protobuf allows, where the original is not."""
    fake.faults = [ModelError("too large")]
    _, found = fitted()
    assert found.original is None
    assert found.is_verified


def test_no_verification_is_asked_for(fake: _Fake) -> None:
    fake.ask = without("Ceil")
    verified, found = fitted(verifies=False)
    assert "Ceil" not in types(verified.proto)
    assert (found.check, found.doubt, found.is_verified, fake.verified) == (None, "", False, [])


def test_there_is_no_verdict(fake: _Fake) -> None:
    fake.verdicts = [TargetCheck("webgpu", "not verified", "no kernel")]
    _, found = fitted()
    assert found.doubt == "not verified on webgpu: no kernel"
    assert found.difference == ""
    assert found.to_json()["is_verified"] is False


def test_a_doubt_names_the_first_node_that_differs(fake: _Fake) -> None:
    fake.verdicts = [replace(CEIL, status="not verified")]
    assert re.match("not verified on webgpu: .*'y' .*Ceil 't'$", fitted()[1].doubt)


def job(*, strict: bool = False) -> tuple[Job, list[VerifiedModel]]:
    """A job whose result is fitted to WebGPU, and the results that it writes."""
    written: list[VerifiedModel] = []

    def write(verified: VerifiedModel) -> Sequence[Path]:
        written.append(verified)
        return []

    options = OptimizationOptions(target="webgpu", strict=strict)
    return Job(Source(parse(MODEL)), JobOptions(optimization=options, write=write)), written


def test_a_difference_is_a_refusal(fake: _Fake) -> None:
    fake.verdicts = [replace(CEIL, operator="Relu")]
    made, written = job()
    outcome = made.run()
    assert outcome.refusal is not None
    assert outcome.refusal.cause == "target"
    assert written == []
    with pytest.raises(TargetError, match="on webgpu, "):
        outcome.raise_failure()


@pytest.mark.parametrize("strict", [False, True])
def test_only_a_strict_job_refuses_what_is_not_verified_there(fake: _Fake, strict: bool) -> None:
    fake.faults = [ProviderUnavailable("no device")]
    made, written = job(strict=strict)
    outcome = made.run()
    assert (outcome.refusal is not None, len(written)) == (strict, 1 - strict)
    with pytest.raises(XoptimError, match=": no device") as raised:
        outcome.raise_failure()
    assert not isinstance(raised.value, NotVerifiedError)


def test_the_lowering_that_changes_results_alone_is_dropped(
    fake: _Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not the first one, which keeps the results."""
    fake.ask = without("Ceil")
    known = {**installed_patterns(), "WrongRelu": WrongReluPattern}
    monkeypatch.setattr("xoptim.workflow.fitting.installed_patterns", lambda: known)
    wrong = parse(MODEL.replace("Relu", "Exp"))

    def search(model: onnx.ModelProto, ask: Any, *_: Any, drop: Sequence[str], **__: Any) -> Fitted:
        steps = (FittingStep("LowerCeil", "Ceil", 1), FittingStep("WrongRelu", "Relu", 1))
        return Fitted(model if drop else wrong, ask(model), ask(wrong), () if drop else steps)

    monkeypatch.setattr("xoptim.workflow.fitting.fit", search)
    _, found = fitted()
    assert found.dropped == ["WrongRelu"]


@pytest.mark.parametrize(
    ("tolerance", "verdicts", "bits", "tries"),
    [
        (0.5, [EQUAL], 8, 1),
        (0.5, [WRONG, EQUAL], 16, 2),
        (0.5, [WRONG, WRONG, EQUAL], 16, 3),
        (0.5, [WRONG], 16, 3),
        (0.05, [WRONG], 16, 1),  # half of this error is less than any choice has
    ],
)
def test_integers_err_less_where_they_are_not_right_on_the_target(
    fake: _Fake, tolerance: float, verdicts: list[TargetCheck], bits: int, tries: int
) -> None:
    fake.verdicts = list(verdicts)
    options = OptimizationOptions(target="qnn")
    precision = PrecisionOptions(scheme="int8", tolerance=tolerance)
    outcome = Job(
        Source(parse(PRODUCT, opset=21)), JobOptions(optimization=options, precision=precision)
    ).run()
    assert outcome.quantized is not None
    assert outcome.quantized.activation_bits == bits
    assert outcome.fitting is not None
    assert outcome.fitting.check == verdicts[-1]
    assert len(fake.verified) == tries
    assert (outcome.refusal is None) == (verdicts[-1] == EQUAL)
