"""Random networks that are rounded as a whole (`tests.precision.hunting` draws more)."""

import pytest

from tests.precision.hunting import outcome
from xoptim.precision import attempts, times


@pytest.mark.parametrize("seed", [16, 21, 22, 25, 27, 31, 36])
def test_what_comes_out_is_proved_and_within_the_tolerance(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (attempts, times):
        monkeypatch.setattr(module, "_SECONDS", 0.0)
    assert outcome(seed) == "rounded"
