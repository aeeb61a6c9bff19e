"""Strategies: the choice among overlapping matches, in a round and in a search without
rewriting.
"""

from collections.abc import Sequence
from itertools import permutations
from typing import Any

import pytest

from tests.dialects.chains import becomes, chained
from tests.engine.rules import AbsNegPattern, NegNegPattern, chain, events, renaming, tuned
from tests.support import load, node_of, parse, types
from xoptim import MatchResult, UnknownPatternError, XoptimError
from xoptim.dialects import ChainPattern, ChainRegistry
from xoptim.engine.engine import match_patterns
from xoptim.graph.node import Node
from xoptim.match.pattern import STRATEGIES, disjoint, first_found, largest_first, strategy_named


def fused(*patterns: type[ChainPattern]) -> list[type[ChainPattern]]:
    """Chains with rules that put an operator in their place: Sin for the first, Cos for the second,
    and so on.
    """
    registry = ChainRegistry("fuse")
    for pattern, name in zip(patterns, ("Sin", "Cos", "Tan", "Sinh"), strict=False):
        registry.register(pattern, becomes(name))
    return registry.patterns()


def found(
    text: str, patterns: Any, strategy: str = "largest", **more: Any
) -> list[tuple[str, list[str]]]:
    """Name and results of each match."""
    matches, _ = match_patterns(parse(text), patterns, strategy, **more)
    return [(m.pattern.name(), [n.output[0] for n in m.nodes if n is not None]) for m in matches]


# -------------------------------------------------------------------- the strategies themselves


def result(*nodes: Node | None) -> MatchResult:
    return MatchResult(NegNegPattern(), nodes, lambda g, *nodes: [])


def test_orders() -> None:
    a, b, c, d = (Node("Neg", [], []) for _ in range(4))
    short, long, other = result(a), result(a, None, b, c), result(None, d)
    assert first_found([short, long, other]) == [short, long, other]
    assert largest_first([short, long, other]) == [long, short, other]
    assert largest_first([other, short, long]) == [long, other, short]
    assert disjoint([short, long, other], "priority") == [short, other]
    assert disjoint([short, long, other], "largest") == [long, other]
    assert disjoint(iter([other, long, short])) == [long, other]


def test_names() -> None:
    assert [strategy_named(name) for name in STRATEGIES] == [first_found, largest_first]
    with pytest.raises(ValueError, match=r"'biggest'; .*: priority, largest"):
        strategy_named("biggest")
    with pytest.raises(ValueError, match="strategy 'biggest'"):
        tuned(chain("Neg", "Neg"), NegNegPattern, strategy="biggest")
    with pytest.raises(ValueError, match="strategy ''"):
        match_patterns(parse(chain("Neg")), None, "")


# -------------------------------------------------------------------- in a round

OVERLAPPING = [
    (
        chained("Neg", "Exp"),
        chained("Floor", "Abs", "Neg"),
        "Exp Neg Abs Floor",
        ["Exp", "Cos"],
        ["Sin", "Abs", "Floor"],
    ),
    (chained("Neg", "Exp"), chained("Abs", "Neg", "Exp"), "Exp Neg Abs", ["Cos"], ["Sin", "Abs"]),
    (chained("Neg", "Exp"), chained("Abs", "Neg"), "Exp Neg Abs", ["Sin", "Abs"], ["Sin", "Abs"]),
    (chained("Neg"), chained("Neg", "Neg"), "Neg Neg Neg", ["Cos", "Sin"], ["Sin"] * 3),
]
"""Two chains, a graph, what the larger one leaves, and what the first one leaves.

In the order of their names.
"""


@pytest.mark.parametrize(("first", "second", "operators", "largest", "priority"), OVERLAPPING)
def test_largest_and_priority(
    first: type[ChainPattern],
    second: type[ChainPattern],
    operators: str,
    largest: Sequence[str],
    priority: Sequence[str],
) -> None:
    fuse = ChainRegistry("fuse")
    fuse.register(type("APattern", (first,), {}), becomes("Sin"))
    fuse.register(type("BPattern", (second,), {}), becomes("Cos"))
    text = chain(*operators.split())
    for strategy, expected in (("largest", largest), ("priority", priority)):
        assert types(tuned(text, fuse.patterns(), strategy=strategy)) == list(expected)
        assert types(tuned(text, fuse.patterns()[::-1], strategy=strategy)) == list(expected), (
            "names decide, not the list"
        )


def test_a_node_in_several_matches_is_in_exactly_one() -> None:
    text = chain("Exp", "Neg", "Abs", "Exp", "Neg", "Abs", "Floor", "Exp")
    patterns = fused(
        chained("Neg", "Exp"),
        chained("Abs", "Neg"),
        chained("Floor", "Abs", "Neg"),
        chained("Abs", "Neg", "Exp"),
    )
    for strategy in STRATEGIES:
        model = load(text)
        matches, roots = match_patterns(model, patterns, strategy)
        nodes = [node for match in matches for node in match.nodes]
        assert len(nodes) == len(set(nodes))
        assert list(roots.values()) == matches
        for root, match in roots.items():
            assert root is match.nodes[-1], "the last call of a chain"
        heard = [
            e for e in events(text, patterns, strategy=strategy) if e.kind in ("applied", "round")
        ]
        first = heard[: next(i for i, e in enumerate(heard) if e.kind == "round")]
        assert [e.pattern for e in first] == [m.pattern.name() for m in matches], (
            "the first round takes the same ones"
        )


def test_of_equal_matches_the_earlier_pattern_wins_then_the_earlier_node() -> None:
    text = chain("Neg", "Neg", "Neg", "Abs")
    expected = [("AbsNeg", ["t3", "t4"]), ("NegNeg", ["t1", "t2"])]
    for patterns in permutations([NegNegPattern, AbsNegPattern]):
        assert found(text, patterns) == expected
    late = type("AbsNegPattern", (AbsNegPattern,), {"priority": 1})
    assert found(text, [late, NegNegPattern]) == [
        ("NegNeg", ["t1", "t2"]),
        ("AbsNeg", ["t3", "t4"]),
    ]
    last = type("NegNegPattern", (NegNegPattern,), {"phase": "specialize"})
    assert found(text, [late, last]) == expected
    assert found(chain(*["Neg"] * 5), NegNegPattern) == [
        ("NegNeg", ["t1", "t2"]),
        ("NegNeg", ["t3", "t4"]),
    ]


# -------------------------------------------------------------------- asking


def test_nothing_is_rewritten() -> None:
    model = load(chain("Neg", "Neg", "Abs"))
    before = types(model)
    matches, roots = match_patterns(model, [NegNegPattern, AbsNegPattern], "priority")
    assert [m.pattern.name() for m in matches] == ["AbsNeg"]
    assert roots == {node_of(model, "Abs"): matches[0]}
    assert matches[0].anchor in matches[0].nodes
    assert types(model) == before


def test_no_match() -> None:
    assert match_patterns(parse(chain("Exp")), NegNegPattern) == ([], {})
    assert match_patterns(parse(chain("Exp")), None) == ([], {})


def test_all_graphs_of_a_model_or_one() -> None:
    text = """agraph (bool c, float[2] x) => (float[2] y) {
      a = Neg(x) b = Neg(a)
      y = If (c) <then_branch = t () => (float[2] p) { e = Neg(b) p = Neg(e) },
                  else_branch = u () => (float[2] p) { p = Exp(x) }>
    }"""
    assert found(text, NegNegPattern) == [("NegNeg", ["a", "b"]), ("NegNeg", ["e", "p"])]
    model = load(text)
    assert len(match_patterns(model.graph, NegNegPattern)[0]) == 1
    assert len(match_patterns(model, NegNegPattern)[0]) == 2


def test_selections_providers_and_operator_sets() -> None:
    text = chain("Neg", "Neg")
    assert ("NegNeg", ["t1", "t2"]) in found(text, "default")
    assert found(text, "default-NegNeg") == []
    with pytest.raises(UnknownPatternError):
        found(text, "NegNegNeg")
    cuda = renaming("Neg", "Exp", providers=("cuda",))
    assert [len(found(text, cuda, provider=provider)) for provider in ("", "cuda", "cpu")] == [
        2,
        2,
        0,
    ]
    assert [
        len(found(text, renaming("Neg", "Exp", **limits)))
        for limits in ({"min_opset": 19}, {"max_opset": 17})
    ] == [0, 0]


def test_errors_of_patterns_are_not_hidden() -> None:
    pattern = chained("Gemm", subs=[{"weight": chained("Exp")}])
    with pytest.raises(TypeError, match=r"Gemm .*'weight'"):
        found("agraph (float[2,2] x) => (float[2,2] y) { y = Gemm(x, x) }", pattern)
    with pytest.raises(XoptimError, match="'Gemm': TypeError"):
        tuned("agraph (float[2,2] x) => (float[2,2] y) { y = Gemm(x, x) }", pattern)
