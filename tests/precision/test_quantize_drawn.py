"""Random networks in lower precision (`tests.precision.drawing` and `tests.precision.hunting` draw
more).
"""

import pytest

from tests.precision.drawing import KINDS, fault
from tests.precision.hunting import outcome
from xoptim.precision import attempts, times


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(12))
def test_integers_compute_what_rounded_floats_compute(seed: int, kind: str) -> None:
    assert fault(seed, kind) == ""


@pytest.mark.parametrize("seed", [8, 11, 18, 21, 26, 29, 50, 59, 66])
def test_a_network_that_is_rounded_as_a_whole(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (attempts, times):
        monkeypatch.setattr(module, "_SECONDS", 0.0)
    assert outcome(seed) == "quantized"
