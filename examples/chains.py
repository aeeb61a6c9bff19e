"""Rules for chains of operators: one that fuses, one that shatters, and their matches in a model.

python examples/chains.py
"""

from collections.abc import Sequence
from typing import Any

from xoptim import Match, PatternRewriter, optimize
from xoptim.dialects import ChainPattern, ChainRegistry
from xoptim.doc import pretty_onnx
from xoptim.engine.engine import match_patterns
from xoptim.testing import parse


class ExpLogPattern(ChainPattern):
    """Exp and Log in a row."""

    exactness = "finite"  # the logarithm of a negative number is NaN

    @classmethod
    def entries(cls) -> Sequence[str]:
        """From the last one backwards."""
        return ["Exp", "Log"]


class LogSoftmaxPattern(ChainPattern):
    """LogSoftmax along the last axis."""

    exactness = "rounding"

    @classmethod
    def entries(cls) -> Sequence[str]:
        """A chain of one operator."""
        return ["LogSoftmax"]

    @classmethod
    def config_patterns(cls) -> Sequence[dict[str, Any]]:
        """A node without the attribute has this axis."""
        return [{"axis": -1}]


fuse, shatter = ChainRegistry("fuse"), ChainRegistry("shatter")


@fuse.register(ExpLogPattern)
def undo(g: PatternRewriter, match: Match) -> str:
    """Exp(Log(x)) → x."""
    result: str = match.inputs[0]
    return result


@shatter.register(LogSoftmaxPattern)
def in_two(g: PatternRewriter, match: Match) -> str:
    """LogSoftmax(x) → Log(Softmax(x))."""
    result: str = g.op.Log(g.op.Softmax(match.inputs[0], axis=-1))
    return result


model = parse("agraph (float[n,4] x) => (float[n,4] y) { s = LogSoftmax(x) e = Exp(s) y = Neg(e) }")
patterns = [*shatter.patterns(), *fuse.patterns()]
matches, roots = match_patterns(model, patterns)
for root, match in roots.items():
    print(f"{match.pattern.name()} at {root.op_type}")
print(pretty_onnx(optimize(model, patterns=patterns)))
