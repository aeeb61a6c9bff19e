"""Two decoders on the same values: batches, lengths, earlier tokens and paddings, onnxruntime's
optimizations off and on.
"""

import itertools
from collections.abc import Callable, Mapping
from typing import Final

import numpy as np
import onnx

from tests.patterns.attention.comparison import LEVELS, session
from xoptim.verification.judging.compare import compare_values
from xoptim.verification.options import ComparisonRules

BATCHES: Final = (1, 3)
LENGTHS: Final = (1, 5)
PAST: Final = (0, 1, 17)
PADDINGS: Final = ("none", "left", "right")
RULES: Final = ComparisonRules("rounding", atol=1e-5)
"""Scores are sums of some hundred products of numbers of the size of 1."""
Feeds = Callable[[int, int, int, str], Mapping[str, np.ndarray]]
"""Makes feeds of a batch, a length, a number of earlier tokens, and a padding."""


def assert_same(before: onnx.ModelProto, feeds: Feeds, *after: onnx.ModelProto) -> None:
    """Compare models on all sizes and paddings."""
    reference = session(before)
    judged = [session(model, level) for model in after for level in LEVELS]
    for case in itertools.product(BATCHES, LENGTHS, PAST, PADDINGS):
        values = dict(feeds(*case))
        expected = reference.run(None, values)
        assert all(np.isfinite(value).all() for value in expected), case
        for number, each in enumerate(judged):
            for place, (e, a) in enumerate(zip(expected, each.run(None, values), strict=True)):
                found = compare_values(str(place), e, a, RULES)
                assert all(result.ok for result in found), (case, number, place, found)
