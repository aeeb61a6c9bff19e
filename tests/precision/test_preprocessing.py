"""Scales that are moved and biases that are corrected before anything is rounded: only where the
error becomes smaller.
"""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.precision.models import convolutions, images
from tests.support import run
from xoptim.catalogue.selection import resolve
from xoptim.engine.options import OptimizationOptions
from xoptim.match.quantization import Observed, ScalingPattern
from xoptim.optimizing.plans import Plan
from xoptim.optimizing.verified import optimize_verified
from xoptim.precision.calibration import calibrated
from xoptim.precision.fake_quantization import fake_quantized
from xoptim.precision.metrics import error
from xoptim.precision.options import PrecisionOptions
from xoptim.precision.preprocessing import Preprocessor
from xoptim.precision.quantize import before_quantization, quantize
from xoptim.precision.quantized import Quantized
from xoptim.precision.samples import Samples
from xoptim.precision.schemes import scaling_patterns
from xoptim.verification.errors import RunError
from xoptim.verification.runs.session_settings import SessionSettings

SINGLE_STEPS = "d = Sub(x, m) s = Mul(d, g) n = Add(s, b)"
ONE_NODE = "n = LayerNormalization(x, g, b)"


def layer(steps: str, others: str = "") -> onnx.ModelProto:
    """A normalization in which one channel is much larger than the others, and two MatMuls that
    read it.
    """
    rng = np.random.default_rng(0)
    stored = {
        "m": np.zeros(64, np.float32),
        "g": np.where(np.arange(64) == 5, 50, 1).astype(np.float32),
        "b": rng.standard_normal(64).astype(np.float32),
        "v": rng.standard_normal((64, 32)).astype(np.float32),
        "w": rng.standard_normal((16, 64)).astype(np.float32),
        "c": rng.standard_normal(16).astype(np.float32),
    }
    stored["v"][5] /= 50
    stored["w"][:, 5] /= 50
    ends = f"{', float[n,64] z' if others else ''}"
    text = (
        '<ir_version: 8, opset_import: ["" : 18]> layer (float[n,64] x) => (float[n,32] p,'
        f" float[n,16] q{ends}) {{ {steps} p = MatMul(n, v) q = Gemm <transB = 1> (n, w, c)"
        f" {others} }}"
    )
    model = onnx.parser.parse_model(text)
    model.graph.initializer.extend(
        numpy_helper.from_array(array, name) for name, array in stored.items() if name in text
    )
    return model


def rows(count: int = 40, seed: int = 0) -> dict[str, np.ndarray]:
    """Values of the input."""
    return {"x": np.random.default_rng(seed).standard_normal((count, 64)).astype(np.float32)}


def quantized(
    model: onnx.ModelProto, feeds: list[dict[str, np.ndarray]], patterns: str = "default"
) -> Quantized:
    """The model with everything in 8 bits."""
    how, options = Plan(), OptimizationOptions(patterns=patterns)
    precision = PrecisionOptions(goal="size", tolerance=0.9, feeds=feeds)
    return quantize(
        optimize_verified(model, before_quantization(options), how), options, how, precision
    )


@pytest.mark.parametrize("steps", [ONE_NODE, SINGLE_STEPS])
def test_scales_move_to_all_products(steps: str) -> None:
    model = layer(steps)
    found = quantized(model, [rows(), rows(seed=1)])
    assert not found.fault
    assert found.report(found.verified.report).applied["SmoothedNormalization"] == 1
    assert len(found.applied) == 2
    plain, _ = fake_quantized(model, None, resolve("int8"), None, "cpu")
    expected, before, after = (
        run(each, rows(seed=2)) for each in (model, plain, found.verified.proto)
    )
    assert error("rms", expected, after) < 0.5 * error("rms", expected, before)
    assert [report.status for report in found.comparisons] == ["equal"] * 2


def test_random_samples_leave_it_to_the_parameters() -> None:
    assert (
        "SmoothedNormalization"
        in quantized(layer(ONE_NODE), [])
        .report(quantized(layer(ONE_NODE), []).verified.report)
        .applied
    )
    assert not quantized(layer(SINGLE_STEPS), []).preprocessing


@pytest.mark.parametrize(
    "others",
    [
        "z = Neg(n)",
        "z = Identity(n)",
        "k = Transpose(w) z = MatMul(q, w)",
        "e = Constant <value_float = 1.0> () z = Add(n, e)",
    ],
)
def test_what_something_else_reads_stays(others: str) -> None:
    assert not quantized(layer(ONE_NODE, others), [rows()]).preprocessing


def preparation(model: onnx.ModelProto, feeds: list[dict[str, np.ndarray]]) -> Preprocessor:
    """The steps before rounding, with what samples tell of convolutions."""
    samples, settings = Samples(feeds, are_random=False), SessionSettings()

    def observe(model: onnx.ModelProto, folder: Path | None) -> Observed:
        return calibrated(
            model,
            folder,
            ("Conv", "Relu", "Add"),
            [feeds[place] for place in samples.to_choose],
            "minmax",
            settings,
        )

    rounding = [cls for cls in resolve("int8") if not issubclass(cls, ScalingPattern)]
    return Preprocessor(rounding, "cpu", "any", samples, Plan(), settings, observe)


def shifted(seed: int = 0) -> dict[str, np.ndarray]:
    """Images whose channels have means far from 0, where quantized weights shift results."""
    return {
        "x": (
            images(seed=seed)["x"] * np.float32(0.1)
            + np.array([3, 2, 4], np.float32).reshape(1, 3, 1, 1)
        )
    }


def test_biases_make_up_for_rounded_weights() -> None:
    model = convolutions()
    made = preparation(model, [shifted()])
    ready = made.run(model, None, [])
    assert ready.observed.channels

    def shift(observed: Observed) -> float:
        """How far the means of the channels of the first convolution are off."""
        rounded, found = fake_quantized(
            model, None, made.patterns, {"r0": "Int8Conv"}, "cpu", observed
        )
        assert [*found] == ["r0"]
        for each in (rounded, given):
            each.graph.output.append(helper.make_tensor_value_info("r0", TensorProto.FLOAT, None))
        before, after = (run(each, shifted(seed=1))[-1] for each in (given, rounded))
        given.graph.output.pop()
        return float(np.abs((after - before)[..., 1:-1, 1:-1].mean(axis=(0, 2, 3))).max())

    given = onnx.ModelProto()
    given.CopyFrom(model)
    assert shift(ready.observed) < 0.5 * shift(ready.observed._replace(channels={}))


@pytest.mark.parametrize(
    ("errors", "kept"), [((0.3, 0.2), True), ((0.2, 0.3), False), ((0.2, 0.2), False)]
)
def test_biases_are_corrected_where_it_helps(
    errors: tuple[float, float], kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Preprocessor, "error_of", lambda *_, corrected: errors[corrected])
    model = convolutions()
    assert bool(preparation(model, [images()]).run(model, None, []).observed.channels) == kept


@pytest.mark.parametrize(("errors", "kept"), [((0.3, 0.2), 1), ((0.2, 0.3), 0)])
def test_scales_move_where_it_helps(
    errors: tuple[float, float], kept: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = iter(errors)
    monkeypatch.setattr(Preprocessor, "error_of", lambda *_, corrected: next(left))
    model = layer(ONE_NODE)
    ready = preparation(model, [rows()]).run(model, None, scaling_patterns("int8"))
    assert len(ready.verified_models) == kept


RESIZES = {
    "sizes of Shape": (
        's = Shape <end = 2> (r0) z = Concat <axis = 0> (s, hw) r = Resize <mode = "linear"> '
        "(r0, , , z)"
    ),
    "sizes of axes": 'r = Resize <axes = [2, 3], mode = "linear"> (r0, , , hw)',
    "computed sizes of axes": (
        "s = Shape <start = 2> (r0) z = Add(s, s) "
        'r = Resize <axes = [-2, -1], mode = "linear"> (r0, , , z)'
    ),
    "scales of axes": 'r = Resize <axes = [2, 3], mode = "nearest"> (r0, , two)',
}


def resized(resize: str) -> onnx.ModelProto:
    """Convolutions around a Resize, then a MatMul."""
    rng = np.random.default_rng(0)

    def drawn(*shape: int) -> np.ndarray:
        array: np.ndarray = rng.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))
        return array.astype(np.float32)

    stored = {
        "k0": drawn(32, 3, 3, 3),
        "k1": drawn(32, 32, 3, 3),
        "w": drawn(32, 64),
        "hw": np.array([16, 16]),
        "two": np.array([2, 2], np.float32),
    }
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 18]> net (float[n,3,h,l] x) => (float[n,64] y) { '
        f"c0 = Conv <pads = [1, 1, 1, 1]> (x, k0) r0 = Relu(c0) {resize} "
        "c1 = Conv <pads = [1, 1, 1, 1]> (r, k1) r1 = Relu(c1) p = GlobalAveragePool(r1) "
        "f = Flatten(p) y = MatMul(f, w) }"
    )
    model.graph.initializer.extend(
        numpy_helper.from_array(array, name) for name, array in stored.items()
    )
    return model


def small_images() -> list[dict[str, np.ndarray]]:
    rng = np.random.default_rng(1)
    return [{"x": rng.standard_normal((1, 3, 8, 8)).astype(np.float32)} for _ in range(4)]


@pytest.mark.parametrize("resize", RESIZES.values(), ids=RESIZES)
def test_convolutions_around_a_resize_are_quantized(resize: str) -> None:
    """onnxruntime 1.32 does not load quantized convolutions around a Resize of some axes."""
    model, feeds = resized(resize), small_images()
    how, options = Plan(), OptimizationOptions()
    precision = PrecisionOptions(static=True, tolerance=0.2, feeds=feeds)
    verified = optimize_verified(model, before_quantization(options), how)
    found = quantize(verified, options, how, precision)
    assert found.fault == ""
    assert found.operators.keys() >= {"r0", "r1"}
    (actual,), (expected,) = run(found.verified.proto, feeds[0]), run(model, feeds[0])
    assert error("largest", [expected], [actual]) < 0.2


def test_a_failing_step_costs_that_step(caplog: pytest.LogCaptureFixture) -> None:
    """The axes of a Resize that keeps the aspect ratio stay, and so do convolutions around it."""
    model = resized(
        'r = Resize <axes = [2, 3], keep_aspect_ratio_policy = "not_larger"> (r0, , , hw)'
    )
    how, options = Plan(), OptimizationOptions()
    precision = PrecisionOptions(goal="size", tolerance=0.2, feeds=small_images())
    verified = optimize_verified(model, before_quantization(options), how)
    found = quantize(verified, options, how, precision)
    assert found.fault == ""
    assert "y" in found.applied
    assert not {"r0", "r1"} & found.operators.keys()
    (message,) = (record.message for record in caplog.records)
    assert "static scales" in message


def test_calibration_that_fails_costs_the_ranges(caplog: pytest.LogCaptureFixture) -> None:
    def observe(model: onnx.ModelProto, folder: Path | None) -> Observed:
        raise RunError("no memory")

    samples = Samples(small_images(), are_random=False)
    model = resized(RESIZES["sizes of axes"])
    settings, how = SessionSettings(), Plan()
    preprocessor = Preprocessor([], "cpu", "any", samples, how, settings, observe)
    ready = preprocessor.run(model, None, [])
    assert ready.model is model
    assert ready.observed == Observed()
    ranges, axes = (record.message for record in caplog.records)
    assert "ranges" in ranges
    assert "Resize" in axes
    assert all(message.endswith(": no memory") for message in (ranges, axes))
