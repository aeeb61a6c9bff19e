"""Random networks with fewer bits (`tests.precision.drawing` draws more)."""

import pytest

from tests.precision.drawing import fault
from xoptim.precision.options import SCHEMES, Scheme


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("seed", range(12))
def test_integers_compute_what_rounded_floats_compute(seed: int, scheme: Scheme) -> None:
    assert fault(seed, scheme) == ""
