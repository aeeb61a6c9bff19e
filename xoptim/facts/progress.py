"""Steps of long work: texts that say how many items of a stage are done."""

from collections.abc import Callable, Iterator, Sequence
from typing import Self, TypeVar

T = TypeVar("T")


class StageProgress(str):
    """The description of a stage with the number of its items that are done.

    Attributes:
        stage: the description alone.
        done: number of items that are done.
        total: number of items.
    """

    stage: str
    done: int
    total: int

    def __new__(cls, stage: str, done: int, total: int, detail: str = "") -> Self:
        """``detail`` describes the next item."""
        text = super().__new__(cls, f"{stage}: {done} of {total}{detail and f', {detail}'}")
        text.stage, text.done, text.total = stage, done, total
        return text


def silent(_: object) -> None:
    """Ignore a message: the default for a function that takes messages about progress."""


def with_progress(
    items: Sequence[T], stage: str, on_step: Callable[[str], object] = silent
) -> Iterator[T]:
    """The items; ``on_step`` is called before each with the number of those that are done."""
    for index, item in enumerate(items):
        on_step(StageProgress(stage, index, len(items)))
        yield item
