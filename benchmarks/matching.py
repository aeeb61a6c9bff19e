"""Time of pattern matching: per attempt, for each way to write a pattern; and as the number of
patterns with one anchor grows.

    # microseconds by form; growth from 10 to 1000 patterns anchored at Add
    python benchmarks/matching.py
    # smaller and less exact, in a second or two
    python benchmarks/matching.py --quick

All forms look for the same subgraph, Neg(Relu(Add(x, k))). Attempts are named by their outcome:

- `miss`: the Neg reads another operator than Relu;
- `late miss`: Neg and Relu match, the last node is not an Add;
- `match`: all nodes match;
- `first`: the first match, in which the pattern is traced and compiled.

No attempt changes the graph.

The growth is measured with patterns that all start at Add and never rewrite anything. In the family
`wide` they differ in the operator that feeds the Add, in the family `deep` only in the operator
that feeds a Mul before the Add. The graph is the same for any number of patterns, and at most one
of them matches each Add.
"""

import argparse
import gc
import time
import timeit
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import onnx

from xoptim.dialects.chain import ChainPattern
from xoptim.dialects.shortcuts import OpSub, PatternSub
from xoptim.dialects.text import parse_rules
from xoptim.engine.engine import Engine
from xoptim.engine.index import PatternIndex
from xoptim.engine.options import OptimizationOptions
from xoptim.engine.state import State
from xoptim.graph.load import load_model
from xoptim.graph.node import Node
from xoptim.match import (
    EasyPatternOptimization,
    GraphView,
    Match,
    MatchResult,
    PatternOptimization,
    PatternRewriter,
)
from xoptim.match.trace import PatternBuilder, Symbol

FAMILIES = ("wide", "deep")
COUNTS = (10, 100, 1000)
PRODUCERS = 10
"""Number of different operators that feed the Adds of the graph, for any number of patterns."""


# ------------------------------------------------------------------ one subgraph in all forms


class ByHandPattern(PatternOptimization):
    """The subgraph, walked by hand."""

    anchors = ("Neg",)
    near = ("Relu",)

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        """Go from consumer to producer, and check that nothing else reads intermediate results."""
        relu = g.node_before(node.input[0])
        if (
            relu is None
            or relu.op_type != "Relu"
            or relu.domain
            or g.is_used_more_than_once(node.input[0])
        ):
            return self.none(node, msg="no Relu")
        add = g.node_before(relu.input[0])
        if (
            add is None
            or add.op_type != "Add"
            or add.domain
            or g.is_used_more_than_once(relu.input[0])
        ):
            return self.none(relu, msg="no Add")
        return MatchResult(self, [node, relu, add], self.apply)


class EasyPattern(EasyPatternOptimization):
    """The subgraph in the easy form."""

    def match_pattern(self, g: PatternBuilder, x: Symbol, k: Symbol) -> Any:
        """Neg(Relu(x + k))."""
        return g.op.Neg(g.op.Relu(g.op.Add(x, k)))

    def apply_pattern(self, g: PatternRewriter, x: str, k: str) -> Any:
        """Min(-(x + k), 0), which is equal."""
        return g.op.Min(g.op.Neg(g.op.Add(x, k)), 0.0)


class InChainPattern(ChainPattern):
    """The subgraph as a chain."""

    @classmethod
    def entries(cls) -> Sequence[str]:
        """From the root backwards."""
        return ("Neg", "Relu", "Add")

    def apply_pattern(self, g: PatternRewriter, inputs: tuple[str, ...]) -> Any:
        """Min(-(x + k), 0), which is equal."""
        return g.op.Min(g.op.Neg(g.op.Add(*inputs)), 0.0)


_BODY = "(x, k) => (y) { a = Add (x, k)  r = Relu (a)  y = Neg (r) }"
_OTHER = (
    "(x, k) => (y) { a = Add (x, k)  n = Neg (a)  zero = Constant <value_float = 0.0> ()  "
    "y = Min (n, zero) }"
)
FORMS: dict[str, Callable[[], PatternOptimization]] = {
    "by hand": ByHandPattern,
    "easy": EasyPattern,
    "chain": InChainPattern,
    "text": lambda: parse_rules(
        f'<domain: "rule"> match {_BODY} <domain: "rule"> replace {_OTHER}'
    )[0](),
    "PatternSub": PatternSub(
        ("Neg", ("Relu", ("Add", "x", "k"))), ("Min", ("Neg", ("Add", "x", "k")), 0.0)
    ),
    "OpSub": OpSub("Neg", "Abs"),  # for single operators: only the last node of the subgraph
}


def subgraphs() -> dict[str, tuple[GraphView, Node]]:
    """A graph for each kind of attempt, and the node at which the attempt starts."""
    bodies = {
        "miss": "a = Add(x, k) r = Sigmoid(a) y = Neg(r)",
        "late miss": "a = Sub(x, k) r = Relu(a) y = Neg(r)",
        "match": "a = Add(x, k) r = Relu(a) y = Neg(r)",
    }
    graphs = {}
    for kind, body in bodies.items():
        text = (
            '<ir_version: 10, opset_import: ["" : 18]> agraph (float[N,8] x) => (float[N,8] y)'
            f" <float[8] k> {{ {body} }}"
        )
        graph = load_model(
            onnx.parser.parse_model(
                text.replace("<float[8] k>", "<float[8] k = {1,2,3,4,5,6,7,8}>")
            )
        ).graph
        graphs[kind] = (
            GraphView(graph),
            next(node for node in graph.nodes if node.op_type == "Neg"),
        )
    return graphs


def best_seconds(run: Callable[[], object], repeats: int, turns: int = 5) -> float:
    """Seconds of a call: the mean of ``repeats`` calls, in the fastest of ``turns`` repetitions."""
    gc.collect()
    return min(timeit.repeat(run, number=repeats, repeat=turns)) / repeats


def attempts(repeats: int) -> dict[str, dict[str, float]]:
    """Microseconds by form of the pattern and kind of attempt."""
    by_form: dict[str, dict[str, float]] = {}
    graphs = subgraphs()
    for form, make in FORMS.items():
        pattern, (view, node) = make(), graphs["match"]
        start = time.perf_counter()
        pattern.match(view, node, [])
        times = {"first": time.perf_counter() - start}
        for kind, (view, node) in graphs.items():
            matches = pattern.match(view, node, []) is not None
            if matches is (kind == "match"):
                attempt = partial(pattern.match, view, node, [])
                times[kind] = best_seconds(attempt, repeats)
        by_form[form] = {kind: 1e6 * seconds for kind, seconds in times.items()}
    return by_form


# ------------------------------------------------------------------ many patterns at one operator


def pattern_of(family: str, number: int) -> EasyPatternOptimization:
    """A pattern that starts at Add, and refuses every match."""

    def describe(self: Any, g: PatternBuilder, x: Symbol, k: Symbol, y: Symbol) -> Any:
        inner = getattr(g.op, f"Op{number}")(x, domain="acme")
        return g.op.Add(g.op.Mul(inner, k) if family == "deep" else inner, y)

    def wide(self: Any, g: PatternBuilder, x: Symbol, y: Symbol) -> Any:
        return describe(self, g, x, y, y)

    def refuse(self: Any, g: GraphView, m: Match) -> bool:
        return False

    members = {
        "anchors": ("Add",),
        "match_pattern": describe if family == "deep" else wide,
        "validate_mapping": refuse,
    }
    pattern: EasyPatternOptimization = type(
        f"{family.title()}{number}Pattern", (EasyPatternOptimization,), members
    )()
    return pattern


def graph_of(family: str, size: int) -> onnx.ModelProto:
    """A chain of about ``size`` nodes: Adds, their producers, and some other nodes."""
    link = "o{0} = acme.Op{1}(r{2}) m{0} = Mul(o{0}, k) a{0} = Add(m{0}, r0) r{0} = Relu(a{0})"
    if family == "wide":
        link = "o{0} = acme.Op{1}(r{2}) a{0} = Add(o{0}, r0) r{0} = Relu(a{0})"
    count = -(-size // link.count("="))
    nodes = " ".join(
        link.format(number, (number - 1) % PRODUCERS, number - 1) for number in range(1, count + 1)
    )
    text = f"growth (float[N,8] r0, float[N,8] k) => (float[N,8] r{count}) {{ {nodes} }}"
    model: onnx.ModelProto = onnx.parser.parse_model(
        f'<ir_version: 10, opset_import: ["" : 18, "acme" : 1]> {text}'
    )
    return model


def growth(size: int, counts: Sequence[int], turns: int) -> list[dict[str, Any]]:
    """Microseconds per node to select candidates and to match them, and attempts per Add.

    A row for each family and number of patterns.
    """
    rows = []
    for family in FAMILIES:
        model = graph_of(family, size)
        all_patterns = [pattern_of(family, number) for number in range(max(counts))]
        for count in counts:
            patterns: list[PatternOptimization] = list(all_patterns[:count])
            start = time.perf_counter()
            index = PatternIndex(patterns)
            indexed = time.perf_counter() - start
            graph = load_model(model).graph
            nodes = index.anchors_in(graph)
            attempt_count = sum(map(len, index.candidates(graph, nodes).values()))
            selecting = best_seconds(partial(index.candidates, graph, nodes), 1, turns)
            _run(model, patterns)  # traces and compiles
            matching = best_seconds(partial(_run, model, patterns), 1, turns)
            matching -= best_seconds(partial(_run, model, []), 1, turns)
            rows.append(
                {
                    "family": family,
                    "patterns": count,
                    "nodes": len(graph.nodes),
                    "attempts per Add": attempt_count / len(nodes),
                    "index ms": 1e3 * indexed,
                    "candidates us/node": 1e6 * selecting / len(graph.nodes),
                    "engine us/node": 1e6 * max(matching, 0) / len(graph.nodes),
                }
            )
    return rows


def _run(model: onnx.ModelProto, patterns: list[PatternOptimization]) -> None:
    """Load a model, and match all patterns at all nodes."""
    options = OptimizationOptions(patterns=None)
    loaded = load_model(model)
    Engine(loaded, State(loaded, options)).run(patterns)


def show(attempts: dict[str, dict[str, float]], rows: Sequence[dict[str, Any]]) -> None:
    """Print both measurements as tables."""
    print(
        "microseconds an attempt\n"
        + f"{'form':<12}{'first':>10}{'miss':>10}{'late miss':>10}{'match':>10}"
    )
    for form, times in attempts.items():
        print(
            f"{form:<12}"
            + "".join(
                f"{times[k]:>10.1f}" if k in times else f"{'-':>10}"
                for k in ("first", *subgraphs())
            )
        )
    columns = [key for key in rows[0] if key not in ("family", "patterns", "nodes")]
    heads = "".join(f"{column:>24}" for column in columns)
    print(
        f"\npatterns anchored at Add, {rows[0]['nodes']} nodes\n{'family':<8}{'patterns':>9}{heads}"
    )
    for row in rows:
        print(
            f"{row['family']:<8}{row['patterns']:>9}"
            + "".join(f"{row[column]:>24.2f}" for column in columns)
        )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--nodes", type=int, default=3_000, help="size of the graph (default %(default)s)"
    )
    parser.add_argument(
        "--patterns",
        default=",".join(map(str, COUNTS)),
        help="numbers of patterns (default %(default)s)",
    )
    parser.add_argument("--quick", action="store_true", help="smaller and less exact")
    options = parser.parse_args()
    counts = sorted(int(count) for count in options.patterns.split(","))
    rows = growth(400 if options.quick else options.nodes, counts, 1 if options.quick else 3)
    show(attempts(50 if options.quick else 5000), rows)


if __name__ == "__main__":
    main()
