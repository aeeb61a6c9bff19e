"""Errors in samples name the sample."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xoptim
from tests.precision.models import network, words
from xoptim.facts.errors import XoptimError
from xoptim.precision.options import PrecisionOptions
from xoptim.precision.samples import SampleError, samples_for
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
    with pytest.raises(SampleError, match="the optimized model fails on it") as raised:
        samples_for(network(), None, precision, VerificationOptions())
    assert raised.value.feeds is OUT_OF_RANGE
    assert str(raised.value.of("original")).startswith("sample 1: the original model fails on it: ")
