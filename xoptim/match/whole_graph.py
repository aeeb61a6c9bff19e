"""Rewriters that look at a whole model at once instead of matching around a node."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar

from xoptim.graph.model import Model
from xoptim.graph.node import Node
from xoptim.match.making import camel_case, pattern_class
from xoptim.match.pattern import PHASES, PatternOptimization
from xoptim.match.result import MatchResult

if TYPE_CHECKING:
    from xoptim.match.view import GraphBuilderPatternOptimization

PHASE_POSITIONS: dict[str, float] = {"canonicalize": 1.0, "specialize": 2.0, "target": 50.0}
"""Where the phases stand in the sequence; merging equal nodes comes before, between and after them."""
assert tuple(PHASE_POSITIONS) == PHASES


class GlobalRewriter(PatternOptimization):
    """A rewrite that works on a whole model. It is selected, listed, timed and dropped like a pattern.

    Class attributes:
        position: when it runs: before the first phase whose number in `PHASE_POSITIONS` is not smaller.
    """

    position: ClassVar[float] = 0.0

    def rewrite(self, builder: Any) -> int:
        """Change a model.

        Args:
            builder: the `xoptim.GraphBuilder` that holds it.

        Returns:
            Number of rewrites made.
        """
        raise NotImplementedError(f"{type(self).__name__} has no rewrite")

    def match(self, g: GraphBuilderPatternOptimization, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        """Nothing is matched around a node."""
        return self.none(node, msg="a global rewriter works on the whole model")


class Changes:
    """Listens to a model and counts what happens to it.

    Attributes:
        count: number of changes.
        first: the node that the first of them is about.
        inserted_nodes: nodes that came, in order; some of them may be gone again.
        removed_nodes: nodes that went.
    """

    def __init__(self) -> None:
        self.count = 0
        self.first: Node | None = None
        self.inserted_nodes: dict[Node, None] = {}
        self.removed_nodes: list[Node] = []

    def inserted(self, node: Node) -> None:
        """A node was added."""
        self._count(node)
        self.inserted_nodes[node] = None

    def removed(self, node: Node) -> None:
        """A node was taken out."""
        self._count(node)
        if node not in self.inserted_nodes:
            self.removed_nodes.append(node)

    def touched(self, node: Node) -> None:
        """The inputs of a node, or the readers of its results, changed."""
        self._count(node)

    def _count(self, node: Node) -> None:
        self.count += 1
        if self.first is None:
            self.first = node

    @property
    def added_nodes(self) -> list[Node]:
        """Nodes that came and are still there."""
        return [node for node in self.inserted_nodes if node.graph is not None]


@contextmanager
def watching(model: Model) -> Iterator[Changes]:
    """Learn what changes in a model while the block runs."""
    changes = Changes()
    model.listeners.append(changes)
    try:
        yield changes
    finally:
        model.listeners.remove(changes)


class FunctionRewriter(GlobalRewriter):
    """A rewriter made of a function by `global_rewriter`."""

    function: ClassVar[Callable[[Any], int | None]]

    def rewrite(self, builder: Any) -> int:
        """Call the function; when it does not count, one rewrite stands for all that it changed."""
        with watching(builder.model) as changes:
            found = type(self).function(builder)
        if found is not None and not isinstance(found, int):
            raise TypeError(f"a global rewriter returns the number of rewrites, or None, not {found!r}")
        return int(changes.count > 0) if found is None or isinstance(found, bool) else found


def global_rewriter(
    position: float = 0.0, *, name: str = "", **metadata: Any
) -> Callable[[Callable[..., int | None]], type[GlobalRewriter]]:
    """Turn a function that changes an `xoptim.GraphBuilder` into a rewriter of whole models.

    The function is called with the builder and returns how many rewrites it made. ``None``, ``True`` and ``False`` leave it
    to the optimizer to see whether anything changed.

    Args:
        position: when it runs: before the first phase whose number in `PHASE_POSITIONS` is not smaller.
        name: of the class; made of that of the function when empty.
        **metadata: class attributes of `PatternOptimization`, and ``examples``. The exactness is ``rounding`` unless given.

    Raises:
        TypeError: when a class attribute is unknown, or there is no call: ``@global_rewriter()``.
    """
    if not isinstance(position, (int, float)):
        raise TypeError("write @global_rewriter(), or @global_rewriter(0.5) for a position")

    def decorate(function: Callable[..., int | None]) -> type[GlobalRewriter]:
        members = {"position": float(position), "function": staticmethod(function)}
        title = name or camel_case(function.__name__)
        return pattern_class(FunctionRewriter, title, function.__module__, function.__doc__ or "", metadata, members)

    return decorate
