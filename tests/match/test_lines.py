"""Mistakes that only a match shows are reported with file and line."""

import inspect
import re
from typing import Any

import pytest

from tests.support import parse
from xoptim import EasyPatternOptimization, PatternError, XoptimError, optimize


class Replacing(EasyPatternOptimization):
    """Neg(Neg(x)) → the replacement of a derived class"""

    def match_pattern(self, g: Any, x: Any) -> Any:
        return g.op.Neg(g.op.Neg(x))


class MisspeltPattern(Replacing):
    def apply_pattern(self, g: Any, x: str) -> Any:
        return g.op.Rellu(x)


class OtherTypePattern(Replacing):
    def apply_pattern(self, g: Any, x: str) -> Any:
        return g.op.Cast(x, to=7)


class TwoResultsPattern(Replacing):
    def apply_pattern(self, g: Any, x: str) -> Any:
        return x, x


class NoAnchorsPattern(Replacing):
    anchors = "Neg"  # type: ignore[assignment]

    def apply_pattern(self, g: Any, x: str) -> Any:
        return x


MISTAKES = {
    MisspeltPattern: (
        r"operator Rellu does not exist in version 18 of the operator set; did you mean 'Relu'\?",
        2,
    ),
    OtherTypePattern: ("result 't1' would change its type from float to int64", 1),
    TwoResultsPattern: ("apply_pattern gives 2 results, 1 expected", 1),
}


@pytest.mark.parametrize("pattern", MISTAKES, ids=lambda pattern: pattern.__name__)
def test_a_replacement_that_is_not_valid_is_told_once(
    pattern: type[Replacing], caplog: pytest.LogCaptureFixture
) -> None:
    """With file and line; the model stays as it was."""
    text, line = MISTAKES[pattern]
    model = parse(
        "agraph (float[a] x) => (float[a] y) { t0 = Neg(x) t1 = Neg(t0) v = Neg(t1) y = Abs(v) }"
    )
    assert optimize(model, patterns=[pattern]).graph == model.graph
    (record,) = caplog.records
    first = inspect.getsourcelines(pattern)[1]
    place = re.search(r"test_lines.py:(\d+)\); ", record.getMessage())
    assert re.search(text, record.getMessage())
    assert place is not None
    assert int(place[1]) in (first + line, first + line - 1)
    with pytest.raises(XoptimError, match=text):
        optimize(model, patterns=[pattern], strict=True)


def test_metadata_is_checked_when_a_class_is_used() -> None:
    line = inspect.getsourcelines(NoAnchorsPattern)[1] + 1
    with pytest.raises(
        PatternError, match=rf"test_lines.py:{line}: NoAnchors: anchors .*\('Neg',\)"
    ):
        optimize(
            parse("agraph (float[a] x) => (float[a] y) { y = Neg(x) }"), patterns=[NoAnchorsPattern]
        )
