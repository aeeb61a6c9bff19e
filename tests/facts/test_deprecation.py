"""Names that go still work, and warn the caller."""

import inspect

import pytest

from xoptim.facts.deprecation import deprecated


def double(number: int, *, times: int = 1) -> int:
    """A number, doubled."""
    return number << times


def test_a_function_under_its_old_name() -> None:
    twice = deprecated(double, "xoptim.twice", "xoptim.double")
    with pytest.warns(
        DeprecationWarning, match=r"^xoptim\.twice goes with version 2: use xoptim\.double$"
    ) as caught:
        assert twice(3, times=2) == 12
    assert [warning.filename for warning in caught] == [__file__]
    assert (twice.__name__, twice.__doc__) == ("twice", "A number, doubled.")
    assert inspect.signature(twice) == inspect.signature(double)
    assert double.__name__ == "double"
