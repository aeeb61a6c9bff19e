import numpy as np
import onnx

from tests.support import parse
from xoptim.validate import ValidationOptions, validate


def _model(nodes: str) -> onnx.ModelProto:
    """A model with random weights ``w`` of a convolution, with as many channels as results have."""
    text = f"g (float[N,8,4] x) => (float[N,32] y) <int64[2] s = {{-1, 32}}, float c = {{0.3}}> {{ {nodes} }}"
    model = parse(text, 21)
    weights = np.random.default_rng(0).standard_normal((8, 8, 1)).astype(np.float32)
    model.graph.initializer.append(onnx.numpy_helper.from_array(weights, "w"))
    return model


def test_fused_kernels_may_round_where_rewrites_are_exact() -> None:
    """Only one of the models has a Conv and a Mul that onnxruntime merges."""
    before = _model("m = Conv(x, w) r = Reshape(m, s) y = Mul(r, c)")
    after = _model("m = Conv(x, w) a = Mul(m, c) y = Reshape(a, s)")
    report = validate(before, after, ValidationOptions(exactness="exact"))
    assert report.ok, report.reason


def test_optimizations_that_end_the_process_are_left_out() -> None:
    """onnxruntime crashes while it transposes the first operand of a MatMul in float16; without it, this test ends pytest."""
    signature = "g (float16[t,b,2] x) => (float16[b,t,2] y) <float16[2,2] w = {15360, 14336, 49152, 16896}>"
    before = parse(f"{signature} {{ z = Transpose <perm = [1, 0, 2]> (x) y = MatMul(z, w) }}", 13)
    after = parse(f"{signature} {{ z = MatMul(x, w) y = Transpose <perm = [1, 0, 2]> (z) }}", 13)
    assert validate(before, after).ok
