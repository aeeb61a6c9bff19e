"""``static``: every operator between quantized MatMuls reads and writes QDQ, within the error."""

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, numpy_helper

from tests.support import run
from xoptim.engine.options import OptimizationOptions
from xoptim.optimizing.plans import Plan
from xoptim.optimizing.verified import optimize_verified
from xoptim.precision.options import PrecisionOptions
from xoptim.precision.quantize import quantize
from xoptim.precision.quantized import Quantized

WIDTH, HEADS = 32, 4


def block() -> onnx.ModelProto:
    """One block of a transformer with a padding mask, and scores of each word."""
    rng = np.random.default_rng(0)
    shapes = {f"w{name}": (WIDTH, WIDTH) for name in "qkvo"}
    shapes |= {"w1": (WIDTH, 2 * WIDTH), "w2": (2 * WIDTH, WIDTH), "w3": (WIDTH, WIDTH)}
    weights = {
        name: (rng.standard_normal(shape) / np.sqrt(shape[0])).astype(np.float32)
        for name, shape in shapes.items()
    }
    weights["table"] = rng.standard_normal((100, WIDTH)).astype(np.float32)
    weights["b1"] = rng.standard_normal(2 * WIDTH).astype(np.float32)
    weights["gain"] = np.ones(WIDTH, np.float32)
    model = onnx.parser.parse_model(f"""<ir_version: 10, opset_import: ["" : 17]>
        block (int64[1,n] words, float[1,1,1,n] mask) => (float[1,n,{WIDTH}] y)
        <int64[4] heads = {{0, 0, {HEADS}, -1}}, int64[3] joined = {{0, 0, {WIDTH}}},
         float root = {{1.4142135}}, float one = {{1}}, float half = {{0.5}},
         float less = {{0.35355338}}> {{
            x = Gather(table, words) n0 = LayerNormalization(x, gain)
            q = MatMul(n0, wq) qs = Reshape(q, heads) qh = Transpose <perm = [0, 2, 1, 3]> (qs)
            k = MatMul(n0, wk) ks = Reshape(k, heads) kh = Transpose <perm = [0, 2, 3, 1]> (ks)
            v = MatMul(n0, wv) vs = Reshape(v, heads) vh = Transpose <perm = [0, 2, 1, 3]> (vs)
            s = MatMul(qh, kh) d = Mul(s, less) m = Add(d, mask) p = Softmax(m)
            c = MatMul(p, vh) ct = Transpose <perm = [0, 2, 1, 3]> (c) cj = Reshape(ct, joined)
            o = MatMul(cj, wo) r = Add(x, o) n1 = LayerNormalization(r, gain)
            h = MatMul(n1, w1) hb = Add(h, b1)
            e0 = Div(hb, root) e1 = Erf(e0) e2 = Add(e1, one) e3 = Mul(hb, e2) g = Mul(e3, half)
            f = MatMul(g, w2) r2 = Add(r, f) n2 = LayerNormalization(r2, gain)
            y = MatMul(n2, w3)
        }}""")
    model.graph.initializer.extend(numpy_helper.from_array(a, n) for n, a in weights.items())
    return model


def words(seed: int, count: int = 24) -> dict[str, np.ndarray]:
    """Values of the inputs, with padding at the end of some."""
    rng = np.random.default_rng(seed)
    mask = np.zeros((1, 1, 1, count), np.float32)
    mask[..., count - seed % 3 :] = np.finfo(np.float32).min if seed % 3 else 0
    return {"words": rng.integers(0, 100, (1, count)), "mask": mask}


def quantized(tolerance: float, **options: Any) -> Quantized:
    feeds = [words(seed) for seed in range(4)]
    precision = PrecisionOptions(
        scheme="int8", static=True, feeds=feeds, tolerance=tolerance, **options
    )
    chosen, how = OptimizationOptions(), Plan()
    found = quantize(optimize_verified(block(), chosen, how), chosen, how, precision)
    assert not found.fault
    return found


def neighbours(model: onnx.ModelProto, node: onnx.NodeProto) -> tuple[set[str], set[str]]:
    """The operators that compute what a node reads, but for constants, and those that read its
    result.
    """
    makers = {name: each.op_type for each in model.graph.node for name in each.output}
    readers = {each.op_type for each in model.graph.node if node.output[0] in each.input}
    return {makers[name] for name in node.input if name in makers}, readers


def kinds(model: onnx.ModelProto, op_type: str) -> list[tuple[set[str], set[str]]]:
    return [neighbours(model, node) for node in model.graph.node if node.op_type == op_type]


def test_every_operator_between_is_in_qdq() -> None:
    found = quantized(0.5)
    model = found.verified.proto
    both = {"DequantizeLinear"}, {"QuantizeLinear"}
    assert kinds(model, "LayerNormalization") == [both] * 3
    assert kinds(model, "Gelu") == [both]
    assert kinds(model, "Softmax") == [({"Add"}, {"QuantizeLinear"})]
    assert all(above == {"DequantizeLinear"} for above, _ in kinds(model, "MatMul"))
    residual = [pair for pair in kinds(model, "Add") if pair[0] == {"DequantizeLinear"}]
    assert residual == [both] * 2
    moved = [*kinds(model, "Transpose"), *kinds(model, "Reshape")]
    integers = {"QuantizeLinear", "DequantizeLinear", "Transpose", "Reshape"}
    assert len(moved) == 8
    assert all(above | below <= integers for above, below in moved)
    assert "activations between them" in found.summary()


def test_the_result_keeps_the_tolerance_where_samples_have_no_padding_too() -> None:
    model = quantized(0.1).verified.proto
    onnx.checker.check_model(model, full_check=True)
    for feeds in (words(7, count=9), words(9, count=30)):
        expected, actual = (run(each, feeds)[0] for each in (block(), model))
        assert 0 < np.abs(actual - expected).max() < 0.1 * np.abs(expected).max()


def test_what_errs_too_much_stays_in_float32() -> None:
    every, some = quantized(0.5), quantized(0.03)
    assert some.error <= 0.03
    assert 0 < len(some.activations) < len(every.activations)
    normalizations = kinds(some.verified.proto, "LayerNormalization")
    assert any("DequantizeLinear" not in above for above, _ in normalizations)


def test_an_older_operator_set_that_is_asked_for_stays() -> None:
    feeds = [words(seed) for seed in range(2)]
    precision = PrecisionOptions(scheme="int8", static=True, feeds=feeds, tolerance=0.5)
    chosen, how = OptimizationOptions(opset=17), Plan()
    found = quantize(optimize_verified(block(), chosen, how), chosen, how, precision)
    assert [each.version for each in found.verified.proto.opset_import] == [17]


@pytest.mark.parametrize("calibration", ["percentile", "entropy"])
def test_ranges_of_other_calibrations(calibration: str) -> None:
    found = quantized(0.5, calibration=calibration)
    assert found.activations
    assert found.to_json()["activations"] == [*found.activations]


def test_symmetric_activations_have_the_zero_point_0() -> None:
    model = quantized(0.5, symmetric=True).verified.proto
    stored = {each.name: each for each in model.graph.initializer}
    zeros = [stored[node.input[2]] for node in model.graph.node if node.op_type == "QuantizeLinear"]
    assert len(zeros) > 10
    assert {each.data_type for each in zeros} == {TensorProto.INT8}


def test_openvino_gets_no_integers_between_matmuls() -> None:
    """It was measured to be slower with them."""
    feeds = [words(seed) for seed in range(2)]
    precision = PrecisionOptions(scheme="int8", static=True, feeds=feeds, tolerance=0.5)
    how = Plan()
    result = optimize_verified(block(), OptimizationOptions(), how)
    assert quantize(result, OptimizationOptions(), how, precision).activations
    found = quantize(result, OptimizationOptions(target="openvino"), how, precision)
    assert not found.activations
    assert "DequantizeLinear" in {node.op_type for node in found.verified.proto.graph.node}
