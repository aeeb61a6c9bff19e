"""Models in lower precision: the choice keeps the tolerance, and the graph is verified."""

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import onnx
import pytest

import xoptim
from tests.precision.models import kernels, network, recurrent, words
from tests.support import parse, run, values_in
from xoptim.diagnose.each import Disagreement
from xoptim.engine.options import OptimizationOptions
from xoptim.optimizing.plans import Plan, VerifyPlan
from xoptim.optimizing.verified import optimize_verified
from xoptim.precision.options import PrecisionOptions
from xoptim.precision.quantize import quantize
from xoptim.precision.quantized import Quantized
from xoptim.verification.errors import ChoiceError, ToleranceError

pytestmark = pytest.mark.usefixtures("faster")


def quantized(model: onnx.ModelProto, patterns: str = "default", **options: Any) -> Quantized:
    """A model in lower precision, whatever takes longer."""
    how = Plan()
    chosen = OptimizationOptions(patterns=patterns)
    precision = PrecisionOptions(**{"feeds": [words(), words(seed=1)], **options})
    return quantize(optimize_verified(model, chosen, how), chosen, how, precision)


def operators(model: onnx.ModelProto) -> list[str]:
    """The operators, in order."""
    return [node.op_type for node in model.graph.node]


def test_integers() -> None:
    found = quantized(network(layers=2), tolerance=0.5)
    assert not found.fault
    assert len(found.applied) == len({each.result for each in found.candidates}) == 4
    counts = operators(found.verified.proto)
    assert (counts.count("MatMulInteger"), counts.count("MatMul"), counts.count("Gemm")) == (
        3,
        0,
        0,
    )
    assert [report.status for report in found.comparisons] == ["equal"]
    assert found.verified.each is not None
    assert found.verified.each.checked >= 3
    assert not found.verified.each.disagreements
    types = {
        tensor.name: tensor.data_type
        for tensor in found.verified.proto.graph.initializer
        if len(tensor.dims) == 2
    }
    # the scales of the table
    assert sorted(types.values()) == [onnx.TensorProto.FLOAT] + [onnx.TensorProto.INT8] * 4


def test_error_is_the_one_of_the_result() -> None:
    model = network()
    found = quantized(model, tolerance=0.5)
    errors = []
    for feeds in found.samples.feeds:
        expected, actual = (
            run(each, feeds, optimized=True)[0] for each in (model, found.verified.proto)
        )
        errors.append(np.abs(expected - actual).max() / np.abs(expected).max())
    assert found.error == pytest.approx(max(errors), rel=1e-3)
    assert 0 < found.error < 0.1


def test_tolerance_is_kept() -> None:
    everything = quantized(network(), tolerance=0.9)
    some = quantized(network(), tolerance=everything.error / 2)
    assert 0 < len(some.operators) < len(everything.operators)
    assert some.error <= everything.error / 2
    products = [
        each.measured for each in some.choices if each.measured.candidate.op_type != "Gather"
    ]
    able = [each for each in products if not each.candidate.is_weight_only]
    dearest = max(able, key=lambda each: each.price("speed"))
    assert dearest.result not in some.operators


@pytest.mark.parametrize("scheme", ["float16", "bfloat16"])
def test_what_errs_too_much_stays_in_32_bits(scheme: str) -> None:
    everything = quantized(network(layers=3), scheme=scheme, tolerance=0.9)
    some = quantized(network(layers=3), scheme=scheme, tolerance=everything.error)
    assert 0 < len(some.applied) < len(everything.applied)
    assert some.error <= everything.error * 0.8 + 1e-9


def test_four_bits_raise_the_operator_set() -> None:
    found = quantized(network(layers=2), scheme="int4", tolerance=0.9)
    assert found.verified.proto.opset_import[0].version == 21
    assert set(found.applied.values()) == {"Int4Weights", "Int8Embedding"}
    sizes = [tensor.data_type for tensor in found.verified.proto.graph.initializer]
    assert sizes.count(onnx.TensorProto.UINT4) == 6  # integers and zero points


@pytest.mark.parametrize(("tolerance", "table"), [(0.9, "Int4Embedding"), (0.01, "Int8Embedding")])
def test_tables_of_four_bits_need_operators_of_onnxruntime(tolerance: float, table: str) -> None:
    """Eight bits are taken where four err too much."""
    found = quantized(network(layers=1), "default+onnxruntime", scheme="int4", tolerance=tolerance)
    assert not found.fault
    assert found.applied["h0"] == table
    assert ("GatherBlockQuantized" in operators(found.verified.proto)) == (table == "Int4Embedding")


@pytest.mark.parametrize("opset", [11, 17])
@pytest.mark.parametrize(
    ("scheme", "pattern", "most"),
    [("float16", "Float16Weights", 1e-3), ("bfloat16", "Bfloat16Weights", 8e-3)],
)
def test_sixteen_bits_are_half_of_the_bytes(
    opset: int, scheme: str, pattern: str, most: float
) -> None:
    model = network(layers=2, opset=opset)
    found = quantized(model, scheme=scheme, goal="speed")
    assert not found.fault
    assert set(found.applied.values()) == {pattern}
    assert len(found.applied) == 3  # the last MatMul has 512 numbers
    assert found.verified.proto.ByteSize() < 0.56 * model.ByteSize()
    assert most / 100 < found.error < most
    again = xoptim.optimize(found.verified.proto)
    assert again.ByteSize() < 0.56 * model.ByteSize()


def test_operators_of_onnxruntime() -> None:
    found = quantized(network(layers=2), "default+onnxruntime", tolerance=0.5)
    counts = operators(found.verified.proto)
    assert {"DynamicQuantizeMatMul", "MatMulIntegerToFloat"} & {*counts}
    assert "MatMulInteger" not in counts
    assert not found.fault


def test_same_choice_again() -> None:
    first, second = (quantized(network(), tolerance=0.01) for _ in range(2))
    assert first.applied == second.applied
    assert first.verified.to_bytes() == second.verified.to_bytes()


def test_a_rewrite_that_is_wrong_alone_is_a_fault() -> None:
    found = quantized(network(layers=1), tolerance=0.5)
    assert found.verified.each is not None
    found.verified.each.disagreements.append(cast(Disagreement, "rewrite 1"))
    assert found.fault == "rewrite 1"


def test_random_samples() -> None:
    found = quantized(network(layers=1), tolerance=0.5, feeds=())
    assert found.samples.are_random
    assert values_in(found.samples.summary()) == ["4", "2"]
    assert len({each["words"].shape for each in found.samples.feeds}) > 1  # type: ignore[union-attr]


def test_times_are_measured_at_typical_sizes() -> None:
    model = network(layers=1)
    for port in (model.graph.input[0], model.graph.output[0]):
        port.type.tensor_type.shape.dim[0].dim_param = "seq"
    drawn = quantized(model, tolerance=0.5, feeds=()).samples
    assert np.asarray(drawn.to_time["words"]).shape == (128,)
    assert max(np.asarray(each["words"]).size for each in drawn.feeds) < 128
    given = quantized(model, tolerance=0.5).samples
    assert given.to_time is given.feeds[0]


def check_float32(found: Quantized, model: onnx.ModelProto, reason: str) -> None:
    """The result is the optimized model, and the summary says why."""
    assert (found.applied, found.fault, found.error) == ({}, "", 0.0)
    assert found.reason.startswith(reason)
    assert found.reason in found.summary()
    assert found.to_json()["reason"] == found.reason
    assert operators(found.verified.proto) == operators(xoptim.optimize(model))


def test_nothing_to_round() -> None:
    model = parse("agraph (float[n,4] words) => (float[n,4] y) { y = Relu(words) }")
    for scheme in ("int8", "int4", "float16", "bfloat16"):
        check_float32(
            quantized(model, feeds=(), scheme=scheme),
            model,
            f"nothing can be quantized to {scheme}: no operator",
        )


def test_nothing_keeps_the_tolerance() -> None:
    for goal in ("size", "speed"):
        found = quantized(network(layers=1), tolerance=1e-9, goal=goal)
        check_float32(found, network(layers=1), "no choice stays within the tolerance of 0.00%")


def test_outputs_that_onnxruntime_does_not_reproduce(monkeypatch: pytest.MonkeyPatch) -> None:
    """Results that differ without quantization exceed the tolerance: the float32 model is right all
    the same.
    """
    monkeypatch.setattr(
        "xoptim.precision.reference.FloatReference.sample_errors", lambda *_: [(0.1875,)]
    )
    found = quantized(network(layers=1), tolerance=0.01)
    check_float32(
        found,
        network(layers=1),
        "the float32 outputs differ by 18.75% between two ways in which onnxruntime runs the model",
    )


def test_products_in_functions() -> None:
    model = parse(
        "agraph (float[n,4] words, float[4,4] w) => (float[n,4] y) { y = mine.MatMul(words, w) }"
        ' <domain: "mine", opset_import: ["" : 18]> MatMul (x, w) => (y) { m = MatMul(x, w) y ='
        " Neg(m) }",
        domains={"mine": 1},
    )
    check_float32(
        quantized(model, feeds=()),
        model,
        "nothing can be quantized to int8 in local functions; add inline=True",
    )


def test_other_providers() -> None:
    how, options = Plan(verify=VerifyPlan(whole=False)), OptimizationOptions()
    verified = optimize_verified(network(layers=1), options, how)
    with pytest.raises(ChoiceError, match=r"int8 .* cpu; .*float16 .* cuda"):
        quantize(verified, replace(options, provider="cuda"), how, PrecisionOptions())


@pytest.mark.parametrize("values", [np.full((3, 64), np.nan), np.zeros((0, 64))])
def test_values_that_show_no_error(values: np.ndarray) -> None:
    model = parse("agraph (float[n,64] x) => (float[n,64] y) <float[64,64] w> { y = MatMul(x, w) }")
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.eye(64, dtype=np.float32), "w"))
    found = quantized(model, feeds=[{"x": values.astype(np.float32)}])
    check_float32(found, model, "no output has a finite value on the samples")


def test_inputs_of_16_bits_need_operators_that_compute_with_them() -> None:
    with pytest.raises(ChoiceError, match=r'PrecisionOptions\(compute="float16"\)'):
        quantized(network(), scheme="float16", io_types="float16")


def test_values_that_do_not_fit() -> None:
    with pytest.raises(ChoiceError, match="int32"):
        quantized(network(), feeds=[{"words": np.zeros(3, np.int32)}])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tolerance": 0}, "tolerance must be a fraction between 0 and 1"),
        ({"tolerance": 2}, "tolerance must be a fraction between 0 and 1"),
        ({"scheme": "int4", "bits": 9}, "bits must be from 2 to 8, not 9"),
        ({"scheme": "int4", "block_size": 48}, "block_size must be one of 16, 32, 64, 128, 256"),
        ({"scheme": "int8", "bits": 2}, "bits and block_size are for int4, not for int8"),
        ({"scheme": "int8", "block_size": 64}, "bits and block_size are for int4, not for int8"),
        (
            {"scheme": "int4", "bits": 2, "compute": "float16"},
            "weights of 2 bits are computed in float32; remove compute float16",
        ),
        ({"scheme": "int2"}, "scheme must be one of int8, int4, float16, bfloat16, not 'int2'"),
        (
            {"metric": "mean"},
            "metric must be a function or one of largest, rms, choice, cosine, not 'mean'",
        ),
        ({"goal": "both"}, "goal must be speed or size, not 'both'"),
        (
            {"metric": []},
            r"metric must be a function or one of largest, rms, choice, cosine, not \[\]",
        ),
        (
            {"tolerance": "1%"},
            "tolerance must be a fraction between 0 and 1, such as 0.01, not '1%'",
        ),
        ({"feeds": {"x": np.zeros(1)}}, "feeds must be a list of dictionaries"),
        ({"feeds": np.float32(1)}, "feeds must be a list of dictionaries"),
    ],
)
def test_options_that_make_no_sense(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        PrecisionOptions(**options)


def test_optimize() -> None:
    model = network()
    chosen = PrecisionOptions(tolerance=0.2, feeds=[words()])
    smaller = xoptim.optimize(model, precision=chosen, verify=True)
    assert "MatMulInteger" in operators(smaller)
    assert smaller.ByteSize() < 0.35 * model.ByteSize()
    with pytest.raises(ValueError, match="only_if_faster"):
        xoptim.optimize(model, precision=chosen, only_if_faster=True)


def test_a_scheme_is_not_an_instance_of_options() -> None:
    with pytest.raises(TypeError, match=r"PrecisionOptions\(scheme='int8'\), not 'int8'"):
        xoptim.optimize(network(), precision=cast(Any, "int8"))


def test_error_beyond_the_tolerance(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Quantized, "fault", "too large")
    with pytest.raises(ToleranceError, match="too large"):
        xoptim.optimize(network(), precision=PrecisionOptions(tolerance=0.2, feeds=[words()]))


def test_from_file_to_file(tmp_path: Path) -> None:
    onnx.save(network(), tmp_path / "model.onnx")
    chosen = PrecisionOptions(tolerance=0.2, feeds=[words()])
    target, page = tmp_path / "small.onnx", tmp_path / "page.html"
    written = xoptim.optimize_file(
        tmp_path / "model.onnx", target, precision=chosen, external_data=True, report=page
    )
    assert {path.name for path in written} == {"small.onnx", "small.onnx.data"}
    found = onnx.load(target)
    assert operators(found).count("MatMulInteger") == 5
    expected, actual = (run(each, words())[0] for each in (network(), found))
    assert 0 < np.abs(expected - actual).max() < 0.2 * np.abs(expected).max()
    text = page.read_text(encoding="utf-8")
    assert "int8: 6 of 6 " in text
    assert text.count("<td>quantized</td>") == 6


def test_nothing_is_written_beyond_the_tolerance(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Quantized, "fault", "the error is 50.00%")
    onnx.save(network(layers=1), tmp_path / "model.onnx")
    chosen = PrecisionOptions(tolerance=0.2, feeds=[words()])
    with pytest.raises(ToleranceError, match=r"50\.00%"):
        xoptim.optimize_file(tmp_path / "model.onnx", tmp_path / "small.onnx", precision=chosen)
    assert [path.name for path in tmp_path.iterdir()] == ["model.onnx"]


def test_rows_that_differ_have_scales_of_their_own(tmp_path: Path) -> None:
    """One scale for all leaves no digits to small rows, which count as much as the large one after
    the normalization.
    """
    model = parse(
        "agraph (float[n,64] x) => (float[n,64] y) <float[64,64] w, float[64] s> "
        "{ m = MatMul(x, w) y = LayerNormalization(m, s) }"
    )
    rng = np.random.default_rng(0)
    numbers = {"w": rng.standard_normal((64, 64)), "s": np.ones(64)}
    model.graph.ClearField("initializer")
    model.graph.initializer.extend(
        onnx.numpy_helper.from_array(each.astype(np.float32), name)
        for name, each in numbers.items()
    )
    values = (rng.standard_normal((2, 8, 64)) * np.array([1000, *[1] * 7])[:, None]).astype(
        np.float32
    )
    found = quantized(model, tolerance=0.05, feeds=[{"x": each} for each in values])
    assert {*found.applied.values()} == {"Int8Rows"}
    assert not found.fault
    errs = {each.measured.candidate.pattern: each.measured.error > 0.5 for each in found.choices}
    assert errs == {"Int8Operands": True, "Int8Rows": False}, "constants are not measured"
    assert "MatMulIntegerToFloat" in kernels(found.verified.proto, tmp_path)


@pytest.mark.parametrize("tolerance", [0.5, 0.02, 0.015, 0.01, 0.007, 0.004])
def test_weights_are_stored_once(tolerance: float) -> None:
    model = network(layers=3)
    for node in model.graph.node:
        node.input[:] = ["w0" if name in ("w1", "w2") else name for name in node.input]
    kept = [tensor for tensor in model.graph.initializer if tensor.name not in ("w1", "w2")]
    model.graph.ClearField("initializer")
    model.graph.initializer.extend(kept)
    found = quantized(model, tolerance=tolerance)
    assert not found.fault
    sharing = [
        each for each in found.candidates if each.weights == "w0" and not each.is_weight_only
    ]
    assert len({found.operators.get(each.result) for each in sharing}) == 1
    assert len({each.result for each in sharing}) == 3
    sizes = [
        sum(each.ByteSize() for each in graph.initializer)
        for graph in (model.graph, found.verified.proto.graph)
    ]
    assert sizes[1] <= sizes[0]


@pytest.mark.parametrize("outputs", ["y", "h", "c", "yc", "yhc"])
def test_recurrent_networks(outputs: str) -> None:
    model = recurrent(outputs)
    rng = np.random.default_rng(0)
    feeds = [{"x": rng.standard_normal((5, 2, 24)).astype(np.float32)} for _ in range(2)]
    found = quantized(model, "default+onnxruntime", tolerance=0.1, feeds=feeds)
    assert not found.fault
    assert found.applied == {outputs[0]: "Int8LSTM"}
    able = [each for each in found.candidates if not each.is_weight_only]
    assert [(each.shape, each.weights) for each in able] == [((4 * (24 + 32), 2 * 32), "r")]
    assert operators(found.verified.proto) == ["DynamicQuantizeLSTM"]
    assert found.verified.proto.ByteSize() < 0.4 * model.ByteSize()
    expected, actual = (
        run(each, feeds[0], optimized=True) for each in (model, found.verified.proto)
    )
    error = max(
        np.abs(a - b).max() / np.abs(a).max() for a, b in zip(expected, actual, strict=True)
    )
    assert 0 < error < 2 * found.error  # threads round sequences apart


def test_recurrent_networks_without_operators_of_onnxruntime() -> None:
    model = recurrent()
    found = quantized(model, tolerance=0.1, feeds=[{"x": np.ones((5, 2, 24), np.float32)}])
    assert found.applied == {"w": "Int8Weights", "r": "Int8Weights"}
    assert found.verified.proto.ByteSize() < 0.4 * model.ByteSize()
    assert set(operators(found.verified.proto)) == {"Cast", "Mul", "Reshape", "LSTM"}
    assert "2 constants in 8 " in found.summary()
