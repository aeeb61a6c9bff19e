"""Results that are kept as far as they are not slower, with given times."""

import json
from typing import Any

import pytest

from tests.support import parse, values_in
from tests.tuning.fakes import MODEL, Timed, by_groups
from xoptim import OptimizationOptions, OptimizationReport, optimize
from xoptim.bench import BenchOptions
from xoptim.graph.sources import Source
from xoptim.optimizing.plans import Plan
from xoptim.optimizing.verified import VerifiedModel, optimize_verified
from xoptim.tuning import SpeedCheck, keep_if_not_slower
from xoptim.verification import LoadError

pytestmark = pytest.mark.slow


def kept(text: str = MODEL, **changes: Any) -> tuple[VerifiedModel, SpeedCheck]:
    source, options, how = Source(parse(text)), OptimizationOptions(**changes), Plan()
    bench = BenchOptions(threads=1, dims={"n": 3} if "[n" in text else {})
    return keep_if_not_slower(source, optimize_verified(source, options, how), options, how, bench)


def types_in(verified: VerifiedModel) -> list[str]:
    return [node.op_type for node in verified.proto.graph.node]


@pytest.mark.parametrize("cost", [0.8, 1.0, 1.004])
def test_a_result_that_is_not_slower_is_kept(timed: Timed, cost: float) -> None:
    meters = timed(by_groups(shapes=cost))
    verified, check = kept()
    assert check.dropped == ()
    assert check.is_faster is (cost < 1)
    assert not check.is_original
    assert types_in(verified) == ["Sigmoid", "Mul", "Relu"]
    assert len(meters) == 1, "nothing else was measured"


def test_a_family_that_makes_it_slower_is_dropped_and_named(timed: Timed) -> None:
    timed(by_groups(shapes=0.9, movement=1.5))
    verified, check = kept()
    assert check.dropped == ("movement",)
    assert check.before.value == pytest.approx(1.35)
    assert check.after is not None
    assert check.after.value == pytest.approx(0.9)
    assert types_in(verified) == ["Transpose", "Transpose", "Sigmoid", "Mul", "Relu"]
    assert verified.reports[0].ok
    ratios = ["1.350", "1.349", "1.351", "0.900", "0.899", "0.901"]
    assert values_in(check.summary()) == ratios
    assert " movement: 0.900 " in check.summary()


class _Dropped:
    """A rewrite that was dropped since it made the model compute something else."""

    def avoided_by(self, options: OptimizationOptions) -> OptimizationOptions:
        """The options that avoid it."""
        return options


def test_what_was_dropped_before_is_still_reported(timed: Timed) -> None:
    """The result of the second optimization names the rewrites that the first one dropped."""
    timed(by_groups(shapes=0.9, movement=1.5))
    source, options, how = Source(parse(MODEL)), OptimizationOptions(), Plan()
    first = optimize_verified(source, options, how)
    first.dropped.append(_Dropped())  # type: ignore[arg-type]
    verified, _ = keep_if_not_slower(source, first, options, how, BenchOptions(threads=1))
    assert verified is not first
    assert verified.dropped == first.dropped
    assert len(verified.dropped) == 1


def test_as_few_families_are_dropped_as_it_takes(timed: Timed) -> None:
    """One is left out only where the model is slower than the original without the other one
    too.
    """
    second = "activations (onnxruntime)"
    for cost, dropped in ((1.02, (second, "movement")), (0.98, ("movement",))):
        timed(by_groups(movement=1.3, **{second: cost}))
        assert kept(patterns="default+onnxruntime")[1].dropped == dropped


def test_patterns_for_one_runtime_are_a_group_of_their_own(timed: Timed) -> None:
    timed(by_groups(**{"activations (onnxruntime)": 2.0}))
    verified, check = kept(patterns="default+onnxruntime")
    assert check.dropped == ("activations (onnxruntime)",)
    assert types_in(verified) == ["Sigmoid", "Mul", "Relu"]


def test_when_two_families_are_slower_only_together_no_pattern_is_applied(timed: Timed) -> None:
    timed(lambda choice: 1.3 if choice.recipe.rewrites and len(choice.recipe.without) < 2 else 1.0)
    verified, check = kept()
    assert {"movement", "shapes"} <= set(check.dropped)
    assert not check.is_original
    assert verified.report.applied == {}


def test_when_every_result_is_slower_the_original_is_kept(timed: Timed) -> None:
    timed(lambda choice: 1.2 if choice.recipe.rewrites else 1.0)
    verified, check = kept()
    assert check.is_original
    assert check.after is None
    assert types_in(verified) == [node.op_type for node in parse(MODEL).graph.node]
    assert verified.reports[0].ok
    assert "original is kept" in check.summary()


def test_noise_changes_nothing(timed: Timed) -> None:
    timed(by_groups(movement=1.5), noise=20.0)
    assert kept()[1].dropped == ()


def test_the_check_is_json(timed: Timed) -> None:
    timed(by_groups(movement=1.5))
    found = json.loads(json.dumps(kept()[1].to_json()))
    assert found["dropped"] == ["movement"]
    assert found["ratio"] == pytest.approx(1.0)
    assert found["with_all"]["ratio"] == pytest.approx(1.5)
    assert (found["is_faster"], found["is_original"]) == (False, False)


@pytest.mark.parametrize("verify", [False, True])
def test_the_public_function(timed: Timed, verify: bool) -> None:
    timed(by_groups(movement=1.5))
    reports: list[OptimizationReport] = []
    bench = BenchOptions(threads=1, dims={"n": 3})
    model = optimize(parse(MODEL), verify=verify, only_if_faster=bench, report=reports.append)
    assert [node.op_type for node in model.graph.node] == [
        "Transpose",
        "Transpose",
        "Sigmoid",
        "Mul",
        "Relu",
    ]
    assert len(reports) == 1
    assert len(reports[0].verification) == verify
    assert "TransposeTranspose" not in reports[0].applied
    meters = timed(lambda choice: 1.0)
    assert len(optimize(parse(MODEL), only_if_faster=True).graph.node) == 3
    assert len(meters) == 1


def test_a_model_that_cannot_be_loaded_cannot_be_measured() -> None:
    with pytest.raises(LoadError):
        kept("g (float[2] x) => (float[2] y) { a = NoSuch(x) b = Neg(a) y = Neg(b) }")
