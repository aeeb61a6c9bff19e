"""Constants that are stored in lower precision, whatever reads them."""

from collections.abc import Mapping
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import xoptim
from tests.share import is_whole
from tests.support import parse, run, values_in
from xoptim.engine.options import OptimizationOptions
from xoptim.facts.protos import inner_graphs
from xoptim.optimizing.plans import Plan
from xoptim.optimizing.verified import optimize_verified
from xoptim.precision import attempts, times
from xoptim.precision.large_constants import float32_bytes, large_constants
from xoptim.precision.options import PrecisionOptions
from xoptim.precision.quantize import before_quantization, quantize
from xoptim.precision.quantized import Quantized

Feeds = dict[str, np.ndarray]


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (attempts, times):
        monkeypatch.setattr(module, "_SECONDS", 0.0)


def quantized(model: onnx.ModelProto, feeds: list[Feeds], **options: Any) -> Quantized:
    """A quantized model, as the command makes it."""
    how, chosen = Plan(), OptimizationOptions()
    precision = PrecisionOptions(feeds=feeds, **options)
    return quantize(
        optimize_verified(model, before_quantization(chosen), how), chosen, how, precision
    )


def with_weights(text: str, weights: Mapping[str, np.ndarray], opset: int = 17) -> onnx.ModelProto:
    """A model of a text, with further constants."""
    model = parse(text, opset)
    model.graph.initializer.extend(
        numpy_helper.from_array(array, name) for name, array in weights.items()
    )
    return model


def normal(seed: int, *shape: int) -> np.ndarray:
    """Numbers of a normal distribution."""
    found: np.ndarray = (np.random.default_rng(seed).standard_normal(shape) / 8).astype(np.float32)
    return found


def one_sensitive(opset: int = 13) -> tuple[onnx.ModelProto, list[Feeds]]:
    """Four MatMuls.

    The result of one of them decides about signs, so that its weights stay in float32.
    """
    weights = {name: normal(place, 64, 64) for place, name in enumerate(("w1", "w2", "w3", "w4"))}
    model = with_weights(
        "agraph (float[n,64] x) => (float[n,64] y1, float[n,64] y2) { a = MatMul(x, w1) "
        "b = Tanh(a) y1 = MatMul(b, w2) s = MatMul(x, w3) g = Sign(s) c = MatMul(b, w4) "
        "y2 = Mul(c, g) }",
        weights,
        opset,
    )
    return model, [{"x": 8 * normal(seed, 64, 64)} for seed in range(10, 14)]


@pytest.mark.parametrize("tolerance", [0.002, 0.01, 0.1])
@pytest.mark.parametrize("scheme", ["int8", "int4", "float16"])
def test_one_sensitive_weight_stays_alone(scheme: str, tolerance: float) -> None:
    model, feeds = one_sensitive()
    sizes = {}
    for goal in ("size", "speed"):
        found = quantized(model, feeds, scheme=scheme, tolerance=tolerance, goal=goal)
        assert not found.fault
        assert in_float32(found.verified.proto) == {"w3"}
        sizes[goal] = found.verified.proto.ByteSize()
    assert sizes["size"] <= sizes["speed"] < 0.7 * model.ByteSize()


def in_float32(model: onnx.ModelProto) -> set[str]:
    """The large constants that are stored in float32."""
    return {name for name, each in large_constants(model).items() if each.bits == 32}


WHOLE = is_whole("xoptim/precision")
READERS = {
    "MatMul": ("float[2,40,64] x", "y = MatMul(x, w)", (64, 48)),
    "MatMul of a constant on the left": ("float[2,64,40] x", "y = MatMul(w, x)", (48, 64)),
    "MatMul of batches": ("float[4,8,64] x", "y = MatMul(x, w)", (4, 64, 32)),
    "Gemm": ("float[8,64] x", "y = Gemm <transB = 1> (x, w)", (48, 64)),
    "Einsum": ("float[2,40,64] x", 'y = Einsum <equation = "bsi,ij->bsj"> (x, w)', (64, 48)),
    "Conv": ("float[1,16,8,8] x", "y = Conv(x, w)", (32, 16, 3, 3)),
    "Conv of one dimension": ("float[1,32,20] x", "y = Conv(x, w)", (16, 32, 5)),
    "ConvTranspose": ("float[1,16,8,8] x", "y = ConvTranspose(x, w)", (16, 32, 3, 3)),
    "LSTM": ("float[5,2,64] x", "z, y = LSTM <hidden_size = 32> (x, w, r)", (1, 128, 64)),
    "GRU": ("float[5,2,64] x", "z, y = GRU <hidden_size = 32> (x, w, r)", (1, 96, 64)),
    "RNN": ("float[5,2,64] x", "z, y = RNN <hidden_size = 64> (x, w, r)", (1, 64, 64)),
    "Gather": ("int64[5] i", "y = Gather(w, i)", (300, 32)),
    "GatherND": ("int64[5,1] i", "y = GatherND(w, i)", (200, 32)),
    "Add": ("float[2,40,64] x", "y = Add(x, w)", (40, 64)),
    "Mul": ("float[2,40,64] x", "y = Mul(x, w)", (40, 64)),
    "Where": ("float[2,40,64] x, bool[1] c", "y = Where(c, x, w)", (40, 64)),
    "Concat": ("float[2,40,64] x", "y = Concat <axis = 1> (w, x)", (2, 24, 64)),
}
"""For each operator: the inputs of a model, its nodes, and the shape of the constant ``w``."""


def reading(name: str) -> tuple[onnx.ModelProto, list[Feeds]]:
    """A model of one operator that reads a large constant, and two samples."""
    inputs, nodes, shape = READERS[name]
    weights = {"w": normal(0, *shape)}
    if " r)" in nodes:
        hidden = int(nodes.partition("hidden_size = ")[2].partition(">")[0])
        weights["r"] = normal(1, 1, shape[1], hidden)
    model = with_weights(f"agraph ({inputs}) => (float y) {{ {nodes} }}", weights)
    del model.graph.output[0].type.tensor_type.shape.dim[:]
    model.graph.output[0].type.tensor_type.ClearField("shape")
    feeds = [{each.name: values(each, seed) for each in model.graph.input} for seed in (0, 1)]
    return model, feeds


def values(port: onnx.ValueInfoProto, seed: int) -> np.ndarray:
    """Numbers for an input."""
    rng = np.random.default_rng(seed)
    kind, dims = (
        port.type.tensor_type.elem_type,
        [each.dim_value for each in port.type.tensor_type.shape.dim],
    )
    if kind == TensorProto.INT64:
        return rng.integers(0, 200, dims)
    return (
        np.zeros(dims, bool)
        if kind == TensorProto.BOOL
        else rng.standard_normal(dims).astype(np.float32)
    )


@pytest.mark.parametrize("name", READERS)
def test_each_large_constant_is_reached(name: str) -> None:
    model, feeds = reading(name)
    limits = {"float16": (0.0015, 0.6), "int8": (0.1, 0.45), "int4": (0.5, 0.35)}
    for scheme, (tolerance, part) in limits.items():
        found = quantized(model, feeds, scheme=scheme, tolerance=tolerance, goal="size")
        assert not found.fault
        assert not in_float32(found.verified.proto)
        assert found.verified.proto.ByteSize() < part * model.ByteSize()
        for each in feeds:
            expected, actual = (
                run(proto, each, optimized=True)[0] for proto in (model, found.verified.proto)
            )
            assert np.abs(expected - actual).max() <= tolerance * np.abs(expected).max()


@pytest.mark.parametrize("kind", [np.float16, ml_dtypes.bfloat16])
def test_weights_of_16_bits_behind_a_cast(kind: type) -> None:
    model = with_weights(
        "agraph (float[n,64] x) => (float[n,64] y) { a = Cast <to = 1> (w) m = MatMul(x, a) "
        "b = Cast <to = 1> (v) y = Mul(m, b) }",
        {"w": normal(0, 64, 64).astype(kind), "v": normal(1, 32, 64).astype(kind)},
    )
    feeds = [{"x": normal(seed, 32, 64)} for seed in (2, 3)]
    found = quantized(model, feeds, tolerance=0.1, goal="size")
    assert not found.fault
    assert found.verified.proto.ByteSize() < 0.8 * model.ByteSize()
    kinds = [
        each.data_type
        for each in found.verified.proto.graph.initializer
        if np.prod(each.dims) >= 1024
    ]
    assert kinds == [TensorProto.INT8] * 2
    half = quantized(model, feeds, scheme="float16")
    assert (half.applied, half.verified.proto.ByteSize()) == ({}, xoptim.optimize(model).ByteSize())


def test_constants_of_subgraphs() -> None:
    """A constant of a branch, and one that a branch reads from outside."""
    branch = helper.make_graph(
        [
            helper.make_node("Mul", ["x", "inner"], ["m"]),
            helper.make_node("Add", ["m", "outer"], ["t"]),
        ],
        "then",
        [],
        [helper.make_tensor_value_info("t", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(normal(0, 32, 64), "inner")],
    )
    other = helper.make_graph(
        [helper.make_node("Sub", ["outer", "x"], ["e"])],
        "else",
        [],
        [helper.make_tensor_value_info("e", TensorProto.FLOAT, None)],
    )
    model = with_weights(
        "agraph (bool c, float[32,64] x) => (float[32,64] y) { y = Identity(x) }",
        {"outer": normal(1, 32, 64)},
    )
    node = helper.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=other)
    model.graph.node[0].CopyFrom(node)
    feeds = [
        {"x": normal(seed, 32, 64), "c": np.array(bit)} for seed, bit in ((2, True), (3, False))
    ]
    found = quantized(model, feeds, tolerance=0.1, goal="size")
    assert {*found.applied} == {"inner", "outer"}
    assert not in_float32(found.verified.proto)
    proto = found.verified.proto
    stored = [
        each
        for graph in (proto.graph, *inner_graphs(proto.graph.node))
        for each in graph.initializer
    ]
    assert sum(each.data_type == TensorProto.INT8 for each in stored) == 2
    for each in feeds:
        expected, actual = (run(proto, each)[0] for proto in (model, found.verified.proto))
        np.testing.assert_allclose(actual, expected, atol=0.02)


def test_a_table_of_16_bits_is_widened_after_it_is_read() -> None:
    model, feeds = reading("Gather")
    found = quantized(model, feeds, scheme="float16", tolerance=0.01)
    assert [node.op_type for node in found.verified.proto.graph.node] == ["Gather", "Cast"]


def test_constants_that_stay() -> None:
    """An output, the default of an input, and the scales of a quantized operator."""
    model = with_weights(
        "agraph (float[n,2048] x, int8[2048] i, float[2048] given) "
        "=> (float[n,2048] y, float[2048] shown) <int8[2048] z> { "
        "d = DequantizeLinear <axis = 0> (i, scales) a = Add(x, d) b = Add(a, given) "
        "c = Mul(b, shown) y = Mul(c, free) }",
        {
            name: np.abs(normal(place, 2048))
            for place, name in enumerate(("scales", "given", "shown", "free"))
        },
        19,
    )
    del model.graph.initializer[0]
    assert {*large_constants(model)} == {"free"}


def test_the_summary_names_what_is_left() -> None:
    model, feeds = one_sensitive()
    found = quantized(model, feeds, scheme="float16", tolerance=0.01)
    assert found.float32_bytes == float32_bytes(found.verified.proto) == {"MatMul": 64 * 64 * 4}
    assert found.to_json()["float32_bytes"] == {"MatMul": 64 * 64 * 4}
    assert found.are_large_left
    assert found.seconds > 0


def test_int4_stays_where_computing_with_it_is_not_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (attempts, times):
        monkeypatch.setattr(module, "best_times", lambda runs, *_: [1.0, *[2.0] * (len(runs) - 1)])
    model, feeds = reading("MatMul")
    found = quantized(model, feeds, scheme="int4", tolerance=0.5)
    assert found.applied == {"y": "Int4Constants"}
    assert values_in(found.summary())[1:5] == ["0", "1", "1", "4"]


def drawn(seed: int) -> tuple[onnx.ModelProto, list[Feeds]]:
    """A network of MatMuls, tables and elementwise operators with large constants.

    Some results are signs.
    """
    rng = np.random.default_rng(seed)
    width = int(rng.choice((32, 64, 96)))
    weights, nodes, x = {"t": normal(seed, 300, width)}, ["h = Gather(t, i)"], "h"
    for place in range(int(rng.integers(2, 6))):
        kind = str(rng.choice(("MatMul", "MatMul", "MatMul", "Mul", "Add", "Sign", "Left")))
        name, y = f"w{place}", f"h{place}"
        if kind == "Sign":
            weights[name] = normal(seed + place, width, width)
            nodes += [
                f"s{place} = MatMul({x}, {name})",
                f"g{place} = Sign(s{place})",
                f"{y} = Mul({x}, g{place})",
            ]
        elif kind == "MatMul":
            weights[name] = normal(seed + place, width, width)
            nodes += [f"m{place} = MatMul({x}, {name})", f"{y} = Tanh(m{place})"]
        elif kind == "Left":
            weights[name] = normal(seed + place, 48, 48)
            nodes += [f"{y} = MatMul({name}, {x})"]
        else:
            weights[name] = 8 * normal(seed + place, 48, width)
            nodes += [f"{y} = {kind}({x}, {name})"]
        x = y
    model = with_weights(
        f"agraph (int64[48] i) => (float[48,{width}] y) {{ {' '.join(nodes)} y = Identity({x}) }}",
        weights,
    )
    return model, [{"i": rng.integers(0, 300, 48)} for _ in range(3)]


@pytest.fixture(params=["measured", "all faster", "none faster"])
def _timing(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Times as they are, or as if everything were faster or slower in lower precision."""
    factor = {"all faster": 0.5, "none faster": 2.0}.get(request.param)
    if factor is not None:
        for module in (attempts, times):
            monkeypatch.setattr(
                module, "best_times", lambda runs, *_: [1.0, *[factor] * (len(runs) - 1)]
            )


@pytest.mark.usefixtures("_timing")
@pytest.mark.parametrize("tolerance", [0.0005, 0.005, 0.02, 0.1] if WHOLE else [0.005, 0.1])
@pytest.mark.parametrize("seed", [0, 1, 2, 3] if WHOLE else [0])
def test_no_file_is_larger_than_one_with_less_freedom(seed: int, tolerance: float) -> None:
    """``--for size`` is never larger than ``--for speed``, and int8 never larger than float16."""
    model, feeds = drawn(seed)
    plain = xoptim.optimize(model).ByteSize()
    half = quantized(model, feeds, scheme="float16", tolerance=tolerance)
    for scheme in ("int8", "int4"):
        made = {
            goal: quantized(model, feeds, scheme=scheme, tolerance=tolerance, goal=goal)
            for goal in ("size", "speed")
        }
        assert not any(each.fault for each in made.values())
        sizes = {goal: each.verified.proto.ByteSize() for goal, each in made.items()}
        assert sizes["size"] <= sizes["speed"]
        if scheme == "int8":
            assert sizes["speed"] <= half.verified.proto.ByteSize() <= plain


def test_the_smallest_constants_stay_unless_the_size_counts() -> None:
    """A constant of 0.1 % of all bytes is not worth the nodes that widen it."""
    model = with_weights(
        "agraph (float[n,1024] x) => (float[n,1024] y) { a = Add(x, b) y = MatMul(a, w) }",
        {"w": normal(0, 1024, 1024), "b": normal(1, 1024)},
    )
    kept = {
        goal: in_float32(
            quantized(model, [{"x": normal(2, 2, 1024)}], tolerance=0.1, goal=goal).verified.proto
        )
        for goal in ("speed", "size")
    }
    assert "b" in kept["speed"]
    assert "b" not in kept["size"]
