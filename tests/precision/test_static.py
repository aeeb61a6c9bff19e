"""``static``: activations with scales of samples, in standard operators that compilers read."""

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, numpy_helper

from tests.precision.models import convolutions, images, network, words
from tests.support import run
from xoptim.engine.options import OptimizationOptions
from xoptim.graph.sources import Source
from xoptim.optimizing.plans import Plan
from xoptim.optimizing.verified import optimize_verified
from xoptim.precision.options import PrecisionOptions
from xoptim.precision.quantize import quantize
from xoptim.precision.quantized import Quantized
from xoptim.precision.symmetric import symmetric_ranges, use_signed_activations
from xoptim.targets import named
from xoptim.verification.errors import ChoiceError
from xoptim.workflow.job import Job, JobOptions
from xoptim.workflow.requests import precision_for

CONVERSIONS = ("QuantizeLinear", "DequantizeLinear")


def quantized(model: onnx.ModelProto, *feeds: dict[str, np.ndarray], **options: Any) -> Quantized:
    chosen, how = OptimizationOptions(), Plan()
    precision = PrecisionOptions(scheme="int8", static=True, feeds=feeds, **options)
    return quantize(optimize_verified(model, chosen, how), chosen, how, precision)


def readers_of_floats(model: onnx.ModelProto) -> list[onnx.NodeProto]:
    """The operators with weights that read something else than dequantized integers."""
    made = {name: node.op_type for node in model.graph.node for name in node.output}
    weighted = (node for node in model.graph.node if node.op_type in ("MatMul", "Gemm", "Conv"))
    return [
        node
        for node in weighted
        if any(made.get(name) != "DequantizeLinear" for name in node.input[:2])
    ]


def zero_points(model: onnx.ModelProto) -> list[np.ndarray]:
    stored = {each.name: each for each in model.graph.initializer}
    quantizing = (node for node in model.graph.node if node.op_type == "QuantizeLinear")
    return [numpy_helper.to_array(stored[node.input[2]]) for node in quantizing]


def test_products_read_integers_and_keep_the_tolerance() -> None:
    model = network()
    found = quantized(model, *(words(seed=seed) for seed in range(4)), tolerance=0.05)
    assert not found.fault
    assert [report.status for report in found.comparisons] == ["equal"]
    assert "6 of 6 " in found.summary()
    made = found.verified.proto
    assert readers_of_floats(made) == []
    assert not {"DynamicQuantizeLinear", "MatMulInteger"} & {n.op_type for n in made.graph.node}
    assert {each.dtype for each in zero_points(made)} == {np.dtype(np.uint8)}
    expected, actual = (run(each, words(seed=9))[0] for each in (model, made))
    assert 0 < np.abs(actual - expected).max() < 0.05 * np.abs(expected).max()


def test_a_gemm_has_a_bias_of_32_bits() -> None:
    found = quantized(network(layers=1), words(), words(seed=1), tolerance=0.1)
    made = found.verified.proto
    gemm = next(node for node in made.graph.node if node.op_type == "Gemm")
    makers = {node.output[0]: node for node in made.graph.node}
    stored = {each.name: each for each in made.graph.initializer}
    assert stored[makers[gemm.input[2]].input[0]].data_type == TensorProto.INT32


def test_what_errs_most_stays_in_float32() -> None:
    feeds = [words(seed=seed) for seed in range(4)]
    found = quantized(network(), *feeds, tolerance=0.012)
    assert not found.fault
    assert found.error <= 0.012
    assert 0 < len(readers_of_floats(found.verified.proto)) < 5
    assert "for their error" in found.summary()


def test_convolutions_and_what_is_between_them() -> None:
    found = quantized(convolutions(), *(images(seed=seed) for seed in range(4)), tolerance=0.1)
    assert not found.fault
    assert readers_of_floats(found.verified.proto) == []
    add = next(node for node in found.verified.proto.graph.node if node.op_type == "Add")
    makers = {
        name: node.op_type for node in found.verified.proto.graph.node for name in node.output
    }
    assert [makers[name] for name in add.input] == ["DequantizeLinear"] * 2


def test_symmetric_integers_have_the_zero_point_0_and_biases_stay_in_float32() -> None:
    found = quantized(
        convolutions(), *(images(seed=seed) for seed in range(4)), tolerance=0.2, symmetric=True
    )
    assert not found.fault
    zeros = zero_points(found.verified.proto)
    assert zeros
    assert all(each.dtype == np.int8 and not each.any() for each in zeros)
    types = {each.data_type for each in found.verified.proto.graph.initializer}
    assert TensorProto.INT32 not in types


@pytest.mark.parametrize("bounds", [(-1.0, 3.0), (-5.0, 2.0), (0.0, 1.0)])
def test_symmetric_ranges_have_127_steps_up_to_the_largest_number(
    bounds: tuple[float, float],
) -> None:
    low, high = symmetric_ranges({"x": bounds})["x"]
    assert high == max(-bounds[0], bounds[1])
    assert low == pytest.approx(-high * 128 / 127)


def test_zero_points_of_other_constants_stay() -> None:
    model = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["" : 21]>
        agraph (float[4] x) => (float[4] y, float[4] w)
        <float s = {0.5}, uint8 z = {128}, uint8 o = {128}, uint8[4] k = {1, 2, 3, 4}> {
            q = QuantizeLinear(x, s, z) y = DequantizeLinear(q, s, z)
            w = DequantizeLinear(k, s, o)
        }""")
    before = run(model, {"x": np.array([-1, 0.4, 3, 9], np.float32)})
    use_signed_activations(model)
    types = {each.name: each.data_type for each in model.graph.initializer}
    assert types["z"] == TensorProto.INT8
    assert types["o"] == TensorProto.UINT8
    after = run(model, {"x": np.array([-1, 0.4, 3, 9], np.float32)})
    for old, new in zip(before, after, strict=True):
        np.testing.assert_array_equal(old, new)


def test_without_samples_an_error_says_what_to_give() -> None:
    precision = PrecisionOptions(scheme="int8", static=True)
    with pytest.raises(ChoiceError, match=r'PrecisionOptions\(feeds="FILE\.npz"\)'):
        Job(Source(network()), JobOptions(precision=precision)).run()
    with pytest.raises(ChoiceError, match=r'PrecisionOptions\(feeds="FILE\.npz"\)'):
        quantized(network())


def test_a_target_that_computes_in_floats() -> None:
    options = JobOptions(
        optimization=OptimizationOptions(target="webgpu"),
        precision=PrecisionOptions(scheme="int8", static=True, feeds=[words()]),
    )
    with pytest.raises(ChoiceError, match=r"webgpu .* int8 "):
        Job(Source(network()), options).run()


def test_static_belongs_to_int8() -> None:
    with pytest.raises(ValueError, match=r"static .* int8, .* int4"):
        PrecisionOptions(scheme="int4", static=True)


@pytest.mark.parametrize(("target", "is_symmetric"), [("openvino", False), ("tensorrt", True)])
def test_targets_take_the_static_form(target: str, is_symmetric: bool) -> None:
    asked = PrecisionOptions(scheme="int8", static=True)
    found = precision_for(asked, named(target))
    assert found is not None
    assert not found.weights_only
    assert found.symmetric == is_symmetric
