"""What a machine does besides a measurement."""

import pytest

from xoptim.bench.machine_watch import MachineWatch


@pytest.mark.parametrize(
    ("busy", "rates", "texts"),
    [
        (118.0, [3000.0, 3100.0], ["other processes keep 1.3 of 4 cores busy"]),
        (107.4, [2100.0, 3400.0], ["the clock rate is between 2100 and 3400 MHz"]),
        (107.4, [], []),
    ],
)
def test_what_the_machine_did(
    monkeypatch: pytest.MonkeyPatch, busy: float, rates: list[float], texts: list[str]
) -> None:
    """Within 10 s, in which this process took 5 s; the fastest core counts."""
    clock, all_seconds = iter([0.0, 10.0]), iter([100.0, busy])
    own = iter([(1.0, 0.0, 0.0, 0.0, 9.0), (2.0, 1.0, 2.0, 1.0, 99.0)])
    monkeypatch.setattr("xoptim.bench.machine_watch.time.perf_counter", lambda: next(clock))
    monkeypatch.setattr("xoptim.bench.machine_watch.busy_seconds", lambda: next(all_seconds))
    monkeypatch.setattr("xoptim.bench.machine_watch.os.times", lambda: next(own))
    monkeypatch.setattr("xoptim.bench.machine_watch.cores", lambda: 4)
    watch = MachineWatch()
    for rate in rates:
        monkeypatch.setattr(
            "xoptim.bench.machine_watch.clock_rates", lambda rate=rate: [800.0, rate]
        )
        watch.note_clock()
    assert [*watch.texts()] == texts


def test_a_system_that_reports_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xoptim.bench.machine_watch.busy_seconds", lambda: 0.0)
    monkeypatch.setattr("xoptim.bench.machine_watch.clock_rates", list)
    watch = MachineWatch()
    watch.note_clock()
    assert [*watch.texts()] == []
