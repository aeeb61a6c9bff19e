"""Errors in samples name the sample."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xoptim
from tests.precision.models import network, words
from tests.precision.test_budgets import random_network, samples
from xoptim.engine.options import OptimizationOptions
from xoptim.facts.errors import XoptimError
from xoptim.optimizing.plans import Plan
from xoptim.optimizing.verified import optimize_verified
from xoptim.precision.options import SCHEMES, PrecisionOptions, Scheme
from xoptim.precision.quantize import quantize
from xoptim.precision.quantized import Quantized
from xoptim.precision.samples import SampleError, samples_for, samples_to_search
from xoptim.verification.errors import ChoiceError, RunError
from xoptim.verification.options import VerificationOptions

OUT_OF_RANGE = {"words": np.array([3, 300])}
WRONG_SHAPE = {"words": np.array([[3]])}
UNKNOWN = {"word": np.array([3])}


def optimize(feeds: Any) -> None:
    xoptim.optimize(network(), precision=PrecisionOptions(tolerance=0.5, feeds=feeds))


@pytest.mark.parametrize(
    ("sample", "kind", "reason"),
    [
        (OUT_OF_RANGE, RunError, "the original model fails on it: .*idx=300"),
        (WRONG_SHAPE, ChoiceError, "the values of input 'words' have shape"),
    ],
)
def test_lists_have_an_index(
    sample: dict[str, np.ndarray], kind: type[XoptimError], reason: str
) -> None:
    with pytest.raises(kind, match=f"^sample 2: {reason}"):
        optimize([words(), words(seed=1), sample])


@pytest.mark.parametrize(
    ("sample", "reason"),
    [
        (OUT_OF_RANGE, ": the original model fails on it: .*idx=300"),
        (WRONG_SHAPE, ": the values of input 'words' have shape"),
        (UNKNOWN, " lacks words and has unknown inputs word"),
    ],
)
def test_files_have_a_path(tmp_path: Path, sample: dict[str, np.ndarray], reason: str) -> None:
    for index, each in enumerate([words(), sample]):
        np.savez(tmp_path / f"{index}.npz", **each)  # type: ignore[arg-type]
    with pytest.raises(XoptimError, match=f"^sample '.*1.npz'{reason}"):
        optimize(tmp_path)


def test_a_model_that_fails_alone_is_named() -> None:
    precision = PrecisionOptions(feeds=[words(), OUT_OF_RANGE])
    with pytest.raises(SampleError, match="optimized model") as raised:
        samples_for(network(), None, precision, VerificationOptions())
    assert raised.value.feeds is OUT_OF_RANGE
    assert str(raised.value.of("original")).startswith("sample 1: the original ")


def quantized_on(*samples: dict[str, np.ndarray], scheme: Scheme = "int8") -> Quantized:
    how, chosen = Plan(), OptimizationOptions()
    precision = PrecisionOptions(scheme=scheme, tolerance=0.01, goal="size", feeds=samples)
    return quantize(optimize_verified(random_network(3), chosen, how), chosen, how, precision)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_samples_of_zeros_show_no_error(scheme: Scheme) -> None:
    zeros = {"x": np.zeros((16, 32), np.float32)}
    found = quantized_on(zeros, zeros, scheme=scheme)
    assert not found.applied
    assert " 0 in the samples" in found.reason


def test_nothing_is_chosen_on_zeros() -> None:
    numbers = samples(3)
    zeros = {"x": np.zeros_like(numbers[0]["x"])}
    model, checks = random_network(3), VerificationOptions()
    precision = PrecisionOptions(feeds=[zeros, numbers[0], zeros, numbers[1]])
    found = samples_to_search(model, None, precision, checks)
    assert [bool(feeds["x"].any()) for feeds in found.feeds] == [True, True, False, False]  # type: ignore[union-attr]
    applied = quantized_on(*numbers).applied
    assert applied
    assert quantized_on(zeros, *numbers).applied == applied


def test_words_with_the_index_0_are_words() -> None:
    precision = PrecisionOptions(feeds=[{"words": np.zeros(4, np.int64)}])
    found = samples_to_search(network(), None, precision, VerificationOptions())
    assert found.count == 1
