import sys

import pytest

from xoptim.system.crashes import WATCH, Watch, Work


def test_sizes_that_need_not_be_tried_again() -> None:
    crash = Work("verifying", "k", {"batch": 2, "seq": 4}, is_trial=True, signal="SIGFPE")
    assert crash.covers({"batch": 2, "seq": 4})
    assert crash.covers({"batch": 1, "seq": 0, "other": 9})
    assert not crash.covers({"batch": 3, "seq": 1})
    assert not crash.covers({"batch": 1})
    assert not crash._replace(is_trial=False).covers({"batch": 1, "seq": 1})
    assert not crash._replace(sizes={}).covers({})


@pytest.mark.skipif(sys.platform != "linux", reason="memory is shared on Linux only")
def test_what_is_read_is_what_was_done_last() -> None:
    watch = Watch()
    assert not watch.is_active
    assert watch.last() == Work()
    watch.share()
    watch.note("verifying")
    with watch.at({"n": 3}, is_trial=True), watch.doing("k"):
        assert watch.last() == Work("verifying", "k", {"n": 3}, True)
    assert watch.last() == Work("verifying")
    watch.note("x" * 10_000)
    with watch.doing("k" * 100_000):
        assert watch.last().key == ""
        assert watch.last().step == "x" * 200


def test_nothing_is_noted_without_a_reader() -> None:
    assert not WATCH.is_active
    with WATCH.doing("k"):
        assert WATCH.last() == Work()
