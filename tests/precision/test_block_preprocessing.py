"""Scales of channels that are moved to weights in blocks (AWQ)."""

from collections.abc import Sequence

import numpy as np
import onnx
import pytest

from tests.precision.test_weight_only import normal, quantized, with_weights
from tests.support import run
from xoptim.match.block_rounding import BlockFormat
from xoptim.match.quantization import BlockPattern, Observed
from xoptim.optimizing.plans import Plan
from xoptim.patterns.precision.activation_aware_normalization import (
    ActivationAwareNormalizationPattern,
)
from xoptim.precision import attempts, times
from xoptim.precision.activation_scales import ScaleSearch
from xoptim.precision.block_preprocessing import BlockPreprocessor
from xoptim.precision.budget import SearchBudget
from xoptim.precision.fake_quantization import fake_quantized
from xoptim.precision.metrics import error
from xoptim.precision.preprocessing import Preprocessed, Preprocessor
from xoptim.precision.samples import Samples
from xoptim.precision.schemes import block_scaling_patterns, quantization_patterns, scaling_patterns
from xoptim.verification.errors import RunError
from xoptim.verification.runs.session_settings import SessionSettings

Feeds = dict[str, np.ndarray]
CHANNELS = 64
FORM = BlockFormat()
MATMULS = ("MatMul", "Gemm", "FusedMatMul")
SETTINGS = SessionSettings(level="off")
LARGE = (5, 40)
"""The channels with large activations, one in each block."""
NORMALIZATION = "n = LayerNormalization(x, g, b)"
SINGLE_STEPS = "t = Tanh(x) s = Mul(t, g) n = Add(s, b)"
GATED = "t = Tanh(x) n = Mul(t, g)"


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (attempts, times):
        monkeypatch.setattr(module, "_SECONDS", 0.0)


def layer(steps: str = NORMALIZATION, more: str = "", factor: float = 30) -> onnx.ModelProto:
    """Two MatMuls that read activations of which few channels are large."""
    factors = np.where(np.isin(np.arange(CHANNELS), LARGE), factor, 1).astype(np.float32)
    weights: dict[str, np.ndarray] = {
        "g": factors,
        "b": 0.1 * normal(1, CHANNELS),
        "v": normal(2, CHANNELS, 48),
        "w": normal(3, 32, CHANNELS),
    }
    end = ", float[n,64] z" if more else ""
    text = (
        f"agraph (float[n,{CHANNELS}] x) => (float[n,48] p, float[n,32] q{end}) {{ {steps} "
        f"p = MatMul(n, v) q = Gemm <transB = 1> (n, w) {more} }}"
    )
    read = {name: array for name, array in weights.items() if f"{name})" in text or name in "vwg"}
    return with_weights(text, read, 21)


def rows(count: int = 8) -> list[Feeds]:
    """Samples of independent channels."""
    rng = np.random.default_rng(0)
    return [{"x": rng.standard_normal((200, CHANNELS)).astype(np.float32)} for _ in range(count)]


def preprocessor(
    feeds: Sequence[Feeds], *, are_random: bool = False, budget: SearchBudget | None = None
) -> BlockPreprocessor:
    """The steps for weights of 4 bits."""
    patterns = [cls for cls in quantization_patterns("int4") if issubclass(cls, BlockPattern)]
    samples = Samples(feeds, are_random=are_random)
    steps = Preprocessor(
        patterns,
        "cpu",
        "any",
        samples,
        Plan(),
        SETTINGS,
        lambda *_: Observed(),
        budget or SearchBudget(None),
    )
    return BlockPreprocessor(steps, FORM, MATMULS)


def prepared(
    model: onnx.ModelProto,
    feeds: Sequence[Feeds],
    *,
    are_random: bool = False,
    budget: SearchBudget | None = None,
) -> Preprocessed:
    """A model after all steps."""
    steps = preprocessor(feeds, are_random=are_random, budget=budget)
    unrounded = Preprocessed(model, None, Observed())
    return steps.run(unrounded, block_scaling_patterns("int4"))


def error_of(model: onnx.ModelProto, ready: Preprocessed, feeds: Sequence[Feeds]) -> float:
    """The error of a model with its weights in 4 bits."""
    four, _ = fake_quantized(
        ready.model, None, quantization_patterns("int4"), None, "cpu", ready.observed
    )
    return sum(error("rms", run(model, sample), run(four, sample)) for sample in feeds)


@pytest.mark.parametrize("steps", [NORMALIZATION, SINGLE_STEPS, GATED])
def test_large_channels_have_a_smaller_error(steps: str) -> None:
    model, feeds = layer(steps), rows()
    chosen, held_out = feeds[:4], feeds[4:]
    scaled = prepared(model, feeds)
    assert len(scaled.verified_models) == 1
    unscaled = preprocessor(feeds).run(Preprocessed(model, None, Observed()), [])
    assert not unscaled.verified_models
    for samples in (chosen, held_out):
        assert error_of(model, scaled, samples) < 0.8 * error_of(model, unscaled, samples)
    for sample in held_out:
        pairs = zip(run(model, sample), run(scaled.model, sample), strict=True)
        for expected, actual in pairs:
            np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("more", ["z = Neg(n)", "z = Identity(n)", "z = Add(n, x)"])
def test_activations_that_something_else_reads_stay(more: str) -> None:
    """They would be divided for the other consumer as well."""
    model = layer(NORMALIZATION, more)
    ready = prepared(model, rows())
    assert ready.model is model
    assert not ready.verified_models
    assert {*ready.observed.rounded.blocks} == {("v", False), ("w", True)}


def test_activations_that_another_operator_makes_stay() -> None:
    model = layer("n = Tanh(x)")
    assert not prepared(model, rows()).verified_models


def test_alike_channels_stay() -> None:
    model = layer(factor=1)
    assert not prepared(model, rows()).verified_models


def test_without_samples_nothing_is_scaled() -> None:
    ready = prepared(layer(), rows(), are_random=True)
    assert not ready.verified_models
    assert not ready.observed.rounded.blocks


def test_scales_are_kept_where_the_error_becomes_smaller(monkeypatch: pytest.MonkeyPatch) -> None:
    model, feeds = layer(), rows()
    for errors, count in (((0.3, 0.2), 1), ((0.2, 0.3), 0), ((0.2, 0.2), 0)):
        remaining = iter(errors)
        monkeypatch.setattr(
            Preprocessor, "error_of", lambda *_, corrected, values=remaining: next(values)
        )
        assert len(prepared(model, feeds).verified_models) == count


def test_a_step_that_fails_leaves_the_rounded_model(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def failing(*_: object, corrected: bool) -> float:
        raise RunError("no memory for the activations")

    monkeypatch.setattr(Preprocessor, "error_of", failing)
    ready = prepared(layer(), rows())
    assert ready.observed.rounded.blocks
    assert not ready.verified_models
    (message,) = (record.message for record in caplog.records)
    assert " ActivationAwareNormalization (AWQ): no memory" in message


def test_nothing_is_scaled_after_the_budget() -> None:
    budget = SearchBudget(1.0, clock=iter([0.0, *[2.0] * 20]).__next__)
    assert not prepared(layer(), rows(), budget=budget).verified_models


def scales_of(model: onnx.ModelProto, feeds: Sequence[Feeds]) -> dict[str, np.ndarray]:
    """The scales that a search finds."""
    search = ScaleSearch(FORM, MATMULS, feeds, SETTINGS)
    return search.run(model, None, ActivationAwareNormalizationPattern.anchors)


def test_the_search_scales_large_channels_up() -> None:
    (scale,) = scales_of(layer(), rows(2)).values()
    assert scale.min() == 1
    assert {*np.argsort(scale)[-2:]} == {*LARGE}


@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_activations_that_are_not_finite_have_no_scales(number: float) -> None:
    feeds = rows(2)
    feeds[1]["x"][3] = number
    assert not scales_of(layer(), feeds)


def test_the_command_moves_scales_for_int4() -> None:
    feeds = rows()
    made = quantized(layer(), feeds, scheme="int4", goal="size", tolerance=0.5)
    report = made.report(made.verified.report)
    assert report.applied["ActivationAwareNormalization"] == 1
    assert made.fault == ""
    unscaled = quantized(layer(), [], scheme="int4", goal="size", tolerance=0.5)
    assert not unscaled.preprocessing


def test_each_scheme_has_its_own_scales() -> None:
    assert [cls.name() for cls in block_scaling_patterns("int4")] == [
        "ActivationAwareNormalization"
    ]
    assert not block_scaling_patterns("int8")
    assert not scaling_patterns("int4")
    assert [cls.name() for cls in scaling_patterns("int8")] == ["SmoothedNormalization"]
