"""Times that are given, in place of those of a clock."""

from typing import Any

import pytest

from tests.tuning.fakes import FakeMeter, Seconds, Timed
from xoptim.tuning.measurement import Measurement


@pytest.fixture
def timed(monkeypatch: pytest.MonkeyPatch) -> Timed:
    """Replaces the clock by given times; returns the meters that are made from then on."""

    def with_times(seconds: Seconds, **how: Any) -> list[FakeMeter]:
        made: list[FakeMeter] = []

        def meter(*_: object) -> FakeMeter:
            made.append(FakeMeter(seconds, **how))
            return made[-1]

        monkeypatch.setattr(Measurement, "meter", meter)
        return made

    return with_times
