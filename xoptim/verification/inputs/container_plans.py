"""Plans of runs with sequences of other lengths, and without optional inputs."""

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Final

from xoptim.verification.inputs.dims import InputSpec, Sizes, first_unnamed
from xoptim.verification.inputs.feed_style import Style
from xoptim.verification.inputs.feeding import Feeding, Planning, RunPlan

_LENGTHS: Final = (0, 1, 3, 6)
"""Lengths of all sequences in one run; in other runs, sequences have two items."""
_LENGTHS_ALONE: Final = (0, 3)
_LENGTHS_UNEVEN: Final = (2, 3, 6)
_MAX_INPUTS: Final = 4
"""Maximal number of inputs that are changed alone."""


def container_plans(feeding: Feeding) -> Iterator[Planning]:
    """The plans for a model with sequences or optional inputs; none for other models."""
    sequences = [spec for spec in feeding.random if spec.container == "sequence"]
    optional = [spec.name for spec in feeding.random if spec.is_optional]
    if sequences:
        yield from _lengths(feeding, sequences)
    yield from (_without(feeding, names) for names in _absent(optional))


def _lengths(feeding: Feeding, sequences: Collection[InputSpec]) -> Iterator[Planning]:
    """Plans with other lengths: of all sequences, of one, and of all with items of other sizes."""
    yield from (feeding.styled("items", Style(items=length)) for length in _LENGTHS)
    alone = [spec.name for spec in sequences][:_MAX_INPUTS] if len(sequences) > 1 else []
    yield from (_alone(feeding, name, length) for name in alone for length in _LENGTHS_ALONE)
    if any(map(first_unnamed, sequences)):  # axes with the same name must be equal
        uneven = (Style(items=length, uneven=True) for length in _LENGTHS_UNEVEN)
        yield from (feeding.styled("items", style) for style in uneven)


def _absent(names: list[str]) -> list[frozenset[str]]:
    """The inputs that have no value in a run: each alone, then all, then all but one."""
    alone = [frozenset((name,)) for name in names[:_MAX_INPUTS]]
    all_but_one = [frozenset(names) - single for single in alone]
    groups = [*alone, frozenset(names), *all_but_one]
    return [group for group in dict.fromkeys(groups) if group]


def _alone(feeding: Feeding, name: str, length: int) -> Planning:
    """Usual values, and another length of one sequence."""
    styled = feeding.styled("items", Style(items=length))

    def plan(sizes: Sizes, run: int, gentle: bool) -> RunPlan:
        usual, resized = feeding.plan(sizes, run, gentle), styled(sizes, run, gentle)
        return replace(resized, feeds={**usual.feeds, name: resized.feeds[name]})

    return plan


def _without(feeding: Feeding, names: frozenset[str]) -> Planning:
    """Usual values, and none for some inputs."""

    def plan(sizes: Sizes, run: int, gentle: bool) -> RunPlan:
        usual = feeding.plan(sizes, run, gentle)
        return replace(usual, source="absent", feeds={**usual.feeds, **dict.fromkeys(names)})

    return plan
