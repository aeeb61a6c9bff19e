"""Rewriters that look at a whole model at once instead of matching around a node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from xoptim.graph.node import Node
from xoptim.match.pattern import PHASES, PatternOptimization
from xoptim.match.result import MatchResult

if TYPE_CHECKING:
    from xoptim.match.view import GraphBuilderPatternOptimization

PHASE_POSITIONS: dict[str, float] = {"canonicalize": 1.0, "specialize": 2.0, "target": 50.0}
"""Where the phases stand in the sequence; merging equal nodes comes before, between and after them."""
assert tuple(PHASE_POSITIONS) == PHASES


class GlobalRewriter(PatternOptimization):
    """A rewrite that needs to know all of a model. It is selected, listed, timed and dropped like a pattern.

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
