"""Operators that compute in 16 bits."""

from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto

import xoptim
from tests.precision.models import convolutions, images, network, words
from tests.support import parse, run
from xoptim.engine.options import OptimizationOptions
from xoptim.optimizing.plans import Plan
from xoptim.optimizing.verified import optimize_verified
from xoptim.precision.float16_conversion import region
from xoptim.precision.options import PrecisionOptions
from xoptim.precision.quantize import quantize
from xoptim.precision.quantized import Quantized

HALF = TensorProto.FLOAT16


def quantized(
    model: onnx.ModelProto,
    *feeds: dict[str, np.ndarray],
    patterns: str | None = "default",
    **options: Any,
) -> Quantized:
    chosen, how = OptimizationOptions(patterns=patterns), Plan()
    precision = PrecisionOptions(scheme="float16", compute="float16", feeds=feeds, **options)
    return quantize(optimize_verified(model, chosen, how), chosen, how, precision)


def types(model: onnx.ModelProto) -> dict[str, int]:
    """The element types of all results, by operator and name."""
    graph = onnx.shape_inference.infer_shapes(model, strict_mode=True).graph
    known = {
        value.name: value.type.tensor_type.elem_type for value in (*graph.value_info, *graph.output)
    }
    return {f"{node.op_type} {node.output[0]}": known[node.output[0]] for node in graph.node}


def test_whole_network() -> None:
    found = quantized(network(), words(), words(seed=1), io_types="float16")
    assert not found.fault
    model = found.verified.proto
    assert set(types(model).values()) == {HALF}
    assert "Cast" not in {node.op_type for node in model.graph.node}
    assert {tensor.data_type for tensor in model.graph.initializer} <= {HALF, TensorProto.INT64}
    assert model.graph.output[0].type.tensor_type.elem_type == HALF
    assert 0 < found.error < 0.01
    assert "float16 operators" in found.computed


def test_casts_are_at_the_ends_alone() -> None:
    found = quantized(convolutions(), images())
    kinds = types(found.verified.proto)
    casts = [name for name in kinds if name.startswith("Cast")]
    assert len(casts) == 2
    assert all(kind == HALF for name, kind in kinds.items() if name not in casts)
    assert found.verified.proto.graph.output[0].type.tensor_type.elem_type == TensorProto.FLOAT


def test_error_is_the_one_of_rounded_results() -> None:
    """A processor computes operators of 16 bits in 32, so that it would show a smaller error than a
    GPU.
    """
    weights = np.full((64, 1), 1 / 64, np.float32)
    model = parse(
        "agraph (float[n,64] x) => (float[n,1] y) { p = MatMul(x, w) m = Mul(p, k) y = Sub(m, k) }"
    )
    model.graph.initializer.extend(
        [
            onnx.numpy_helper.from_array(weights, "w"),
            onnx.numpy_helper.from_array(np.float32(1000).reshape(1), "k"),
        ]
    )
    feeds = {"x": np.random.default_rng(0).uniform(0.9, 1.1, (4, 64)).astype(np.float32)}
    found = quantized(model, feeds, patterns=None, tolerance=0.9)

    def half(array: np.ndarray) -> np.ndarray:
        return array.astype(np.float16).astype(np.float32)

    expected = run(model, feeds)[0]
    rounded = half(half(half(half(feeds["x"]) @ weights) * 1000) - 1000)
    assert found.error == pytest.approx(
        np.abs(rounded - expected).max() / np.abs(expected).max(), rel=1e-3
    )


def test_numbers_out_of_range_stay_in_32_bits() -> None:
    model = parse(
        "agraph (float[n,4] x) => (float[n,4] y) <float[4,4] w = {1,0,0,0, 0,1,0,0, 0,0,1,0, "
        "0,0,0,1}, float[1] k = {300}> { a = MatMul(x, w) b = Mul(a, k) c = Mul(b, k) "
        "d = Div(c, k) e = Div(d, k) y = MatMul(e, w) }"
    )
    model.graph.initializer[0].float_data[1] = 0.5
    feeds = {"x": np.linspace(-3, 3, 8, dtype=np.float32).reshape(2, 4)}
    found = quantized(model, feeds)
    assert not found.fault
    kinds = [
        kind
        for name, kind in types(found.verified.proto).items()
        if name.startswith(("MatMul", "Mul", "Div"))
    ]
    assert HALF in kinds
    np.testing.assert_allclose(
        run(found.verified.proto, feeds)[0], run(model, feeds)[0], rtol=5e-3, atol=1e-2
    )


def test_masks_become_numbers_within_the_range() -> None:
    model = parse(
        "agraph (float[n,8] x, bool[n,8] m) "
        "=> (float[n,8] y) <float zero = {0}, float low = {-3.4e38}> { s = MatMul(x, w) "
        "k = Where(m, zero, low) t = Add(s, k) y = Softmax(t) }"
    )
    model.graph.initializer.append(
        onnx.numpy_helper.from_array(np.eye(8, dtype=np.float32) * 0.5, "w")
    )
    rng = np.random.default_rng(0)
    shown = rng.uniform(size=(3, 8)) < 0.6
    feeds: dict[str, np.ndarray] = {"x": rng.standard_normal((3, 8)).astype(np.float32), "m": shown}
    found = quantized(model, feeds)
    kinds = types(found.verified.proto)
    assert all(kind == HALF for name, kind in kinds.items() if not name.startswith("Cast"))
    actual = run(found.verified.proto, feeds)[0]
    np.testing.assert_allclose(actual, run(model, feeds)[0], atol=2e-3)
    assert (actual[~shown] == 0).all()


def test_whole_numbers_and_squares_stay_in_32_bits() -> None:
    model = parse(
        "agraph (int64[n] p, float[n,4] x) "
        "=> (float[n,4] y) <int64[1] one = {1}, float e = {0.00001}> { f = Cast <to = 1> (p) "
        "u = Unsqueeze(f, one) a = Div(u, big) h = MatMul(x, w) q = Mul(h, h) "
        "m = ReduceMean(q, one) v = Add(m, e) r = Sqrt(v) n1 = Div(h, r) y = Add(n1, a) }"
    )
    model.graph.initializer.extend(
        [
            onnx.numpy_helper.from_array(
                np.random.default_rng(0).standard_normal((4, 4)).astype(np.float32), "w"
            ),
            onnx.numpy_helper.from_array(np.array(4096, np.float32), "big"),
        ]
    )
    feeds: dict[str, np.ndarray] = {
        "p": np.arange(3),
        "x": np.random.default_rng(1).standard_normal((3, 4)).astype(np.float32),
    }
    found = quantized(model, feeds)
    kinds = {name.split()[0]: kind for name, kind in types(found.verified.proto).items()}
    assert kinds["MatMul"] == HALF
    assert kinds["Sqrt"] == kinds["ReduceMean"] == TensorProto.FLOAT
    far = {"p": np.array([4095, 4097, 8191]), "x": feeds["x"]}
    np.testing.assert_allclose(run(found.verified.proto, far)[0], run(model, far)[0], atol=5e-3)


def test_operators_are_given_back_until_the_tolerance_is_kept() -> None:
    """The difference of two large numbers loses its digits in 16 bits, so that it stays in 32."""
    model = parse(
        "agraph (float[n,8] x) => (float[n,8] y) <float[1] k = {2000}> { a = MatMul(x, w) "
        "b = Add(a, k) c = Sub(b, k) d = MatMul(c, w) t = Tanh(d) y = MatMul(t, w) }"
    )
    weights = np.random.default_rng(0).standard_normal((8, 8)).astype(np.float32)
    model.graph.initializer.append(onnx.numpy_helper.from_array(weights, "w"))
    feeds = {"x": np.random.default_rng(1).standard_normal((4, 8)).astype(np.float32)}
    found = quantized(model, feeds, patterns=None, tolerance=0.01)
    assert not found.fault
    kinds = types(found.verified.proto)
    assert kinds["Sub c"] == TensorProto.FLOAT
    assert 0 < len(found.applied) < len(found.candidates)
    assert "range" in found.summary()


def test_regions() -> None:
    model = parse(
        "agraph (float[n,4] x, float[4,4] w) => (float[n,4] y, float[n,4] z) { a = Relu(x) "
        "b = MatMul(a, w) c = Tanh(b) d = Exp(c) e = Neg(d) y = Identity(e) f = Abs(x) "
        "z = Sigmoid(f) }"
    )
    able = [node for node in model.graph.node if node.op_type != "Exp"]
    assert region(model, able, {"MatMul"}) == {"a", "b", "c"}
    assert region(model, able, {"Conv"}) == set()


def test_wrong_use() -> None:
    sums = parse("agraph (float[n] x, float[n] z) => (float[n] y) { y = Add(x, z) }")
    feeds = {"x": np.ones(2, np.float32), "z": np.ones(2, np.float32)}
    found = quantized(sums, feeds)
    assert (found.applied, found.fault) == ({}, "")
    assert "nothing can " in found.summary()
    with pytest.raises(ValueError, match="float16"):
        PrecisionOptions(scheme="bfloat16", compute="float16")
    with pytest.raises(ValueError, match="compute"):
        PrecisionOptions(scheme="float16", compute="bfloat16")  # type: ignore[arg-type]


def in_a_branch(nodes: str) -> onnx.ModelProto:
    """A model with a MatMul in a branch of an If, whose result ``t`` further nodes may read."""
    model = parse(f"agraph (float[n,8] x, bool c) => (float[n,8] y) {{ t = Identity(x) {nodes} }}")
    ends = [
        onnx.helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("a", "b")
    ]
    branches = [
        onnx.helper.make_graph([onnx.helper.make_node("Neg", ["x"], ["a"])], "else", [], ends[:1]),
        onnx.helper.make_graph(
            [onnx.helper.make_node("MatMul", ["x", "w"], ["b"])], "then", [], ends[1:]
        ),
    ]
    node = onnx.helper.make_node(
        "If", ["c"], ["t"], else_branch=branches[0], then_branch=branches[1]
    )
    model.graph.node[0].CopyFrom(node)
    weights = (np.random.default_rng(0).standard_normal((8, 8)) / 4).astype(np.float32)
    model.graph.initializer.append(onnx.numpy_helper.from_array(weights, "w"))
    return model


@pytest.mark.parametrize(
    ("nodes", "is_alone"), [("y = Tanh(t)", True), ("y = MatMul(t, w)", False)]
)
def test_operators_of_branches_are_named(nodes: str, is_alone: bool) -> None:
    feeds = {
        "x": np.random.default_rng(1).standard_normal((4, 8)).astype(np.float32),
        "c": np.array(True),
    }
    found = quantized(in_a_branch(nodes), feeds)
    assert found.fault == ""
    assert (found.reason if is_alone else found.inner).startswith("1 MatMul in If ")
    assert (found.applied == {}) == is_alone


def test_from_python() -> None:
    precision = PrecisionOptions(
        scheme="float16", compute="float16", io_types="float16", feeds=[words()]
    )
    found = xoptim.optimize(network(), precision=precision)
    assert found.graph.output[0].type.tensor_type.elem_type == HALF


def test_auto_is_for_gpus() -> None:
    plain = PrecisionOptions(scheme="float16")
    assert (plain.computes_in_float16("cuda"), plain.computes_in_float16("cpu")) == (True, False)
    assert replace(plain, compute="float16").computes_in_float16("cpu")
    assert not replace(plain, compute="float32").computes_in_float16("cuda")
    assert not PrecisionOptions(scheme="int8").computes_in_float16("cuda")


@pytest.mark.parametrize(
    "transposed",
    ["t = Transpose <perm = [1, 0, 2]> (x)", "t = Transpose <perm = [1, 2, 0, 3]> (x)"],
)
def test_onnxruntime_loads_a_matmul_by_transposed_rows(transposed: str) -> None:
    """It would die of a Transpose of 16 bits that moves the first axis, where a constant is
    multiplied after it.
    """
    dims, result = ("a,b,64", "b,a,8") if "3" not in transposed else ("c,a,b,64", "a,b,c,8")
    model = parse(
        f"agraph (float[{dims}] x, float[64,8] w) => (float[{result}] y) {{ {transposed} "
        "y = MatMul(t, w) }",
        17,
    )
    weight = np.random.default_rng(0).normal(size=(64, 8)).astype(np.float32)
    model.graph.initializer.append(onnx.numpy_helper.from_array(weight, "w"))
    del model.graph.input[1:]
    x = (
        np.random.default_rng(1)
        .normal(size=[3, 2, 5, 64][-dims.count(",") - 1 :])
        .astype(np.float32)
    )
    found = quantized(model, {"x": x}, io_types="float16")
    assert [node.op_type for node in found.verified.proto.graph.node] == ["MatMul", "Transpose"]
    (expected,) = run(model, {"x": x})
    (y,) = run(found.verified.proto, {"x": x.astype(np.float16)})
    np.testing.assert_allclose(y, expected, atol=0.05)


@pytest.mark.parametrize(("everywhere", "kind"), [(False, TensorProto.FLOAT), (True, HALF)])
def test_everywhere(everywhere: bool, kind: int) -> None:
    """A table that a square reads is in 16 bits only where operators go along that save no
    conversion.
    """
    text = (
        "agraph (int64[2,3] i) => (float[2,3,4] y) <float[5,4] t, float[4,4] w> "
        "{ e = Gather(t, i) s = Mul(e, e) d = Sqrt(s) p = Div(e, d) y = MatMul(p, w) }"
    )
    rng = np.random.default_rng(0)
    model = parse(text.replace(" <float[5,4] t, float[4,4] w>", ""), opset=18)
    numbers = {"t": rng.uniform(1, 2, (5, 4)), "w": rng.normal(size=(4, 4))}
    tensors = [
        onnx.numpy_helper.from_array(value.astype(np.float32), name)
        for name, value in numbers.items()
    ]
    model.graph.initializer.extend(tensors)
    found = quantized(model, {"i": np.array([[0, 1, 2], [3, 4, 0]])}, everywhere=everywhere)
    table = next(
        each for each in found.verified.proto.graph.node if each.op_type == "Gather"
    ).input[0]
    kinds = {tensor.name: tensor.data_type for tensor in found.verified.proto.graph.initializer}
    assert kinds[table] == kind
