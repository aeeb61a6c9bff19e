"""Progress of a stage, by the number of its items that are done."""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

_T = TypeVar("_T")


def counted(
    items: Sequence[_T], stage: str, on_step: Callable[[str], object] = lambda _: None
) -> Iterator[_T]:
    """The items; ``on_step`` is called before each, with the number of items that are done."""
    for index, item in enumerate(items):
        on_step(f"{stage}: {index} of {len(items)}")
        yield item
