"""The integers of weights, chosen by the error on samples."""

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from tests.precision.test_error_feedback import correlated
from tests.precision.test_weight_only import quantized, with_weights
from tests.share import is_whole
from tests.support import run
from xoptim.match.block_rounding import (
    BlockFormat,
    Blocks,
    RoundedWeights,
    WeightKey,
    nearest_blocks,
)
from xoptim.match.quantization import Observed
from xoptim.precision import attempts, block_preprocessing, moments, times
from xoptim.precision.block_search import searched_blocks
from xoptim.precision.error_feedback import curvature_of, feedback_blocks
from xoptim.precision.fake_quantization import fake_quantized
from xoptim.precision.schemes import quantization_patterns
from xoptim.precision.weight_rounding import rounded_weights
from xoptim.verification.runs.session_settings import SessionSettings

WHOLE = is_whole("xoptim/precision")
FORM = BlockFormat()
MATMULS = ("MatMul", "Gemm", "FusedMatMul")
Feeds = dict[str, np.ndarray]


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (attempts, times):
        monkeypatch.setattr(module, "_SECONDS", 0.0)


def drawn(rows: int, columns: int, seed: int = 0) -> np.ndarray:
    """Weights of a normal distribution."""
    rng = np.random.default_rng(seed)
    weights: np.ndarray = (rng.standard_normal((rows, columns)) / 8).astype(np.float32)
    return weights


def samples(count: int = 2, names: Sequence[str] = ("x",), rows: int = 64) -> list[Feeds]:
    """Correlated activations."""
    return [
        {
            name: correlated(rows, 200, 10 * seed + index).astype(np.float32)
            for index, name in enumerate(names)
        }
        for seed in range(count)
    ]


def blocks_of(
    model: onnx.ModelProto, feeds: Sequence[Feeds], op_types: Sequence[str] = MATMULS
) -> dict[WeightKey, Blocks]:
    """The integers of all weights of a model."""
    settings = SessionSettings(level="all")
    return {**rounded_weights(model, None, FORM, op_types, feeds, settings).blocks}


def assert_same(one: Blocks, other: Blocks | None) -> None:
    """Assert that two matrices have the same integers, scales and zero points."""
    assert other is not None
    for left, right in zip(one, other, strict=True):
        np.testing.assert_array_equal(left, right)


def feedback(matrix: np.ndarray, *activations: np.ndarray) -> Blocks | None:
    """The integers that error feedback finds for activations of any number of samples."""
    rows = [sample.astype(np.float64) for sample in activations]
    hessian = sum((sample.T @ sample for sample in rows), np.zeros((len(matrix), len(matrix))))
    curvature = curvature_of(hessian, sum(map(len, rows)))
    return None if curvature is None else feedback_blocks(matrix, curvature, FORM)


READERS = {
    "MatMul": ("y = MatMul(x, w)", ("w", False), (64, 40)),
    "Gemm": ("y = Gemm <transB = 1> (x, w)", ("w", True), (40, 64)),
    "Gemm of a sum": ("b = Abs(x) y = Gemm(x, w)", ("w", False), (64, 40)),
    "transposed": ("t = Transpose(w) y = MatMul(x, t)", ("w", True), (40, 64)),
    "transposed twice": (
        "t = Transpose <perm = [1, 0]> (w) y = Gemm <transB = 1> (x, t)",
        ("w", False),
        (64, 40),
    ),
}
"""For each form of a MatMul: the nodes, the key of the weights, and their shape."""


@pytest.mark.parametrize("form", READERS)
def test_weights_are_rounded_by_their_activations(form: str) -> None:
    nodes, key, shape = READERS[form]
    weights = drawn(*shape)
    model = with_weights(
        f"agraph (float[n,64] x) => (float[n,40] y) {{ {nodes} }}", {"w": weights}, 21
    )
    feeds = samples()
    blocks = blocks_of(model, feeds)
    assert [*blocks] == [key]
    matrix = weights.T if key[1] else weights
    assert_same(blocks[key], feedback(matrix, *(sample["x"] for sample in feeds)))


def test_shared_weights_have_the_hessians_of_all_activations() -> None:
    model = with_weights(
        "agraph (float[n,64] a, float[n,64] b) => (float[n,40] y) "
        "{ c = MatMul(a, w) d = MatMul(b, w) y = Add(c, d) }",
        {"w": drawn(64, 40)},
        21,
    )
    feeds = samples(2, "ab")
    blocks = blocks_of(model, feeds)
    activations = [sample[name] for sample in feeds for name in "ab"]
    assert_same(blocks["w", False], feedback(drawn(64, 40), *activations))


def test_weights_that_are_read_in_both_directions() -> None:
    model = with_weights(
        "agraph (float[n,64] x) => (float[n,64] y) { a = MatMul(x, w) t = Transpose(w) "
        "y = MatMul(a, t) }",
        {"w": drawn(64, 96)},
        21,
    )
    blocks = blocks_of(model, samples())
    assert {key: rounded.integers.shape for key, rounded in blocks.items()} == {
        ("w", False): (64, 96),
        ("w", True): (96, 64),
    }


def test_weights_of_16_bits_that_a_cast_widens() -> None:
    weights = drawn(64, 40).astype(ml_dtypes.bfloat16)
    model = with_weights(
        "agraph (float[n,64] x) => (float[n,40] y) { f = Cast <to = 1> (w) y = MatMul(x, f) }",
        {"w": weights},
        21,
    )
    feeds = samples()
    blocks = blocks_of(model, feeds)
    expected = feedback(weights.astype(np.float32), *(sample["x"] for sample in feeds))
    assert_same(blocks["f", False], expected)


def test_subgraphs_that_multiply_a_tensor_of_the_main_graph() -> None:
    model = with_weights(
        "agraph (bool c, float[n,64] x) => (float[n,40] y) { y = If (c) <then_branch = "
        "g () => (float[n,40] p) { p = MatMul(x, w) }, else_branch = "
        "h () => (float[n,40] q) { r = MatMul(x, w) q = Abs(r) }> }",
        {"w": drawn(64, 40)},
        21,
    )
    feeds = [{"c": np.array(True), **sample} for sample in samples()]
    blocks = blocks_of(model, feeds)
    assert_same(blocks["w", False], feedback(drawn(64, 40), *(sample["x"] for sample in feeds)))


def test_without_samples_weights_are_rounded_to_nearest() -> None:
    """Searched scales do not make the error of outputs smaller by themselves."""
    model, _ = one_matmul()
    assert not blocks_of(model, [])


def test_large_weights_have_no_hessian(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moments, "_MAX_ROWS", 32)
    model, weights = one_matmul()
    feeds = samples()
    squares = sum(np.square(sample["x"].astype(np.float64)).sum(axis=0) for sample in feeds)
    expected = searched_blocks(weights, FORM, np.asarray(squares))
    assert_same(blocks_of(model, feeds)["w", False], expected)


def test_hessians_are_collected_in_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    weights = {f"w{index}": drawn(64, 64, index) for index in range(3)}
    model = with_weights(
        "agraph (float[n,64] x) => (float[n,64] y) { a = MatMul(x, w0) b = Tanh(a) "
        "c = MatMul(b, w1) d = Tanh(c) y = MatMul(d, w2) }",
        weights,
        21,
    )
    together = blocks_of(model, samples())
    monkeypatch.setattr(moments, "_MAX_HESSIAN_BYTES", 1)
    alone = blocks_of(model, samples())
    assert together.keys() == alone.keys() == {(name, False) for name in weights}
    for key, blocks in together.items():
        assert_same(blocks, alone[key])


@pytest.mark.parametrize("number", [np.nan, np.inf, 2.0**120])
def test_activations_that_are_not_finite_tell_nothing(number: float) -> None:
    model, weights = one_matmul()
    feeds = samples()
    feeds[1]["x"][3, 5] = number
    assert_same(blocks_of(model, feeds)["w", False], searched_blocks(weights, FORM))


def test_no_rows_tell_nothing() -> None:
    model, weights = one_matmul()
    feeds = [{"x": np.zeros((0, 64), np.float32)}]
    assert_same(blocks_of(model, feeds)["w", False], searched_blocks(weights, FORM))


def test_zero_activations_leave_the_search() -> None:
    model, weights = one_matmul()
    feeds = [{"x": np.zeros((4, 64), np.float32)}]
    blocks = blocks_of(model, feeds)["w", False]
    assert_same(blocks, nearest_blocks(weights, FORM))  # all have the same error, which is 0


@pytest.mark.parametrize(
    "weights", [drawn(48, 40), np.full((64, 40), np.inf, np.float32), drawn(64, 40)[None]]
)
def test_weights_that_no_pattern_quantizes(weights: np.ndarray) -> None:
    rows = weights.shape[-2]
    model = with_weights(
        f"agraph (float[n,n,{rows}] x) => (float[n,n,40] y) {{ y = MatMul(x, w) }}",
        {"w": weights},
        21,
    )
    assert not blocks_of(model, [{"x": np.zeros((1, 1, rows), np.float32)}])


def one_matmul() -> tuple[onnx.ModelProto, np.ndarray]:
    """A model of one MatMul, and its weights."""
    weights = drawn(64, 40)
    text = "agraph (float[n,64] x) => (float[n,40] y) { y = MatMul(x, w) }"
    return with_weights(text, {"w": weights}, 21), weights


def layers(count: int = 3, width: int = 128) -> onnx.ModelProto:
    """MatMuls with Tanh between them."""
    names = [f"w{index}" for index in range(count)]
    nodes = " ".join(
        f"a{i} = MatMul(t{i}, {name}) t{i + 1} = Tanh(a{i})" for i, name in enumerate(names)
    )
    text = (
        f"agraph (float[n,{width}] t0) => (float[n,{width}] y) {{ {nodes} y = Identity(t{count}) }}"
    )
    return with_weights(text, {name: drawn(width, width, i) for i, name in enumerate(names)}, 21)


def fake(model: onnx.ModelProto, rounded: RoundedWeights, selection: Any = None) -> onnx.ModelProto:
    """The model with all weights quantized."""
    patterns = quantization_patterns("int4", selection)
    made, applied = fake_quantized(model, None, patterns, None, "cpu", Observed(rounded=rounded))
    assert applied
    return made


def test_correlated_samples_have_a_smaller_error_at_the_same_size() -> None:
    model, feeds = layers(), samples(8, ["t0"], 128)
    chosen, held_out = feeds[:4], feeds[4:]
    searched = rounded_weights(model, None, FORM, MATMULS, chosen, SessionSettings(level="all"))
    errors, sizes = [], []
    for rounded in (RoundedWeights(), searched):
        four = fake(model, rounded)
        differences = [run(four, sample)[0] - run(model, sample)[0] for sample in held_out]
        errors.append(float(np.sqrt(np.mean(np.square(differences)))))
        sizes.append(four.ByteSize())
    assert sizes[0] == sizes[1]
    assert errors[1] < 0.7 * errors[0]


def test_both_forms_have_the_same_integers() -> None:
    model = layers(1, 64)
    rounded = rounded_weights(
        model, None, FORM, MATMULS, samples(2, ["t0"]), SessionSettings(level="all")
    )
    standard, contrib = (
        fake(model, rounded, selection) for selection in (None, "default+onnxruntime")
    )
    blocks = rounded.blocks["w0", False]
    by_dtype = {
        tensor.data_type: numpy_helper.to_array(tensor)
        for tensor in standard.graph.initializer
        if tensor.data_type == onnx.TensorProto.UINT4 and tensor.dims[0] == 64
    }
    integers = by_dtype[onnx.TensorProto.UINT4].astype(np.uint8)
    np.testing.assert_array_equal(integers, blocks.integers)
    packed = next(
        numpy_helper.to_array(tensor)
        for tensor in contrib.graph.initializer
        if len(tensor.dims) == 3
    ).reshape(64, 32)
    both = np.stack([packed & 15, packed >> 4], axis=-1).reshape(64, 64)
    np.testing.assert_array_equal(both.T, blocks.integers)


@pytest.mark.parametrize("size", [16, 32, 64, 128] if WHOLE else [16, 128])
@pytest.mark.parametrize("bits", range(2, 9) if WHOLE else (2, 3, 4, 6))
@pytest.mark.parametrize("selection", [None, "default+onnxruntime"])
def test_any_number_of_bits_and_rows(bits: int, size: int, selection: str | None) -> None:
    form, weights, table = BlockFormat(bits, size), drawn(128, 40), drawn(256, 128)
    model = with_weights(
        "agraph (int64[n] i) => (float[n,40] y) { x = Gather(t, i) y = MatMul(x, w) }",
        {"w": weights, "t": table},
        25,
    )
    rows = np.arange(len(table))
    rounded = rounded_weights(
        model, None, form, (*MATMULS, "Gather"), [{"i": rows}], SessionSettings(level="all")
    )
    made = fake(model, rounded, selection)
    embedding = table
    if selection is not None:
        embedding = rounded.blocks["t", True].dequantized(size).T
    op_types = {node.op_type for node in made.graph.node}
    assert op_types.isdisjoint({"DequantizeLinear"} if selection else {"MatMulNBits"})
    indices = np.arange(0, 256, 7)
    expected = embedding[indices] @ rounded.blocks["w", False].dequantized(size)
    # the kernel rounds the other operand to 8 bits
    actual = run(made, {"i": indices})[0]
    np.testing.assert_allclose(actual, expected, atol=0.02 * np.abs(expected).max())
    width = {2: 2, 3: 4, 4: 4}.get(bits, 8)
    assert (
        made.ByteSize()
        < (width + 32 / size + width / size + 1) / 8 * 40 * 128
        + (
            4 * table.size
            if selection is None
            else (width + 1.2 * (32 + width) / size) / 8 * table.size
        )
        + 2000
    )


@pytest.mark.parametrize("bits", [2, 3])
def test_other_bits_keep_the_tolerance(bits: int) -> None:
    options = {"scheme": "int4", "tolerance": 0.5, "weights_only": True, "metric": "rms"}
    feeds = samples(4, ["t0"], 128)
    four = quantized(layers(), feeds, **options, bits=bits, block_size=32)
    assert not four.fault
    assert "Int4Weights" in four.applied.values()
    assert four.error < 0.5


def test_quantize_chooses_by_the_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    options = {"scheme": "int4", "tolerance": 0.5, "weights_only": True, "metric": "rms"}
    feeds = samples(4, ["t0"], 128)
    four, again = (quantized(layers(), feeds, **options) for _ in range(2))
    assert not four.fault
    assert {*four.applied.values()} == {"Int4Weights"}
    assert four.verified.proto.SerializeToString() == again.verified.proto.SerializeToString()
    monkeypatch.setattr(block_preprocessing, "rounded_weights", lambda *_: RoundedWeights())
    nearest = quantized(layers(), feeds, **options)
    assert nearest.verified.proto.ByteSize() == four.verified.proto.ByteSize()
    assert four.error < 0.7 * nearest.error


def test_random_samples_choose_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    model, seen = one_matmul()[0], list[int]()

    def noted(*arguments: Any) -> RoundedWeights:
        seen.append(len(arguments[4]))
        return rounded_weights(*arguments)

    monkeypatch.setattr(block_preprocessing, "rounded_weights", noted)
    quantized(model, [], scheme="int4", tolerance=0.5)
    quantized(model, samples(4), scheme="int4", tolerance=0.5)
    assert seen == [0, 2]
