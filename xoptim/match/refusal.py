"""The reasons for which matches are refused, as values made only for a listener."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from xoptim.graph.node import Node


READ_ELSEWHERE: Final = "an intermediate result is read elsewhere"
"""The reason of a refusal whose values are the results of a node that cannot be removed."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """One condition that failed.

    Attributes:
        pattern: name of the pattern.
        node: the node that does not fit, ``None`` when it is no single node.
        reason: why the condition failed; empty when the pattern gave no reason.
        file: source file of the condition.
        line: line of the condition.
        progress: how much of the match fitted; comparable only between refusals of one pattern.
        matched: nodes that fitted.
        total: number of nodes of the pattern, 0 when it is not declared.
        values: names of the results that the condition is about.
    """

    pattern: str
    node: Node | None
    reason: str
    file: str = ""
    line: int = 0
    progress: int = 0
    matched: tuple[Node, ...] = ()
    total: int = 0
    values: tuple[str, ...] = ()

    @property
    def exit_point(self) -> str:
        """``file:line`` of the condition."""
        return f"{self.file}:{self.line}" if self.file else ""

    def __str__(self) -> str:
        place = f" at {self.node.name or self.node!r}" if self.node is not None else ""
        reason = f": {self.reason}" if self.reason else ""
        return f"{self.pattern} refused{place}{reason} ({self.exit_point})"


class Misfit(NamedTuple):
    """The reason why nodes that fit one by one are not a match."""

    node: Node  # the node that does not fit
    reason: str
    values: tuple[str, ...] = ()  # names of the results that the condition is about
    line: int = 0  # of the condition; the line of the anchor in the pattern when 0
    is_general: bool = False  # whether a refusal sent by the condition itself replaces this one
    file: str = ""  # of the condition; the file of the pattern when empty


COMPLETE = 1_000_000
"""Progress of a match whose nodes all fit one by one."""

Listener = Callable[[Refusal], None]
_listener: ContextVar[Listener | None] = ContextVar("refusal_listener", default=None)


listener: Callable[[], Listener | None] = _listener.get
"""Returns the function that receives refusals, ``None`` when there is none."""


@contextmanager
def listening(to: Listener | None) -> Iterator[None]:
    """Send refusals to a callable while the block runs."""
    token = _listener.set(to)
    try:
        yield
    finally:
        _listener.reset(token)
