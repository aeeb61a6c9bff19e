"""A scan over time that an exporter unrolled, as torch writes that of Mamba."""

import numpy as np
import onnx
import pytest

from tests.support import parse, run, types
from xoptim import optimize


def unrolled(steps: int, channels: int = 64, states: int = 4) -> onnx.ModelProto:
    """The scan h = exp(A · t) · h + t · b · x with the results h · c, each stacked as the last
    axis.
    """
    places = ", ".join(f"int64 i{k} = {{{k}}}" for k in range(steps))
    body = " ".join(
        f"e{k} = Gather <axis = 2> (e, i{k}) q{k} = Gather <axis = 2> (q, i{k}) "
        f"g{k} = Gather <axis = 1> (c, i{k}) m{k} = Mul(e{k}, h{k}) h{k + 1} = Add(m{k}, q{k}) "
        f"v{k} = Unsqueeze(g{k}, two) p{k} = MatMul(h{k + 1}, v{k}) s{k} = Squeeze(p{k}, two) "
        f"y{k} = Unsqueeze(s{k}, two)"
        for k in range(steps)
    )
    stacked = ", ".join(f"y{k}" for k in range(steps))
    model = parse(
        f"agraph (float[n,{steps},{channels}] t0, float[n,{steps},{channels}] x0, "
        f"float[n,{steps},{states}] b, float[n,{steps},{states}] c) "
        f"=> (float[n,{steps},{channels}] y) <{places}, float h0 = {{0}}, int64[1] one = {{1}}, "
        "int64[1] two = {2}, int64[1] three = {3}> { t = Transpose <perm = [0, 2, 1]> (t0) "
        "x = Transpose <perm = [0, 2, 1]> (x0) u = Unsqueeze(t, three) a = Mul(A, u) e = Exp(a) "
        f"w = Unsqueeze(b, one) d = Mul(u, w) z = Unsqueeze(x, three) q = Mul(d, z) {body} "
        f"j = Concat <axis = -1> ({stacked}) y = Transpose <perm = [0, 2, 1]> (j) }}"
    )
    rates = -np.random.default_rng(1).random((1, channels, 1, states)).astype(np.float32)
    model.graph.initializer.append(onnx.numpy_helper.from_array(rates, "A"))
    return model


@pytest.mark.parametrize("steps", [4, pytest.param(64, marks=pytest.mark.slow)])
def test_a_scan_is_taken_apart_once(steps: int) -> None:
    before = unrolled(steps)
    after = optimize(before, strict=True)
    found = types(after)
    assert "Gather" not in found
    assert "Transpose" not in found
    assert found.count("Split") == 3
    assert found.count("Squeeze") == 1
    assert found.count("MatMul") == steps
    random = np.random.default_rng(0)
    feeds = {
        value.name: random.random(
            [2, *(d.dim_value for d in value.type.tensor_type.shape.dim[1:])], dtype=np.float32
        )
        for value in before.graph.input
    }
    np.testing.assert_allclose(run(after, feeds)[0], run(before, feeds)[0], rtol=1e-4, atol=1e-5)


def test_the_channels_come_last() -> None:
    """Operators that broadcast take one step for each run of elements: one of all channels instead
    of one of a few states.
    """
    after = onnx.shape_inference.infer_shapes(optimize(unrolled(4), strict=True))
    exponential = next(node for node in after.graph.node if node.op_type == "Exp")
    shapes = {
        v.name: [d.dim_value for d in v.type.tensor_type.shape.dim] for v in after.graph.value_info
    }
    assert shapes[exponential.output[0]][1:] == [4, 4, 64]
