"""The steps of a job, their order, and what stops them."""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import TensorProto

import xoptim
from tests.optimizing.test_verified import WrongReluPattern
from tests.support import parse, types
from xoptim import (
    NotVerifiedError,
    OptimizationOptions,
    PrecisionOptions,
    Preparation,
    VerificationOptions,
)
from xoptim.bench import BenchOptions
from xoptim.facts.errors import XoptimError
from xoptim.graph.sources import Source
from xoptim.optimizing.plans import Plan, Sink, VerifyPlan
from xoptim.optimizing.verified import VerifiedModel
from xoptim.precision.options import Scheme
from xoptim.precision.reference import SliceError
from xoptim.targets import Target, named
from xoptim.targets.verifying import TargetCheck
from xoptim.verification.errors import ChoiceError, LoadError, ToleranceError
from xoptim.verification.judging.report import DifferentModelError
from xoptim.workflow.fitting import FittingOutcome
from xoptim.workflow.fitting_options import FittingOptions
from xoptim.workflow.job import Job, JobOptions
from xoptim.workflow.page import Page
from xoptim.workflow.requests import for_target

TRANSPOSES = (
    "agraph (float[n,2] x) => (float[n,2] y) { a = Transpose(x) b = Transpose(a) y = Relu(b) }"
)
WEIGHTS = ", ".join(f"{number % 7 - 3}" for number in range(64 * 64))
MATMUL = (
    f"agraph (float[n,64] x) => (float[n,64] y) <float[64,64] w = {{{WEIGHTS}}}> {{ "
    "t = MatMul(x, w) y = Relu(t) }"
)
UNKNOWN = "agraph (float[n,2] x) => (float[n,2] y) { a = acme.Foo(x) b = Identity(a) y = Relu(b) }"


class Kept:
    """A step that keeps the result, and notes what it was given."""

    def __init__(self, error: XoptimError | None = None) -> None:
        self.calls: list[str] = []
        self._error = error

    def __call__(
        self, source: Source, verified: VerifiedModel, options: OptimizationOptions, plan: Plan
    ) -> tuple[VerifiedModel, Any]:
        self.calls.append(source.kind)
        if self._error is not None:
            raise self._error
        return verified, None


def test_the_times_of_all_steps_in_their_order(tmp_path: Path) -> None:
    steps: list[str] = []
    written: list[VerifiedModel] = []

    def write(verified: VerifiedModel) -> Sequence[Path]:
        written.append(verified)
        return [tmp_path / "result.onnx"]

    how = Plan(sink=Sink(on_step=steps.append))
    outcome = Job(
        Source(parse(TRANSPOSES)),
        JobOptions(
            preparation=Preparation(fix={"n": [3]}),
            plan=how,
            keep_if_faster=Kept(),
            benchmark=BenchOptions(seconds=0.01),
            hints=VerificationOptions(),
            page=Page(tmp_path / "page.html"),
            write=write,
        ),
    ).run()
    names = [
        "preparing",
        "loading",
        "optimizing",
        "verifying",
        "comparing times",
        "measuring",
        "looking for hints",
    ]
    assert list(outcome.times) == [*names, "reporting", "writing"]
    assert all(seconds >= 0 for seconds in outcome.times.values())
    assert [step.partition(" ")[0] for step in steps[-4:]] == [
        "measuring",
        "looking",
        "drawing",
        "writing",
    ]
    assert (outcome.refusal, outcome.failure, written) == (None, None, [outcome.verified])
    assert types(outcome.verified.proto) == ["Relu"]
    assert outcome.verified.proto.graph.input[0].type.tensor_type.shape.dim[0].dim_value == 3
    assert outcome.latency is not None
    assert outcome.written == [tmp_path / "result.onnx"]


def test_the_given_model_stays_as_it_is() -> None:
    model = parse(TRANSPOSES)
    before = model.SerializeToString()
    Job(Source(model), JobOptions(preparation=Preparation(fix={"n": [3]}, strip=True))).run()
    assert model.SerializeToString() == before


def test_a_refusal_stops_the_job(tmp_path: Path) -> None:
    options = OptimizationOptions(patterns=[WrongReluPattern], strict=True)
    kept = Kept()
    written: list[VerifiedModel] = []

    def write(verified: VerifiedModel) -> Sequence[Path]:
        written.append(verified)
        return []

    job = JobOptions(
        optimization=options,
        plan=Plan(verify=VerifyPlan(bisect=False)),
        keep_if_faster=kept,
        page=Page(tmp_path / "page.html"),
        write=write,
    )
    outcome = Job(Source(parse(TRANSPOSES)), job).run()
    assert outcome.refusal is not None
    assert outcome.refusal.cause == "different"
    assert (kept.calls, written, list(tmp_path.iterdir())) == ([], [], [])
    assert list(outcome.times) == ["loading", "optimizing", "verifying"]
    with pytest.raises(DifferentModelError) as raised:
        outcome.raise_failure()
    assert raised.value.report is outcome.refusal.report


@pytest.mark.parametrize("strict", [False, True])
def test_without_a_verdict_only_a_strict_job_stops(strict: bool) -> None:
    kept = Kept()
    options = OptimizationOptions(strict=strict)
    outcome = Job(
        Source(parse(UNKNOWN)), JobOptions(optimization=options, keep_if_faster=kept)
    ).run()
    assert kept.calls == ([] if strict else ["proto"])
    assert (outcome.refusal is not None) is strict
    with pytest.raises(NotVerifiedError):
        outcome.raise_failure()


def test_the_api_and_the_job_quantize_alike() -> None:
    precision = PrecisionOptions(scheme="int8", tolerance=0.5, goal="size")
    outcome = Job(Source(parse(MATMUL)), JobOptions(precision=precision)).run()
    assert outcome.quantized is not None
    assert outcome.quantized.applied
    assert "quantizing" in outcome.times
    found = xoptim.optimize(parse(MATMUL), precision=precision, verify=True)
    assert found.SerializeToString() == outcome.verified.proto.SerializeToString()


def test_integers_of_more_bits_where_the_target_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Results of 8 bits are wrong there, and the optimized model is quantized again."""
    tried: list[set[int]] = []

    class Fitting:
        """A target on which results of 8 bits are wrong."""

        def __init__(self, target: Target, options: FittingOptions, how: Plan) -> None:
            assert (options.tolerance, len(options.feeds)) == (0.5, 4)
            self._target = target

        def run(
            self, source: Source, verified: VerifiedModel
        ) -> tuple[VerifiedModel, FittingOutcome]:
            kinds = {tensor.data_type for tensor in verified.proto.graph.initializer}
            tried.append(kinds & {TensorProto.UINT8, TensorProto.UINT16})
            wrong, right = TargetCheck("qnn", "different"), TargetCheck("qnn", "equal")
            return verified, FittingOutcome(
                self._target, check=wrong if TensorProto.UINT8 in kinds else right
            )

    monkeypatch.setattr("xoptim.workflow.fitting.Fit", Fitting)
    precision = PrecisionOptions(scheme="int8", tolerance=0.5)
    optimization = OptimizationOptions(target="qnn")
    model = parse(MATMUL.replace("[n,64]", "[2,64]"))
    outcome = Job(Source(model), JobOptions(precision=precision, optimization=optimization)).run()
    assert tried == [{TensorProto.UINT8}, {TensorProto.UINT16}]
    assert outcome.refusal is None
    assert outcome.quantized is not None
    assert re.search("2 .* 16-bit activations", outcome.quantized.summary())


@pytest.mark.parametrize(
    ("target", "scheme", "expected"),
    [
        ("webgpu", "int8", "Cast"),
        ("webgpu", "int4", "MatMulNBits"),
        ("openvino", "int8", "Cast"),
        ("tensorrt", "int8", "Cast"),
        ("cpu", "int8", "DynamicQuantizeLinear"),
    ],
)
@pytest.mark.usefixtures("faster")
def test_activations_stay_in_floats_where_integers_are_slower(
    target: str, scheme: Scheme, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[FittingOptions] = []

    class Fitting:
        """Takes what it is given."""

        def __init__(self, target: Target, options: FittingOptions, how: Plan) -> None:
            given.append(options)
            self._target = target

        def run(
            self, source: Source, verified: VerifiedModel
        ) -> tuple[VerifiedModel, FittingOutcome]:
            return verified, FittingOutcome(
                self._target, check=TargetCheck(self._target.name, "equal")
            )

    monkeypatch.setattr("xoptim.workflow.fitting.Fit", Fitting)
    precision = PrecisionOptions(scheme=scheme, tolerance=0.5)
    job = Job(
        Source(parse(MATMUL)),
        JobOptions(precision=precision, optimization=OptimizationOptions(target=target)),
    )
    found = {node.op_type for node in job.run().verified.proto.graph.node}
    assert expected in found
    assert ("DynamicQuantizeLinear" in found) == (target == "cpu")
    for options in given:
        assert options.tolerance == 0.5 + named(target).tolerance
        assert options.feeds


def test_a_model_keeps_its_operator_set_where_the_target_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = parse("agraph (float[2] x) => (float[2] y) { y = Relu(x) }", 12)
    options = xoptim.OptimizationOptions()
    for name in ("openvino", "webgpu"):
        target = named(name)
        assert target.plugin is not None
        with monkeypatch.context() as patch:
            patch.setattr(type(target.plugin), "is_installed", True)
            assert for_target(options, target, model).opset in ("newest", 13)
            patch.setattr(type(target.plugin), "is_installed", False)
            assert for_target(options, target, model).opset is None
            wanted = replace(options, opset=20)
            assert for_target(wanted, target, model).opset == 20


def test_a_model_without_a_verdict_is_quantized_all_the_same() -> None:
    """One of its outputs is never a number."""
    head, _, body = MATMUL.partition(" => (float[n,64] y) ")
    body = body.replace("> {", ", float o = {1}> {")
    body = body.replace(
        "y = Relu(t)", "y = Relu(t) a = Abs(x) b = Neg(a) c = Sub(b, o) z = Sqrt(c)"
    )
    text = f"{head} => (float[n,64] y, float[n,64] z) {body}"
    precision = PrecisionOptions(scheme="int8", tolerance=0.5, goal="size")
    outcome = Job(Source(parse(text)), JobOptions(precision=precision)).run()
    assert outcome.quantized is not None
    assert outcome.quantized.applied
    assert outcome.refusal is None
    with pytest.raises(NotVerifiedError) as raised:
        xoptim.optimize(parse(text), precision=precision, verify=True)
    assert raised.value.model.SerializeToString() == outcome.verified.proto.SerializeToString()


def test_a_tolerance_that_is_not_kept() -> None:
    precision = PrecisionOptions(scheme="int8", tolerance=0.5, goal="size")
    outcome = Job(Source(parse(MATMUL)), JobOptions(precision=precision)).run()
    assert outcome.quantized is not None
    worse = replace(outcome.quantized, worst=SliceError("y", 0.75, 0.5))
    outcome = replace(outcome, quantized=worse)
    assert outcome.refusal is not None
    assert outcome.refusal.cause == "tolerance"
    with pytest.raises(ToleranceError, match=r" y .* 75\.00%"):
        outcome.raise_failure()


def test_times_that_cannot_be_measured() -> None:
    error = LoadError("no session")
    outcome = Job(Source(parse(TRANSPOSES)), JobOptions(keep_if_faster=Kept(error))).run()
    assert (outcome.speed, outcome.refusal, types(outcome.verified.proto)) == (None, None, ["Relu"])
    with pytest.raises(LoadError, match="no session"):
        outcome.raise_failure()


def test_sizes_with_which_the_model_does_not_run(tmp_path: Path) -> None:
    text = "agraph (float[n] x) => (float[2,m] y) <int64[2] s = {2, -1}> { y = Reshape(x, s) }"
    path = tmp_path / "model.onnx"
    onnx.save(parse(text), path)
    job = JobOptions(
        preparation=Preparation(fix={"n": [3]}), plan=Plan(verify=VerifyPlan(bisect=False))
    )
    with pytest.raises(ChoiceError, match=r"not run with .* fix"):
        Job(path, job).run()


def test_values_that_the_model_does_not_take() -> None:
    checks = VerificationOptions(dims={"n": 3})
    text = "agraph (float[n] x) => (float[2,m] y) <int64[2] s = {2, -1}> { y = Reshape(x, s) }"
    with pytest.raises(ChoiceError, match="given values"):
        Job(Source(parse(text)), JobOptions(plan=Plan(verify=VerifyPlan(checks=checks)))).run()


def test_assumptions_that_do_not_fit(caplog: pytest.LogCaptureFixture) -> None:
    options = OptimizationOptions(assume=("n >= 1", "missing >= 1"))
    job = JobOptions(optimization=options, leaves_unfit_assumptions=True)
    outcome = Job(Source(parse(TRANSPOSES)), job).run()
    assert outcome.assumptions == ("n >= 1",)
    assert "'missing" in caplog.text
    with pytest.raises(XoptimError):
        Job(Source(parse(TRANSPOSES)), JobOptions(optimization=options)).run()


def test_options_that_exclude_each_other() -> None:
    with pytest.raises(ValueError, match="only_if_faster"):
        JobOptions(precision=PrecisionOptions(), keep_if_faster=Kept())
    with pytest.raises(TypeError, match=r"precision .*PrecisionOptions"):
        JobOptions(precision="int8")  # type: ignore[arg-type]
