"""Random networks with fewer bits (`tests.precision.drawing` draws more)."""

import pytest

from tests.precision.drawing import KINDS, fault


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(12))
def test_integers_compute_what_rounded_floats_compute(seed: int, kind: str) -> None:
    assert fault(seed, kind) == ""
