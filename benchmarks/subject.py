"""A model on which a fusion is measured."""

from typing import NamedTuple


class Subject(NamedTuple):
    """A model on which one pattern applies.

    Attributes:
        text: the graph.
        opset: the operator set.
        rows: the sizes that are measured.
    """

    text: str
    opset: int = 18
    rows: tuple[int, ...] = (1, 16, 128, 1024)
