"""Ranges of results within a model."""

import numpy as np

from tests.precision.models import convolutions, images
from xoptim.precision.calibration import Ranges, calibrated
from xoptim.verification.runs.session_settings import SessionSettings


def test_ranges() -> None:
    def numbers(*values: float) -> np.ndarray:
        return np.array(values, np.float32)

    ranges = Ranges("minmax")
    ranges.add({"a": numbers(1, 2), "b": numbers(0, np.inf), "c": numbers(), "d": np.array([1])})
    ranges.add({"a": numbers(-3), "b": numbers(1), "c": numbers(1)})
    assert ranges.by_name() == {"a": (-3.0, 2.0)}


def test_ranges_without_rare_large_numbers() -> None:
    ranges = Ranges("percentile")
    numbers = np.random.default_rng(0).standard_normal(100_000).astype(np.float32)
    ranges.add({"a": np.append(numbers, np.float32(40))})
    ranges.add({"a": numbers})
    ((low, high),) = ranges.by_name().values()
    assert -6 < low < -2
    assert 2 < high < 6


def test_moved_elements_keep_their_range() -> None:
    observed = calibrated(
        convolutions(), None, ("Conv", "Relu"), [images()], "minmax", SessionSettings()
    )
    found, channels = observed.ranges, observed.channels
    assert {*channels} == {"x", "r0", "p", "f"}
    assert found["p"] == found["r1"]
    assert found["r0"][0] == 0 < found["r0"][1]
    assert found["x"][0] < 0 < found["x"][1]
