"""The time of a search."""

import math
from collections.abc import Mapping
from itertools import count

import numpy as np
import onnx
import pytest

import xoptim
from tests.precision.models import convolutions, images, network, words
from tests.share import is_whole
from xoptim.engine.options import OptimizationOptions
from xoptim.match.block_rounding import BlockFormat
from xoptim.optimizing.plans import Plan, Sink
from xoptim.optimizing.verified import optimize_verified
from xoptim.precision.budget import ErrorCache, SearchBudget
from xoptim.precision.options import PrecisionOptions, Scheme
from xoptim.precision.quantize import quantize
from xoptim.precision.quantized import Quantized
from xoptim.precision.reference import Errors, FloatReference
from xoptim.precision.samples import Samples
from xoptim.precision.slices import OutputSlice, OutputSlices
from xoptim.precision.static_int8 import static_int8
from xoptim.precision.weight_rounding import rounded_weights
from xoptim.verification.runs.session_settings import SessionSettings

FOUR = FloatReference(
    Samples([{"x": np.zeros(1)}] * 4, are_random=False),
    [],
    OutputSlices([OutputSlice(0, "y"), OutputSlice(1, "z")]),
    PrecisionOptions(),
    SessionSettings(),
)


def test_without_seconds_it_does_not_end() -> None:
    budget = SearchBudget(None, clock=lambda: 1e12)
    assert not budget.is_over()
    assert not budget.ended_search


def test_the_end_is_remembered() -> None:
    times = iter([0.0, 4.9, 5.0])
    budget = SearchBudget(5.0, clock=lambda: next(times))
    assert not budget.is_over()
    assert not budget.ended_search
    assert budget.is_over()
    assert budget.ended_search


def test_nothing_is_measured_twice() -> None:
    runs: list[tuple[int, dict[str, str]]] = []

    def measure(index: int, forms: Mapping[str, str]) -> Errors:
        runs.append((index, dict(forms)))
        return index / 10, 0.05

    cache = ErrorCache(measure, FOUR, SearchBudget(None))
    two, four = (FOUR.unseen((i / 10, 0.05) for i in range(count)) for count in (2, 4))
    assert cache.errors({"a": "P", "b": "Q"}, range(2)) == two
    assert cache.errors({"b": "Q", "a": "P"}, range(2)) == two
    assert cache.errors({"b": "Q", "a": "P"}, range(4)) == four
    assert [index for index, _ in runs] == [0, 1, 2, 3]
    assert cache.errors({"a": "Q"}, range(2)) == two
    assert len(runs) == 6


def test_no_choice_is_tried_after_the_budget() -> None:
    times = iter([0.0, 1.0, 9.0])
    budget = SearchBudget(5, lambda: next(times))
    cache = ErrorCache(lambda index, _: (index / 10, 0.0), FOUR, budget)
    two, four = (FOUR.unseen((i / 10, 0.0) for i in range(count)) for count in (2, 4))
    assert cache.errors({"a": "P"}, range(2)) == two
    assert cache.errors({"b": "P"}, range(2)) == (math.inf, math.inf)
    assert cache.errors({"a": "P"}, range(2)) == two
    assert cache.errors({"a": "P"}, range(4)) == four, "the held-out samples"


def quantized(
    model: onnx.ModelProto, feeds: list[dict[str, np.ndarray]], scheme: Scheme, **options: object
) -> Quantized:
    how, chosen = Plan(), OptimizationOptions()
    precision = PrecisionOptions(scheme=scheme, tolerance=0.3, feeds=feeds, **options)  # type: ignore[arg-type]
    return quantize(optimize_verified(model, chosen, how), chosen, how, precision)


@pytest.mark.parametrize("seconds", [1, 6, 15, 40] if is_whole("xoptim/precision") else [1, 40])
@pytest.mark.parametrize(
    ("scheme", "options"),
    [
        ("int8", {"goal": "size"}),
        ("int8", {"static": True}),
        ("int4", {"goal": "size"}),
        ("int8", {"compute": "float16"}),
        ("float16", {}),
    ],
)
def test_the_best_so_far_is_the_result(
    monkeypatch: pytest.MonkeyPatch, seconds: int, scheme: Scheme, options: dict[str, object]
) -> None:
    """Each look at the clock takes a second."""
    clock = count()
    monkeypatch.setattr(SearchBudget.__init__, "__defaults__", (lambda: next(clock),))
    feeds = [words(seed=seed) for seed in range(4)]
    found = quantized(network(), feeds, scheme, budget=seconds, **options)
    assert found.fault == ""
    assert found.error <= 0.3
    assert found.ended_by_budget == (f"budget of {seconds} s" in found.summary())
    if seconds == 1:
        assert found.ended_by_budget
        assert not found.applied
    if seconds == 40:
        assert found.applied


def test_convolutions(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = count()
    monkeypatch.setattr(SearchBudget.__init__, "__defaults__", (lambda: next(clock),))
    feeds = [images(seed=seed) for seed in range(4)]
    found = quantized(convolutions(), feeds, "int8", budget=14, static=True)
    assert found.fault == ""
    assert found.ended_by_budget
    assert found.error <= 0.3


def test_a_budget_is_a_number_of_seconds() -> None:
    with pytest.raises(ValueError, match=r"budget .* 0, not 0"):
        PrecisionOptions(budget=0)


def test_a_budget_from_python() -> None:
    precision = PrecisionOptions(goal="size", tolerance=0.3, budget=600, feeds=[words()])
    xoptim.optimize(network(layers=1), precision=precision)


def test_weights_after_the_budget_are_rounded_to_nearest() -> None:
    """Each look at the clock takes a second."""
    clock = count()
    steps: list[str] = []
    model, feeds = network(), [words()]
    given = model, None, BlockFormat(), ("MatMul",), feeds, SessionSettings()
    whole = rounded_weights(*given)
    part = rounded_weights(*given, steps.append, SearchBudget(4, lambda: next(clock)))
    assert len(whole.blocks) == 4
    assert len(part.blocks) == 2
    assert [step.partition(": ")[2] for step in steps[:2]] == ["0 of 4", "1 of 4"]


@pytest.mark.parametrize(("seconds", "count_of_forms"), [(1, 1), (2, 2)])
def test_forms_for_neural_processors(
    monkeypatch: pytest.MonkeyPatch, seconds: int, count_of_forms: int
) -> None:
    """No form is right: 8 bits, then 16 bits are tried, as far as the clock allows."""
    clock = count()
    monkeypatch.setattr(SearchBudget.__init__, "__defaults__", (lambda: next(clock),))
    steps = list[str]()
    how, chosen = Plan(sink=Sink(on_step=steps.append)), OptimizationOptions()
    feeds = [words(seed=seed) for seed in range(2)]
    precision = PrecisionOptions(tolerance=1e-9, feeds=feeds, budget=seconds)
    found = static_int8(optimize_verified(network(), chosen, how), chosen, how, precision)
    assert found.ended_by_budget
    assert "more than 0.00%" in found.reason
    assert len([step for step in steps if step.startswith("quantizing to")]) == count_of_forms


def test_the_choice_says_how_far_it_is() -> None:
    steps = list[str]()
    how, chosen = Plan(sink=Sink(on_step=steps.append)), OptimizationOptions()
    feeds = [words(seed=seed) for seed in range(2)]
    precision = PrecisionOptions(scheme="int8", tolerance=0.3, goal="size", feeds=feeds)
    quantize(optimize_verified(network(), chosen, how), chosen, how, precision)
    numbers = [step for step in steps if step.startswith("choosing operators: ")]
    assert numbers[0] == f"choosing operators: 0 of {numbers[0].split()[-1]}"
    assert len(numbers) > 1
