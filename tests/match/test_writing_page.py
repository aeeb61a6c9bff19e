"""The page about writing patterns tells the truth: its patterns do what their arrows say."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support import parse, same_results, types
from xoptim import optimize
from xoptim.match.trace import PatternBuilder

PAGE = (Path(__file__).parents[2] / "docs" / "writing-patterns.md").read_text(encoding="utf-8")
WEIGHTS = "<float[3,4] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3}, float[4] b = {1, 2, 3, 4}>"
PARTS = "<int64[1] zero = {0}, int64[1] three = {3}, int64[1] end = {100}, int64[1] axis = {1}>"


@pytest.fixture(scope="module")
def session() -> dict[str, Any]:
    """The names that the snippets define, one after the other."""
    names: dict[str, Any] = {"__name__": "page"}
    for number, snippet in enumerate(
        re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE), 1
    ):
        exec(compile(snippet, f"writing-patterns.md, snippet {number}", "exec"), names)
    return names


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        (
            "ReluClipPattern",
            """agraph (float[n,7] x) => (float[n,7] y)
            { r = Relu(x) lo = Constant<value_float = -1.0>() hi = Constant<value_float = 1.5>()
              y = Clip(r, lo, hi) }""",
            ["Clip"],
        ),
        (
            "MatMulActivationPattern",
            (
                f"agraph (float[n,3] x) => (float[n,4] y) {WEIGHTS} {{ t = MatMul(x, w) "
                "u = Add(b, t) y = Relu(u) }"
            ),
            ["Dense"],
        ),
        (
            "MatMulActivationPattern",
            f"""agraph (float[n,3] x) => (float[n,4] y) {WEIGHTS}
            {{ t = MatMul(x, w) k = Constant<value_float = 0.0>() y = Clip(t, k) }}""",
            ["Dense"],
        ),
        (
            "SplitInTwoPattern",
            f"""agraph (float[n,7] x) => (float[n,3] p, float[n,4] q) {PARTS}
            {{ p = Slice(x, zero, three, axis) q = Slice(x, three, end, axis) }}""",
            ["Split"],
        ),
    ],
)
def test_patterns(session: dict[str, Any], pattern: str, text: str, expected: list[str]) -> None:
    after = optimize(parse(text), patterns=[session[pattern]], strict=True)
    assert types(after) == expected
    if expected != ["Dense"]:  # which nothing runs
        same_results(parse(text), after, {"x": np.arange(14, dtype=np.float32).reshape(2, 7) - 6})


def test_every_word_of_the_language_is_there() -> None:
    words = {name for name in vars(PatternBuilder) if not name.startswith("_")} - {
        "add",
        "symbol",
        "taken",
        "ANY",
    }
    assert {word for word in words if f"g.{word}(" not in PAGE} == set()
