"""Regions evaluated in one session of onnxruntime: the bits of the model, or a reason."""

from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from tests.support import run
from xoptim.operators.evaluate.regions import Computed, evaluate_with_onnxruntime

Array = np.ndarray[Any, Any]


def same_bits(a: Array, b: Array) -> bool:
    return bool(a.dtype == b.dtype) and a.shape == b.shape and a.tobytes() == b.tobytes()


def region(text: str) -> onnx.GraphProto:
    return onnx.parser.parse_graph(text)


def function(text: str) -> onnx.FunctionProto:
    return onnx.parser.parse_function('<opset_import: ["" : 18], domain: "local"> ' + text)


@pytest.mark.parametrize("stored", [True, False])
def test_region_matches_the_model_in_full(stored: bool) -> None:
    """Products with stored and with computed matrices add up differently.

    The region follows the model.
    """
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(shape).astype(np.float32) for shape in ((7, 512), (512, 512)))
    graph = region("g () => (float[7, 512] y) { t = MatMul(a, b) y = Tanh(t) }")
    model = helper.make_model(
        onnx.GraphProto(name="g", node=graph.node, output=graph.output), ir_version=8
    )
    model.opset_import[0].version = 18
    kept = {"a": a, "b": b} if stored else {"a": a, "bt": b.T.copy()}
    model.graph.initializer.extend(
        numpy_helper.from_array(value, name) for name, value in kept.items()
    )
    if not stored:
        model.graph.node.insert(0, helper.make_node("Transpose", ["bt"], ["b"]))
    feeds = {"a": a, "b": b if stored else Computed(b)}
    result = evaluate_with_onnxruntime(graph.node, feeds, ["y"], {"": 18}, 8)
    assert result.values is not None
    assert same_bits(result.values["y"], run(model, {})[0])


@pytest.mark.parametrize("stored", [True, False])
@pytest.mark.parametrize(
    "dtype", [ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, np.float16, np.bool_, np.uint16]
)
def test_region_keeps_bits_of_every_dtype(dtype: Any, stored: bool) -> None:
    x = np.arange(6).astype(dtype).reshape(2, 3)
    nodes = [helper.make_node("Identity", ["x"], ["y"])]
    feeds = {"x": x if stored else Computed(x), "unused": x}
    result = evaluate_with_onnxruntime(nodes, feeds, ["y"], {"": 21}, 10)
    assert result.values is not None
    assert same_bits(result.values["y"], x)


def test_region_unpacks_int4() -> None:
    x = np.array([-8, 7, 3], ml_dtypes.int4)
    nodes = [
        helper.make_node("Cast", ["x"], ["wide"], to=onnx.TensorProto.INT8),
        helper.make_node("Cast", ["wide"], ["y"], to=onnx.TensorProto.INT4),
    ]
    result = evaluate_with_onnxruntime(nodes, {"x": x}, ["wide", "y"], {"": 21}, 10)
    assert result.values is not None
    assert result.values["wide"].tolist() == [-8, 7, 3]
    assert same_bits(result.values["y"], x)


def test_region_takes_text_and_empty_tensors() -> None:
    nodes = [
        helper.make_node("Concat", ["s", "s"], ["t"], axis=0),
        helper.make_node("Concat", ["e", "e"], ["f"], axis=0),
    ]
    feeds = {"s": np.array(["a", "b"], dtype=object), "e": np.zeros((0, 2), np.float32)}
    result = evaluate_with_onnxruntime(nodes, feeds, ["t", "f"], {"": 18}, 8)
    assert result.values is not None
    assert result.values["t"].tolist() == ["a", "b", "a", "b"]
    assert result.values["f"].shape == (0, 2)


def test_region_with_subgraph_and_function() -> None:
    branch = region("then () => (y) { y = local.twice(x) }")
    other = region("other () => (y) { y = Identity(x) }")
    nodes = [helper.make_node("If", ["c"], ["r"], then_branch=branch, else_branch=other)]
    twice = function("twice (a) => (b) { b = Add(a, a) }")
    halved = function("half (a, b) => (c) { c = Div(a, b) }")
    feeds = {"c": np.array(True), "x": np.array([1.0, 2.0], np.float32)}
    result = evaluate_with_onnxruntime(
        nodes, feeds, ["r"], {"": 18, "local": 1}, 8, [twice, halved]
    )
    assert result.values is not None
    assert result.values["r"].tolist() == [2, 4]


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("g () => (y) { y = Relu(nothing) }", "nothing"),
        ("g () => (y) { y = unheard.Of(x) }", "unheard"),
        ("g () => (y) { y = SequenceConstruct(x) }", "not a tensor"),
        ("g () => (y) { y = Gather(x, far) }", "indices"),
    ],
)
def test_region_reports_why_it_failed(
    text: str, part: str, capfd: pytest.CaptureFixture[str]
) -> None:
    feeds = {"x": np.ones(3, np.float32), "far": np.array([5])}
    result = evaluate_with_onnxruntime(region(text).node, feeds, ["y"], {"": 18, "unheard": 1}, 8)
    assert result.values is None
    assert part in result.reason
    assert "\n" not in result.reason
    captured = capfd.readouterr()
    assert (captured.out, captured.err) == ("", "")


@pytest.mark.parametrize(
    ("text", "runs"),
    [
        ("g () => (y) { y = Div(n, one) }", True),
        ("g () => (y) { y = Div(n, minus) }", False),
        ("g () => (y) { t = Neg(one) y = Div(n, t) }", False),
        ("g () => (y) { y = Mod(n, zero) }", False),
        ("g () => (y) { t = Exp(x) y = Div(x, t) }", True),
        ("g () => (y) { t = Exp(x) u = Sqrt(t) y = Div(t, u) }", True),
        ("g () => (y) { y = local.ratio(n, minus) }", False),
    ],
)
def test_region_never_divides_integers_blindly(text: str, runs: bool) -> None:
    """Such a division would end the process, this test included."""
    feeds = {
        "n": np.array([-(2**63)]),
        "one": np.array([1]),
        "minus": np.array([-1]),
        "zero": np.array([0]),
        "x": np.ones(1, np.float32),
    }
    ratio = function("ratio (a, b) => (c) { c = Div(a, b) }")
    result = evaluate_with_onnxruntime(
        region(text).node, feeds, ["y"], {"": 18, "local": 1}, 8, [ratio]
    )
    assert (result.values is not None) == runs
    assert runs or "divi" in result.reason


@pytest.mark.parametrize(
    ("call", "runs"),
    [
        ('y = Einsum <equation = "ab,ab->a"> (x, x)', True),
        ('y = Einsum <equation = "ab,ab->a"> (none, none)', False),
        ('t = Slice (x, one, one) y = Einsum <equation = "ab->a"> (t)', False),
        ('t = Neg (x) y = Einsum <equation = "ab->a"> (t)', True),
        ("y = Unique <axis = 1> (none)", False),
        ("y = InstanceNormalization (image, scale, scale)", False),
        ("y = local.distinct (none)", False),
    ],
)
def test_region_never_reads_nothing_where_that_ends_the_process(call: str, runs: bool) -> None:
    """The kernels would end the process, this test included."""
    feeds = {
        "x": np.ones((2, 3), np.float32),
        "none": np.ones((5, 0), np.float32),
        "image": np.ones((2, 1, 0, 1), np.float32),
        "scale": np.ones(1, np.float32),
        "one": np.array([1]),
    }
    distinct = function("distinct (a) => (b) { b = Unique <axis = 1> (a) }")
    result = evaluate_with_onnxruntime(
        region(f"g () => (y) {{ {call} }}").node, feeds, ["y"], {"": 18, "local": 1}, 8, [distinct]
    )
    assert (result.values is not None) == runs
    assert runs or "elements" in result.reason
