"""Two models on the same values: batches, lengths and paddings, onnxruntime's optimizations off and on."""

from __future__ import annotations

import itertools
from typing import Final

import numpy as np
import onnx
import onnxruntime

from tests.patterns.attention.models import feeds_of
from xoptim.validate.compare import ComparisonRules, compare_values

LEVELS: Final = (onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL, onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL)
PADDINGS: Final = ("none", "left", "right", "all")


def session(model: onnx.ModelProto, level: onnxruntime.GraphOptimizationLevel = LEVELS[0]) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = level
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def assert_same(
    before: onnx.ModelProto,
    after: onnx.ModelProto,
    lengths: tuple[int, ...] = (1, 7, 64),
    past: tuple[int, ...] = (0,),
    atol: float | None = None,
) -> None:
    """Compare two models on batches and lengths, with and without padding, with onnxruntime's optimizations and without.

    ``atol`` is allowed where all keys of a query are masked.
    """
    read = {value.name for value in before.graph.input}
    reference = session(before)
    for level in LEVELS:
        judged = session(after, level)
        for batch, length, earlier, padding in itertools.product((1, 3), lengths, past, PADDINGS):
            feeds = {name: value for name, value in feeds_of(batch, length, padding, earlier).items() if name in read}
            expected, actual = reference.run(None, feeds), judged.run(None, feeds)
            rules = ComparisonRules("rounding", atol=atol if padding in ("all", "left") else None)
            for place, (e, a) in enumerate(zip(expected, actual, strict=True)):
                assert np.isfinite(e).all()
                result = compare_values(str(place), e, a, rules)
                assert all(each.ok for each in result), (batch, length, earlier, padding, level, result)
