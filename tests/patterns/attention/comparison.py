"""Two models on the same values: batches, lengths and paddings, onnxruntime's optimizations off and
on.
"""

import itertools
from typing import Final

import numpy as np
import onnx
import onnxruntime

from tests.patterns.attention.models import feeds_of
from xoptim.verification.judging.compare import compare_values
from xoptim.verification.options import ComparisonRules

LEVELS: Final = (
    onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL,
    onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL,
)
PADDINGS: Final = ("none", "left", "right", "all")


def session(
    model: onnx.ModelProto, level: onnxruntime.GraphOptimizationLevel = LEVELS[0]
) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = level
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


def assert_same(
    before: onnx.ModelProto,
    *after: onnx.ModelProto,
    lengths: tuple[int, ...] = (1, 7, 64),
    past: tuple[int, ...] = (0,),
    paddings: tuple[str, ...] = PADDINGS,
    atol: float | None = None,
    rounding: float | None = None,
) -> None:
    """Compare models on batches and lengths, with and without padding, with onnxruntime's
    optimizations and without.

    ``atol`` is allowed where all keys of a query are masked, and ``rounding`` elsewhere.
    """
    groups = {
        value.name: value.type.tensor_type.shape.dim[1].dim_value for value in before.graph.input
    }.get("past_key", 0)
    read = {value.name for value in before.graph.input}
    reference = session(before)
    judged = [session(model, level) for model in after for level in LEVELS]
    for batch, length, earlier, padding in itertools.product((1, 3), lengths, past, paddings):
        values = feeds_of(batch, length, padding, earlier, groups)
        feeds = {name: value for name, value in values.items() if name in read}
        expected = reference.run(None, feeds)
        rules = ComparisonRules(
            "rounding", atol=atol if atol and padding in ("all", "left") else rounding
        )
        for number, each in enumerate(judged):
            for place, (e, a) in enumerate(zip(expected, each.run(None, feeds), strict=True)):
                assert np.isfinite(e).all()
                result = compare_values(str(place), e, a, rules)
                assert all(found.ok for found in result), (
                    batch,
                    length,
                    earlier,
                    padding,
                    number,
                    result,
                )
