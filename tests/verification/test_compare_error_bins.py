"""Noise is judged next to the elements that it moves: peaks neither hide nor excuse thousands of
small numbers.
"""

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from tests.support import parse
from xoptim import GraphBuilder, OptimizationOptions
from xoptim.verification import VerificationOptions, VerificationReport, verify_models
from xoptim.verification.judging.compare import compare_values
from xoptim.verification.judging.error_bins import ErrorBin, explains
from xoptim.verification.options import ComparisonRules

CLASSES = 6625  # of a published recognizer of Chinese text
RNG = np.random.default_rng(1)
WEIGHT = (0.5 * RNG.standard_normal((480, CLASSES))).astype(np.float32)
BIAS = RNG.standard_normal(CLASSES).astype(np.float32)
SOFTMAX = """agraph (float[n,t,480] x) => (float[n,t,6625] y)
    {{ {first} p = MatMul(x, v) z = Add(p, b) s = Softmax<axis = 2>(z) {last} }}"""


def classifier(first: str = "v = Identity(w)", last: str = "y = Identity(s)") -> onnx.ModelProto:
    model = parse(SOFTMAX.format(first=first, last=last))
    model.graph.initializer.extend(
        [numpy_helper.from_array(WEIGHT, "w"), numpy_helper.from_array(BIAS, "b")]
    )
    return model


def judged(model: onnx.ModelProto, other: onnx.ModelProto) -> VerificationReport:
    return verify_models(model, other, VerificationOptions())


@pytest.mark.slow
def test_a_softmax_over_thousands_of_classes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xoptim.verification.judging.arbiter._MAX_BYTES", 0)
    model = classifier()
    builder = GraphBuilder(model, optimization_options=OptimizationOptions(patterns=None))
    builder.optimize()
    report = judged(model, builder.to_onnx(optimize=False))
    assert report.ok
    (noise,) = report.runs[0].noise.values()
    assert noise.accepted
    largest = report.runs[0].comparisons[0]
    assert noise.level > 1e6 * largest.scale  # far above the typical class
    assert noise.level < 1e-3 * largest.top


@pytest.mark.slow
def test_an_error_of_the_small_classes_is_not_excused_by_the_peaks() -> None:
    model = classifier("v = Identity(w)")
    shifted = classifier("v = Identity(w)", "e = Constant<value_float = 1e-6>() y = Add(s, e)")
    report = judged(model, shifted)
    assert report.status == "different"
    (noise,) = report.runs[0].noise.values()
    assert 4 * noise.level > 1e-6  # the noise of the peaks alone would excuse it
    assert not noise.explains


def detector(product: str) -> onnx.ModelProto:
    """A map that is next to zero nearly everywhere: where a product is above a high threshold, it
    is next to one.
    """
    model = parse(
        f"""agraph (float[n,512] x) => (float[n,4096] y) <float t = {{65}}, float g = {{6}}, float
          least = {{1e-7}}>
        {{ {product} z = Sub(p, t) q = Mul(z, g) s = Sigmoid(q) y = Max(s, least) }}"""
    )
    weight = np.random.default_rng(3).standard_normal((512, 4096)).astype(np.float32)
    model.graph.initializer.append(numpy_helper.from_array(weight, "w"))
    return model


@pytest.mark.slow
def test_a_map_that_is_zero_nearly_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xoptim.verification.judging.arbiter._MAX_BYTES", 0)
    report = judged(detector("v = Identity(w) p = MatMul(x, v)"), detector("p = MatMul(x, w)"))
    assert report.ok, report.reason
    assert any(run.noise for run in report.runs)


def test_explained_by_what_is_similar() -> None:
    """100 elements of about 1e-6 that move by 1e-12, and one of about 1 that moves by 1e-6."""
    noise = {-19: ErrorBin(100, 1e-12, 0.0), 1: ErrorBin(1, 1e-6, 0.0)}
    assert explains(noise, {1: ErrorBin(1, 3e-6, 3e-6)}, 4)
    assert not explains(noise, {1: ErrorBin(1, 5e-6, 5e-6)}, 4)
    assert explains(noise, {-19: ErrorBin(100, 3e-12, 3e-12)}, 4)
    assert not explains(noise, {-19: ErrorBin(100, 1e-9, 1e-9)}, 4)
    assert explains(noise, {-19: ErrorBin(100, 1e-9, 0.0)}, 4)  # within the tolerance
    few = {-19: ErrorBin(3, 1e-12, 0.0), 1: ErrorBin(1, 1e-6, 0.0)}
    assert explains(few, {-19: ErrorBin(3, 1e-9, 1e-9)}, 4)
    assert not explains({}, {1: ErrorBin(1, 1.0, 1.0)}, 4)
    zeros = {-(1 << 14): ErrorBin(10_000, 0.0, 0.0), **few}
    # zeros say nothing about how far numbers move
    assert explains(zeros, {-(1 << 14): ErrorBin(10_000, 1e-9, 1e-9)}, 4)


def test_differences_by_magnitude() -> None:
    expected = np.array([0, 1e-6, 3, 3.5, 1e38, np.inf, np.nan], np.float32)
    actual = np.array([1e-3, 1e-6, 3.5, 3.5, 1e38, np.inf, np.nan], np.float32)
    (found,) = compare_values("y", expected, actual, ComparisonRules())
    assert found.error_bins[2] == ErrorBin(2, 0.5, 0.5)
    assert found.error_bins[-(1 << 14)].elements == 1
    assert found.top == 3.5  # masks use numbers next to the largest
    assert sum(each.elements for each in found.error_bins.values()) == 5
    (same,) = compare_values("y", expected, expected, ComparisonRules())
    assert same.error_bins == {}
