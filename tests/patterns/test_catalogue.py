"""Every installed pattern rewrites its examples as declared, and leaves the numbers of near misses
unchanged.
"""

import pytest

from tests.share import is_pattern_in_share
from xoptim import Example, PatternOptimization, installed_patterns, optimize
from xoptim.testing import check_example, check_near_misses, make_all_feeds, parse, same_numbers

PARTS = 30
"""A run checks the near misses of one of so many parts of the patterns."""
PATTERNS = list(installed_patterns().values())
EXAMPLES = [
    pytest.param(cls, example, id=f"{cls.name()}-{number}")
    for cls in PATTERNS
    for number, example in enumerate(cls.examples, 1)
]


@pytest.mark.parametrize(("pattern", "example"), EXAMPLES)
def test_example(pattern: type[PatternOptimization], example: Example) -> None:
    check_example(pattern, example)


@pytest.mark.slow
@pytest.mark.parametrize(
    "pattern",
    [
        pytest.param(cls, id=cls.name(), marks=pytest.mark.xdist_group(cls.name()))
        for cls in PATTERNS
        if issubclass(cls, PatternOptimization) or cls.examples  # a pass may write metadata only
    ],
)
def test_near_misses(pattern: type[PatternOptimization], request: pytest.FixtureRequest) -> None:
    """Harmless on models near all its examples, and not because it never applies or nothing can be
    run.

    Without ``-k``, a run checks about every thirtieth pattern, and those whose modules differ from
    ``CHANGED_SINCE``; ``make near-misses`` checks all.
    """
    name = pattern.name()
    if not (request.config.option.keyword or is_pattern_in_share(pattern, name, PARTS)):
        pytest.skip("not in the share; make near-misses checks all")
    tried = fired = skipped = 0
    for example in pattern.examples:
        counts = check_near_misses(pattern, example)
        tried, fired, skipped = (
            tried + counts["tried"],
            fired + counts["fired"],
            skipped + counts["skipped"],
        )
    assert fired > 0
    assert skipped < tried / 2


@pytest.mark.parametrize(("pattern", "example"), EXAMPLES)
@pytest.mark.parametrize("selection", ["default", "default+onnxruntime"])
def test_all_together(pattern: type[PatternOptimization], example: Example, selection: str) -> None:
    """The patterns do not undo or spoil each other's work on their examples."""
    before = parse(example.before, example.opset, example.domains)
    after = optimize(before, patterns=selection, strict=True)
    numbers = same_numbers(before, after, make_all_feeds(before, example.ranges), "rounding")
    assert numbers.difference == ""
    assert optimize(after, patterns=selection, strict=True) == after
