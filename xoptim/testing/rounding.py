"""Rewrites that round operands to fewer bits: how far results may move."""

from collections.abc import Sequence
from copy import deepcopy

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

from xoptim.facts.dtypes import element_type, is_float
from xoptim.testing.digits import results_of
from xoptim.testing.feeds import Feeds, Range
from xoptim.testing.models import all_nodes
from xoptim.validate.session import Value

_STEPS = 4
"""Steps of the largest number that a sum of products may move by: half a step for each operand, and as much as slack."""


def is_rounding(before: onnx.ModelProto, after: onnx.ModelProto, feeds: Feeds, ranges: Sequence[Range], bits: int) -> bool:
    """Whether results differ by no more than operands of few bits explain.

    A sum of products whose operands are rounded moves by a part of the sum of their magnitudes, which cancellation does not
    make smaller. The model itself computes that sum, from the magnitudes of its numbers: its operators must grow with the
    magnitudes of their operands. Where inputs have ``ranges``, these determine the steps instead of the values.
    """
    results = [results_of(before, feeds), results_of(after, feeds), results_of(*_magnitudes(before, feeds, ranges))]
    lists = [result for result in results if result is not None]
    return len(lists) == len(results) and all(_is_near(*values, bits=bits) for values in zip(*lists, strict=True))


def _is_near(before: Value, after: Value, magnitudes: Value, *, bits: int) -> bool:
    if not (isinstance(before, np.ndarray) and isinstance(after, np.ndarray) and isinstance(magnitudes, np.ndarray)):
        return False
    if before.shape != after.shape or before.dtype != after.dtype or not is_float(element_type(before.dtype)):
        return False
    with np.errstate(all="ignore"):
        moved = np.abs(before.astype(np.float64) - after.astype(np.float64))
        limit = _STEPS * 2.0**-bits * np.max(magnitudes.astype(np.float64), initial=0)
        return bool(np.all((moved <= limit) | ~np.isfinite(before)))


def _magnitudes(model: onnx.ModelProto, feeds: Feeds, ranges: Sequence[Range]) -> tuple[onnx.ModelProto, Feeds]:
    """The model with the magnitudes of its constants, and the largest magnitude of each input in the place of its numbers.

    A Clip gives its bounds where they are larger, since steps may be derived from them.
    """
    copy = deepcopy(model)
    for node in copy.graph.node:
        if node.op_type == "Clip" and len(node.input) == 3 and all(node.input):
            node.op_type = "Max"
    tensors = [*copy.graph.initializer, *(a.t for node in all_nodes(copy) for a in node.attribute if a.name == "value")]
    for tensor in tensors:
        if tensor.data_type == TensorProto.FLOAT:
            tensor.CopyFrom(numpy_helper.from_array(np.abs(numpy_helper.to_array(tensor)), tensor.name))
    ends = {name: max(abs(low), abs(high)) for name, low, high in ranges}
    return copy, {name: _largest(value, ends.get(name, 0.0)) for name, value in feeds.items()}


def _largest(value: Value, end: float) -> Value:
    if not isinstance(value, np.ndarray) or not is_float(element_type(value.dtype)) or not value.size:
        return value
    return np.full_like(value, max(end, np.max(np.abs(value))))
