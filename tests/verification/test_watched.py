import sys

import numpy as np
import pytest

from tests.support import parse
from xoptim.system.crashes import WATCH, Watch, Work
from xoptim.verification import RunError, Session, VerificationOptions, verify_models
from xoptim.verification.runs.session_settings import SessionSettings
from xoptim.verification.runs.watched import digest_of, mark_of

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="a parent reads it on Linux only")
BEFORE = parse("agraph (float[n] x) => (float[n] y) { m = Neg(x) y = Neg(m) }")
AFTER = parse("agraph (float[n] x) => (float[n] y) { y = Identity(x) }")


@pytest.fixture(autouse=True)
def _is_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    """The notes are read by another process."""
    watch = Watch()
    watch.share()
    monkeypatch.setattr(WATCH, "_memory", watch._memory)
    monkeypatch.setattr(WATCH, "crashes", [])


def test_sizes_that_ended_the_process_are_left_out() -> None:
    usual = verify_models(BEFORE, AFTER)
    assert {run.dims["n"] for run in usual.runs} >= {1, 2}
    WATCH.crashes.append(Work("", "k", {"n": 2}, True, "SIGFPE"))
    report = verify_models(BEFORE, AFTER)
    assert report.ok
    assert min(run.dims["n"] for run in report.runs) > 2
    assert {"n": 1} in [dict(each.dims) for each in report.skipped]
    assert any("(SIGFPE)" in note for note in report.notes)


def test_a_run_of_the_other_model_that_ended_the_process_is_a_difference() -> None:
    values = {"x": np.ones(3, np.float32)}
    settings = VerificationOptions(feeds=values).settings
    key = f"run {mark_of(AFTER, settings)} {digest_of(values)}"
    WATCH.crashes.append(Work("", key, {"n": 3}, False, "SIGSEGV"))
    report = verify_models(BEFORE, AFTER, VerificationOptions(feeds=values))
    assert report.status == "different"
    assert "(SIGSEGV)" in report.reason
    assert verify_models(AFTER, BEFORE, VerificationOptions(feeds=values)).cause == "run"


def test_models_and_values_differ_in_their_keys() -> None:
    settings = SessionSettings()
    assert mark_of(BEFORE, settings) != mark_of(AFTER, settings)
    assert mark_of(AFTER, settings) == mark_of(AFTER, SessionSettings())
    one, two = (digest_of({"x": np.full(size, 1.0)}) for size in (1, 2))
    assert one != two
    assert digest_of({"x": np.array(["a"], object)}) != digest_of({"x": np.array(["b"], object)})


def test_a_run_notes_what_it_does(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Work] = []
    plain = Session._results

    def results(self: Session, feeds, limit):  # type: ignore[no-untyped-def]
        seen.append(WATCH.last())
        return plain(self, feeds, limit)

    monkeypatch.setattr(Session, "_results", results)
    assert verify_models(BEFORE, AFTER, VerificationOptions(dims={"n": 5})).ok
    assert {"n": 5} in [crash.sizes for crash in seen if crash.is_trial]
    assert all(crash.key for crash in seen)
    assert WATCH.last().key == ""
    WATCH.crashes.append(Work("", seen[0].key, {}, False, "SIGABRT"))
    with pytest.raises(RunError, match="SIGABRT"):
        Session(BEFORE, VerificationOptions().settings).run(_values(seen[0]))


def _values(crash: Work) -> dict[str, np.ndarray]:
    """The values of the first run, which its key identifies."""
    from xoptim.verification import run_reference

    run = run_reference(BEFORE, VerificationOptions(dims={"n": 5}, assignments=1)).runs[0]
    return {name: np.asarray(value) for name, value in run.feeds.items()}
