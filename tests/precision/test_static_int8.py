"""Static integers from the inputs of a model to its outputs."""

import re
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, numpy_helper

from tests.plugged import needs
from tests.precision.models import convolutions, images, network, words
from tests.support import parse, run
from xoptim.engine.options import OptimizationOptions
from xoptim.optimizing.plans import Plan
from xoptim.optimizing.verified import optimize_verified
from xoptim.precision.options import PrecisionOptions
from xoptim.precision.quantize_static import quantize_static
from xoptim.precision.quantized import Quantized
from xoptim.precision.static_int8 import static_int8, with_small_masks
from xoptim.targets import named, place

PRODUCT = (
    "agraph (float[2,8] x) => (float[2,8] y) { p = MatMul(x, w) r = Relu(p) y = MatMul(r, v) }"
)


def product() -> onnx.ModelProto:
    """Two MatMuls with a Relu in between."""
    model = parse(PRODUCT, opset=21)
    rng = np.random.default_rng(0)
    weights = {name: rng.normal(size=(8, 8)).astype(np.float32) for name in "wv"}
    model.graph.initializer.extend(
        numpy_helper.from_array(each, name) for name, each in weights.items()
    )
    for number, node in enumerate(model.graph.node):
        node.name = f"n{number}"
    return model


def numbers(seed: int) -> dict[str, np.ndarray]:
    return {"x": np.random.default_rng(seed).uniform(-1, 1, (2, 8)).astype(np.float32)}


def quantized(model: onnx.ModelProto, *feeds: dict[str, np.ndarray], **options: Any) -> Quantized:
    chosen, how = OptimizationOptions(), Plan()
    precision = PrecisionOptions(scheme="int8", feeds=feeds, **options)
    return static_int8(optimize_verified(model, chosen, how), chosen, how, precision)


def around(model: onnx.ModelProto) -> set[str]:
    """The operators that read anything that no DequantizeLinear gives."""
    made = {name: node.op_type for node in model.graph.node for name in node.output}
    outside = ("QuantizeLinear", "DequantizeLinear")
    nodes = [node for node in model.graph.node if node.op_type not in outside]
    return {
        node.op_type
        for node in nodes
        if any(made.get(name) != "DequantizeLinear" for name in node.input)
    }


@pytest.mark.parametrize(("bits", "most"), [(8, 0.05), (16, 0.02)])
def test_all_operators_read_integers(bits: int, most: float) -> None:
    model = product()
    feeds = [numbers(seed) for seed in range(4)]
    found = quantize_static(model, feeds, bits)
    assert around(found) == set()
    kinds = {tensor.data_type for tensor in found.graph.initializer if len(tensor.dims) == 2}
    assert kinds == {TensorProto.INT8}
    expected, actual = run(model, feeds[0])[0], run(found, feeds[0])[0]
    assert 0 < np.abs(actual - expected).max() < most * np.abs(expected).max()


def test_the_model_stays_as_it_is() -> None:
    model = product()
    before = model.SerializeToString(deterministic=True)
    quantize_static(model, [numbers(0)], 8)
    assert model.SerializeToString(deterministic=True) == before


def test_a_product_of_two_parts_errs_less() -> None:
    model, feeds = product(), [numbers(seed) for seed in range(4)]
    expected = run(model, feeds[0])[0]
    models = [quantize_static(model, feeds, 16, twice) for twice in ((), ("n0", "n2"))]
    once, twice = (np.abs(run(each, feeds[0])[0] - expected).max() for each in models)
    assert twice < once / 5
    assert around(models[1]) == set()


def test_the_calibration_logs_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    """onnxruntime would warn of the weights that were split, and of constants of no use."""
    model = product()
    model.graph.initializer.append(numpy_helper.from_array(np.zeros(3, np.float32), "unread"))
    found = quantize_static(model, [numbers(0)], 8, ("n0",))
    assert "Removing initializer" not in capfd.readouterr().err
    assert "unread" not in {tensor.name for tensor in found.graph.initializer}


def test_columns_of_matrices_have_scales_of_their_own() -> None:
    found = quantize_static(product(), [numbers(0)], 8)
    scales = [tensor for tensor in found.graph.initializer if tensor.name == "w_scale"]
    assert [[*each.dims] for each in scales] == [[8]]


@pytest.mark.parametrize(("reader", "number"), [("Add", -100.0), ("Max", -3e38)])
def test_masks_become_small(reader: str, number: float) -> None:
    model = parse(
        f"agraph (float[4] x) => (float[4] y) <float k = {{-3e38}}> {{ y = {reader}(x, k) }}",
        opset=21,
    )
    with_small_masks(model)
    assert numpy_helper.to_array(model.graph.initializer[0]) == np.float32(number)


def test_fewest_bits_within_the_tolerance() -> None:
    feeds = [numbers(seed) for seed in range(4)]
    loose, strict = (quantized(product(), *feeds, tolerance=tolerance) for tolerance in (0.2, 0.02))
    assert re.search("3 operators .* 8-bit ", loose.summary())
    assert " 16-bit " in strict.summary()
    assert strict.error < loose.error < 0.2


def test_products_of_two_parts_where_16_bits_err_too_much() -> None:
    found = quantized(network(), *(words(seed=seed) for seed in range(4)), tolerance=0.006)
    assert "operators split in two" in found.summary()
    assert found.error <= 0.006
    kinds = {
        each.data_type
        for each in found.verified.proto.graph.initializer
        if [*each.dims] == [64, 64]
    }
    assert kinds == {TensorProto.INT8}


def test_nothing_is_quantized_where_no_choice_is_within_the_tolerance() -> None:
    feeds = [numbers(seed) for seed in range(4)]
    found = quantized(product(), *feeds, tolerance=1e-6)
    assert " 16-bit activations is " in found.reason
    assert not {"QuantizeLinear", "DequantizeLinear"} & {
        node.op_type for node in found.verified.proto.graph.node
    }
    assert not found.fault


def test_an_error_without_a_message(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise KeyError

    monkeypatch.setattr("xoptim.precision.static_int8.quantize_static", fail)
    reason = quantized(product(), numbers(0)).reason
    assert reason.endswith(": KeyError")


def test_convolutions() -> None:
    found = quantized(convolutions(), *(images(seed=seed) for seed in range(4)), tolerance=0.05)
    assert not found.reason
    assert around(found.verified.proto) == set()


@needs("qnn")
def test_qnn_takes_all_but_the_ends() -> None:
    found = quantized(product(), *(numbers(seed) for seed in range(4)), tolerance=0.05)
    placement = place(found.verified.proto, named("qnn"))
    assert placement.partitions == 1
    assert {node.op_type for node in placement.left} <= {"QuantizeLinear", "DequantizeLinear"}
