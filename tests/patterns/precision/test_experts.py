"""Mixtures of experts as QMoE: the same experts, the same factors, quantized weights."""

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import xoptim
from tests.patterns.control_flow.test_experts_scan import _BLOCK, block, values
from tests.support import run
from xoptim.match.block_rounding import BlockFormat, nearest_blocks
from xoptim.patterns.precision.int4_experts import Int4ExpertsPattern
from xoptim.patterns.precision.int8_experts import Int8ExpertsPattern
from xoptim.precision.fake_quantization import fake_quantized

_ACTIVATION = "s = Sigmoid(a)\n  silu = Mul(a, s)\n  h = Mul(silu, b)"
_SPLIT = "a, b = Split <axis = 1, num_outputs = 2> (q1)"
_LISTS = (
    "int64[1] zero = {0}, int64[1] end = {1000}, int64[1] three = {2}, float beta = {1}, "
    "float alpha = {1.7}, float least = {-0.5}, float most = {0.5}, int64[1] minus = {-1},"
)
_WITH_LISTS = _BLOCK.replace("int64[1] minus = {-1},", _LISTS)
_TURNS = "a = Slice(q1, zero, end, one, three) b = Slice(q1, one, end, one, three)"
_LIMITS = (
    f"{_TURNS} g = Clip(a, , most) z = Clip(b, least, most) t = Mul(g, alpha) s = Sigmoid(t) "
    "silu = Mul(g, s) k = Add(z, beta) h = Mul(k, silu)"
)
_FORMS = {
    "gate first": _BLOCK,
    "gate last": _BLOCK.replace(_SPLIT, _SPLIT.replace("a, b", "b, a")),
    "in turns, with limits": _WITH_LISTS.replace(_SPLIT, "").replace(_ACTIVATION, _LIMITS),
    "sigmoid": _BLOCK.replace("weights = Softmax(p)", "weights = Sigmoid(p)"),
    "normalized": _BLOCK.replace(
        "p, i = TopK(scores, two)\n  weights = Softmax(p)",
        "all = Softmax(scores) p, i = TopK(all, two) n = ReduceSum <keepdims = 1> (p, minus) "
        "weights = Div(p, n)",
    ),
}


def scans(text: str = _BLOCK, scale: float = 1.0) -> onnx.ModelProto:
    """The block as `ExpertsScan` writes it."""
    return xoptim.optimize(block(scale, text), patterns="default+onnxruntime")


def quantized(model: onnx.ModelProto, bits: int = 4) -> onnx.ModelProto:
    pattern = Int4ExpertsPattern if bits == 4 else Int8ExpertsPattern
    made, _ = fake_quantized(model, None, [pattern], None, "cpu")
    return made


def count(model: onnx.ModelProto) -> int:
    return sum(node.op_type == "QMoE" for node in model.graph.node)


def with_rounded_weights(model: onnx.ModelProto, bits: int) -> onnx.ModelProto:
    """A model in which the weights of experts are those that integers stand for."""
    for tensor in model.graph.initializer:
        if len(tensor.dims) == 3 and tensor.data_type == onnx.TensorProto.FLOAT:
            matrices = numpy_helper.to_array(tensor)
            rounded = [
                nearest_blocks(matrix.T, BlockFormat(bits)).dequantized(32).T for matrix in matrices
            ]
            array = np.stack(rounded).astype(np.float32)
            tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
    return model


@pytest.mark.parametrize("form", _FORMS)
@pytest.mark.parametrize("bits", [4, 8])
def test_equal_to_the_rounded_weights(form: str, bits: int) -> None:
    assert form == "gate first" or _FORMS[form] != _BLOCK
    result = quantized(scans(_FORMS[form]), bits)
    assert count(result) == 1
    model = with_rounded_weights(block(text=_FORMS[form]), bits)
    for tokens in (0, 1, 7):
        feeds = {"x": values(tokens)}
        actual, expected = run(result, feeds)[0], run(model, feeds)[0]
        assert actual.shape == expected.shape
        # the kernel quantizes activations to 8 bits
        assert np.abs(actual - expected).max(initial=0) <= 0.02 * np.abs(expected).max(initial=0)


@pytest.mark.parametrize("form", ["gate first", "normalized"])
def test_equal_where_experts_are_tied(form: str) -> None:
    """A router of zeros: TopK takes the first experts."""
    model, feeds = with_rounded_weights(block(0, _FORMS[form]), 4), {"x": values(5)}
    result = quantized(scans(_FORMS[form], scale=0))
    assert count(result) == 1
    actual, expected = run(result, feeds)[0], run(model, feeds)[0]
    assert np.abs(actual - expected).max() <= 0.02 * np.abs(expected).max()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("weights = Softmax(p)", "weights = Identity(p)"),  # may be negative
        ("weights = Softmax(p)", "m = Softmax(p) weights = Neg(m)"),
        ("weights = Softmax(p)", "m = Softmax(p) weights = Sub(m, p)"),
        ("h = Mul(silu, b)", "h = Mul(silu, s)"),  # one of both parts
        ("h = Mul(silu, b)", "c = Tanh(b) h = Mul(silu, c)"),
        ("h = Mul(silu, b)", "h = Add(silu, b)"),
        ("weighted = Mul(q2, factor)", "weighted = Add(q2, factor)"),
    ],
)
def test_other_blocks_stay(old: str, new: str) -> None:
    assert old in _BLOCK
    model = scans(_BLOCK.replace(old, new))
    assert "Scan" in {node.op_type for node in model.graph.node}
    assert count(quantized(model)) == 0


def test_limits_that_are_computed_stay() -> None:
    replacements = {
        "float[t,160] x": "float[t,160] x, float most",
        "float most = {0.5}, ": "",
        "z = Clip(b, least, most)": "z = Identity(b)",
    }
    text = _FORMS["in turns, with limits"]
    for old, new in replacements.items():
        assert old in text
        text = text.replace(old, new)
    assert count(quantized(scans(text))) == 0


def test_weights_that_are_not_finite_stay() -> None:
    model = scans()
    for tensor in model.graph.initializer:
        if len(tensor.dims) == 3:
            array = numpy_helper.to_array(tensor).copy()
            array[0, 0, 0] = np.inf
            tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
    assert count(quantized(model)) == 0
