"""Bad patterns: wrong, nearly right, broken, and one that is interrupted."""

from typing import Any

import numpy as np

from xoptim import (
    EasyPatternOptimization,
    GraphBuilderPatternOptimization,
    MatchResult,
    Node,
    PatternOptimization,
)
from xoptim.match import PatternBuilder, PatternRewriter, Symbol


class WrongReluPattern(EasyPatternOptimization):
    """Relu(x) → Exp(x), which it is not"""

    tags = ("extra",)

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Any:
        return g.op.Relu(x)

    def apply_pattern(self, g: PatternRewriter, x: str) -> Any:
        return g.op.Exp(x)


class ShiftedReluPattern(EasyPatternOptimization):
    """Relu(x) → (x + |x|) / 2 + 1/1024, a little off"""

    tags = ("extra",)
    exactness = "rounding"

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Any:
        return g.op.Relu(x)

    def apply_pattern(self, g: PatternRewriter, x: str) -> Any:
        half = np.array(0.5, np.float32)
        shift = np.array(1 / 1024, np.float32)
        return g.op.Add(g.op.Mul(g.op.Add(x, g.op.Abs(x)), half), shift)


class _AtRelu(PatternOptimization):
    tags = ("extra",)
    anchors = ("Relu",)


class FailingPattern(_AtRelu):
    """Fails at every Relu"""

    def match(
        self, g: GraphBuilderPatternOptimization, node: Node, matched: list[MatchResult]
    ) -> MatchResult | None:
        raise ZeroDivisionError("there is nothing here")


class ImpatientPattern(_AtRelu):
    """Ctrl-C at every Relu"""

    def match(
        self, g: GraphBuilderPatternOptimization, node: Node, matched: list[MatchResult]
    ) -> MatchResult | None:
        raise KeyboardInterrupt
