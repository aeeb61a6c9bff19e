"""The frame of a caller, by its distance."""

from types import FrameType

from xoptim.match.lines import calling_frame


def asked(levels: int) -> FrameType:
    return calling_frame(levels)


def between(levels: int) -> FrameType:
    return asked(levels)


def test_the_caller_and_its_caller() -> None:
    assert between(1).f_code.co_name == "between"
    assert between(2).f_code.co_name == "test_the_caller_and_its_caller"
