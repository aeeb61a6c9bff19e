"""Metadata of rewrites: sections of docstrings that a class takes from the class that it
extends.
"""

from xoptim.match.rewrite import Rewrite


class _Family(Rewrite):
    """Rewrites that share two sections.

    Why: one node less.
    Refuses when:
    1. a shape is unknown.
    """


class Silent(_Family):
    """A(x) → B(x)"""


class Outspoken(_Family):
    """A(x) → B(x)

    What: names the operator.
    Refuses when:
    1. the type is unknown.
    2. a shape is unknown.
    """


class Helper(_Family):
    """Shared code."""


def test_sections_that_are_omitted_come_from_the_base() -> None:
    assert (
        Silent.__doc__
        == "A(x) → B(x)\n\nWhy: one node less.\nRefuses when:\n1. a shape is unknown."
    )


def test_sections_stand_in_one_order_and_own_ones_count() -> None:
    assert Outspoken.__doc__ is not None
    lines = Outspoken.__doc__.splitlines()
    assert lines[2:4] == ["What: names the operator.", "Why: one node less."]
    assert lines[4:] == ["Refuses when:", "1. the type is unknown.", "2. a shape is unknown."]


def test_docstrings_without_an_arrow_stay() -> None:
    assert Helper.__doc__ == "Shared code."
