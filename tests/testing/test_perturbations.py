"""The harness finds defects by itself, in models that it derives from the examples of a pattern."""

import re
from dataclasses import replace

import numpy as np
import pytest

from tests.support import run
from tests.testing import defects
from xoptim import PatternOptimization
from xoptim.facts.shapes import Info
from xoptim.graph.graph import Graph
from xoptim.testing import check_example, check_near_misses, make_all_feeds, parse
from xoptim.testing.numbers import wrong_facts

FOUND: list[tuple[type[PatternOptimization], set[str]]] = [
    (defects.LooksAgainPattern, {"repeated"}),
    (defects.RaisesRankPattern, {"detour"}),
    (defects.ZeroCopiesPattern, {"target"}),
    (defects.SaturatesPattern, {"values"}),
    (defects.LeavesMemoryPattern, {"size"}),
    (defects.ForgetsBetaPattern, {"size"}),
    (defects.BelievesDefaultsPattern, {"override"}),
    (defects.CancelsPattern, {"cancel", "sum"}),
    (defects.OverflowsPattern, {"product"}),
    (defects.VanishesPattern, {"product"}),
    (defects.NearlyOnePattern, {"step"}),
    (defects.SwapsZerosPattern, {"nudge"}),
    (defects.SwapsSignsPattern, {"operator"}),
    (defects.BetterThanPowPattern, {"values"}),
    (defects.NeverOverflowsPattern, {"end"}),
    (defects.NothingMeansNothingPattern, {"empty"}),
    (defects.UnknownIsZeroPattern, {"constant computed"}),
]


EMPTY = (defects.LeavesMemoryPattern, defects.ForgetsBetaPattern)
"""Patterns that are wrong where onnxruntime, before version 1.32, does not compute products over
nothing.
"""


def multiplies_nothing() -> bool:
    """Whether onnxruntime scales the third operand of a Gemm that has nothing to add up."""
    model = parse(
        "agraph (float[1,k] a, float[k,2] b, float[2] c) => (float[1,2] y) { "
        "y = Gemm <beta = 0.5> (a, b, c) }"
    )
    values = {
        "a": np.zeros((1, 0), np.float32),
        "b": np.zeros((0, 2), np.float32),
        "c": np.ones(2, np.float32),
    }
    return bool((run(model, values)[0] == 0.5).all())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("pattern", "families"), FOUND, ids=[pattern.name() for pattern, _ in FOUND]
)
def test_near_misses_find(pattern: type[PatternOptimization], families: set[str]) -> None:
    if pattern in EMPTY and multiplies_nothing():
        pytest.skip("this onnxruntime computes products over nothing")
    example = pattern.EXAMPLE  # type: ignore[attr-defined]
    check_example(pattern, example)
    with pytest.raises(AssertionError) as caught:
        check_near_misses(pattern, example)
    message = str(caught.value)
    listed = {
        line.strip().partition(":")[0] for line in message.splitlines() if line.startswith("  ")
    }
    assert families <= listed, message[:4000]


COUNTED = (
    "agraph (float[n] x) => (float[m] y) <float a = {0}, float b = {3}, float c = {1}> { "
    "r = Range(a, b, c) y = Neg(r) }"
)


def test_what_inference_says_is_compared_with_what_is_computed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = parse(COUNTED)
    assert wrong_facts(model, make_all_feeds(model)) == ""
    right = Graph.info_of

    def wrong(graph: Graph, name: str) -> Info:
        info = right(graph, name)
        return replace(info, shape=(4,)) if name == "r" else info

    monkeypatch.setattr(Graph, "info_of", wrong)
    assert re.search(r" \['4'\] .* \[3\]", wrong_facts(model, make_all_feeds(model)))
