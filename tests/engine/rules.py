# mypy: disable-error-code="no-any-return"
"""Small patterns whose effect is easy to see, and a way to run them."""

from collections.abc import Mapping, Sequence
from typing import Any

import onnx

from tests.support import parse
from xoptim import GraphBuilder, OptimizationReport
from xoptim.api.optimizing import optimize
from xoptim.engine.environment import DebugSettings
from xoptim.engine.events import Event
from xoptim.engine.options import OptimizationOptions
from xoptim.match import (
    EasyPatternOptimization,
    GraphBuilderPatternOptimization,
    MatchResult,
    Node,
    PatternBuilder,
    PatternOptimization,
    PatternRewriter,
    Symbol,
)


class NegNegPattern(EasyPatternOptimization):
    """Neg(Neg(x)) → x"""

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        return g.op.Neg(g.op.Neg(x))

    def apply_pattern(self, g: PatternRewriter, x: str) -> str:
        return x


class AbsNegPattern(EasyPatternOptimization):
    """Abs(Neg(x)) → Abs(x)"""

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        return g.op.Abs(g.op.Neg(x))

    def apply_pattern(self, g: PatternRewriter, x: str) -> str:
        return g.op.Abs(x)


class AbsNegNegPattern(EasyPatternOptimization):
    """Abs(Neg(Neg(x))) → Floor(x): larger than the others, and it shows."""

    priority = 5

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        return g.op.Abs(g.op.Neg(g.op.Neg(x)))

    def apply_pattern(self, g: PatternRewriter, x: str) -> str:
        return g.op.Floor(x)


def renaming(old: str, new: str, **fields: Any) -> type[PatternOptimization]:
    """A pattern that replaces one operator by another, and records where and when."""

    class Renaming(PatternOptimization):
        anchors = (old,)
        seen: list[str] = []

        def match(
            self, g: GraphBuilderPatternOptimization, node: Node, matched: list[MatchResult]
        ) -> MatchResult | None:
            self.seen.append(node.output[0])
            return MatchResult(self, [node], self.apply)

        def apply(self, g: PatternRewriter, *nodes: Node) -> list[Node]:
            return [g.make_node(new, nodes[0].input, nodes[0].output)]

    return type(f"{old}To{new}Pattern", (Renaming,), {"seen": [], **fields})


def tuned(
    text: str | onnx.ModelProto, patterns: Any, opset: int = 18, **options: Any
) -> onnx.ModelProto:
    """The model after these patterns, without folding and merging unless asked for."""
    model = parse(text, opset) if isinstance(text, str) else text
    chosen = {
        "constant_folding": False,
        "merge": False,
        "strict": True,
        "tag_nodes": False,
        **options,
    }
    return optimize(model, patterns=patterns, **chosen)


def reported(text: str, patterns: Any, **options: Any) -> OptimizationReport:
    """The report of an optimization."""
    found: list[OptimizationReport] = []
    tuned(text, patterns, report=found.append, **options)
    return found[0]


def events(text: str | onnx.ModelProto, patterns: Any, **options: Any) -> list[Event]:
    """All events."""
    heard: list[Event] = []
    tuned(text, patterns, on_event=heard.append, **options)
    return heard


def builder(
    text: str, patterns: Any, debug: DebugSettings | None = None, **options: Any
) -> GraphBuilder:
    """A builder that is ready to optimize."""
    chosen: Mapping[str, Any] = {
        "constant_folding": False,
        "merge": False,
        "tag_nodes": False,
        **options,
    }
    chosen = chosen if debug is None else {**chosen, "debug": debug}
    return GraphBuilder(
        parse(text), optimization_options=OptimizationOptions(patterns=patterns, **chosen)
    )


def chain(*operators: str, extra: str = "", sizes: Sequence[str] = ("N", "3")) -> str:
    """A model in which each operator reads the result of the one before."""
    nodes = [f"t{i + 1} = {op}(t{i})" for i, op in enumerate(operators)]
    shape = ",".join(sizes)
    last = len(operators)
    return f"agraph (float[{shape}] t0) => (float[{shape}] t{last}) {{ {' '.join(nodes)} {extra} }}"
