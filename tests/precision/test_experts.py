"""Mixtures of experts within a tolerance: QMoE, in 4 bits or in 8, or a Scan in float32."""

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from tests.patterns.control_flow.test_experts_scan import EXPERTS, HIDDEN, WIDTH, block, values
from xoptim.engine.options import OptimizationOptions
from xoptim.optimizing.plans import Plan
from xoptim.optimizing.verified import optimize_verified
from xoptim.precision.options import PrecisionOptions, Scheme
from xoptim.precision.quantize import before_quantization, quantize
from xoptim.precision.quantized import Quantized

pytestmark = pytest.mark.usefixtures("faster")


def trained() -> onnx.ModelProto:
    """A block whose weights have a spectrum that decays, as trained ones have."""
    model, rng = block(), np.random.default_rng(3)
    for tensor in model.graph.initializer:
        if len(tensor.dims) == 3:
            experts, rows, columns = tensor.dims
            rank = min(rows, columns)
            spectrum = np.arange(1, rank + 1) ** -1.0
            left = rng.normal(size=(experts, rows, rank)) * spectrum
            array = left @ rng.normal(size=(experts, rank, columns)) / np.sqrt(columns)
            tensor.CopyFrom(numpy_helper.from_array(array.astype(np.float32), tensor.name))
    return model


def precise(scheme: Scheme, tolerance: float, patterns: str = "default+onnxruntime") -> Quantized:
    options = OptimizationOptions(patterns=patterns)
    rng = np.random.default_rng(2)
    feeds = [{"x": values(4) * rng.uniform(0.9, 1.1)} for _ in range(4)]
    precision = PrecisionOptions(scheme=scheme, tolerance=tolerance, feeds=feeds)
    how = Plan()
    verified = optimize_verified(trained(), before_quantization(options), how)
    return quantize(verified, options, how, precision)


@pytest.mark.parametrize(
    ("scheme", "tolerance", "patterns"),
    [
        ("int4", 0.3, {"Int4Experts", "Int8Experts"}),  # by their costs, which are measured
        ("int4", 0.03, {"Int8Experts"}),
        ("int8", 0.03, {"Int8Experts"}),
        ("int4", 0.0005, set()),
    ],
)
def test_bits_are_chosen_by_the_tolerance(
    scheme: Scheme, tolerance: float, patterns: set[str]
) -> None:
    result = precise(scheme, tolerance)
    assert not result.fault
    assert result.error <= tolerance
    operators = {node.op_type for node in result.verified.proto.graph.node}
    assert ("QMoE" in operators) == bool(patterns)
    assert ("Scan" in operators) != bool(patterns)
    assert bool(patterns.intersection(result.applied.values())) == bool(patterns)


def test_four_bits_are_smaller_and_err_more() -> None:
    choices = precise("int4", 0.3).choices
    four, eight = (
        next(each.measured for each in choices if each.measured.candidate.pattern == pattern)
        for pattern in ("Int4Experts", "Int8Experts")
    )
    assert four.error > eight.error > 0
    assert four.candidate.bits == pytest.approx(5.14, abs=0.01)
    assert eight.candidate.bits == pytest.approx(9.25, abs=0.01)
    assert four.candidate.shape == (2 * (2 * HIDDEN + HIDDEN), EXPERTS * WIDTH // 2)
    assert min(four.cost.before, four.cost.after) > 0


def test_needs_contrib_operators() -> None:
    operators = {node.op_type for node in precise("int4", 0.3, "default").verified.proto.graph.node}
    assert "Scan" in operators
    assert "QMoE" not in operators
