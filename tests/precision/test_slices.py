"""Outputs that join several quantities: each is measured on its own."""

from collections.abc import Sequence

import numpy as np
import onnx
import pytest

from tests.precision.detectors import LAYOUTS, Layout, anchors, detector, parts_of
from tests.precision.test_quantize import quantized
from tests.share import is_whole
from tests.support import parse, run
from xoptim.precision.metrics import ErrorMetric
from xoptim.precision.slices import OutputSlices, output_origins
from xoptim.verification.errors import LoadError
from xoptim.verification.runs.session import Value
from xoptim.verification.runs.session_settings import SessionSettings

pytestmark = pytest.mark.usefixtures("faster")


def slices_of(
    model: onnx.ModelProto, *feeds: dict[str, np.ndarray], metric: ErrorMetric = "largest"
) -> OutputSlices:
    """The slices of the outputs of a model, on samples."""
    expected: list[Sequence[Value]] = [run(model, sample) for sample in feeds]
    origins = output_origins(model, None, feeds, SessionSettings())
    names = [value.name for value in model.graph.output]
    return OutputSlices.find(names, origins, expected, metric)


def texts(slices: OutputSlices) -> list[str]:
    """The names of slices."""
    return list(map(str, slices.slices))


@pytest.mark.parametrize(
    ("layout", "names"),
    [
        ("columns", ["y, columns 0 to 3", "y, columns 4 to 11"]),
        ("scales", ["y, columns 0 to 3", "y, columns 4 to 11"]),
        ("transposed", ["y, rows 0 to 3", "y, rows 4 to 11"]),
        ("one MatMul", ["y, columns 0 to 3", "y, columns 4 to 11"]),
    ],
)
def test_boxes_and_scores_are_slices(layout: Layout, names: list[str]) -> None:
    assert texts(slices_of(detector(layout), anchors(), anchors(32, seed=1))) == names


CACHE = """agraph (float[1,p,4] past, float[1,s,4] x) => (float[1,t,4] y) {
    n = Neg(x) y = Concat <axis = 1> (past, n) }"""


def test_a_slice_may_have_another_length_in_each_sample() -> None:
    def feeds(past: int, new: int) -> dict[str, np.ndarray]:
        return {
            "past": np.ones((1, past, 4), np.float32),
            "x": np.full((1, new, 4), 100, np.float32),
        }

    slices = slices_of(parse(CACHE), feeds(3, 2), feeds(5, 1))
    assert texts(slices) == ["y, rows 0 to 2", "y, rows 3 to 4"]
    value = np.arange(24, dtype=np.float32).reshape(1, 6, 4)
    assert [part.of(value).shape for part in slices.slices] == [(1, 5, 4), (1, 1, 4)]
    # the same length, joined at another place
    assert texts(slices_of(parse(CACHE), feeds(3, 2), feeds(2, 3))) == ["y"]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        # written into a constant
        (
            "agraph (float[8,4] x) => (float[8,4] y) <int64[2,1] at = {0, 5}, "
            "int64[2] two = {0, 5}> { a = Abs(x) g = Gather(a, two) b = Mul(g, g) "
            "y = ScatterND(a, at, b) }",
            ["y, rows 0, 5", "y, rows 1 to 4, 6 to 7"],
        ),
        # moved after it is joined, with a constant added
        (
            "agraph (float[8,4] x) => (float[32,2] y) <float c = {100.0}, int64[2] s = {32, 2}>"
            "{ a = Abs(x) b = Exp(x) j = Concat <axis = 0> (a, b) k = Add(j, c) "
            "y = Reshape(k, s) }",
            ["y, rows 0 to 15", "y, rows 16 to 31"],
        ),
        # a part of it is left
        (
            "agraph (float[8,4] x) => (float[8,4] y) <int64[1] b = {0}, int64[1] e = {4}, "
            "int64[1] a = {1}> { n = Neg(x) j = Concat <axis = 1> (x, n) y = Slice(j, b, e, a) }",
            ["y"],
        ),
        ("agraph (float[8,4] x) => (float[8,4] y) { y = Relu(x) }", ["y"]),
        (
            "agraph (float[8,4] x) => (int64[8] y) { y = ArgMax <keepdims = 0, axis = 1> (x) }",
            ["y"],
        ),
    ],
)
def test_origins_follow_what_moves_data(text: str, names: list[str]) -> None:
    values = np.linspace(1, 2, 32, dtype=np.float32).reshape(8, 4)
    assert texts(slices_of(parse(text), {"x": values})) == names


@pytest.mark.parametrize(
    ("opset", "constants", "pad"),
    [
        (10, "", "Pad <pads = [0, 0, 0, 1], value = 1.0> (j)"),
        (13, "<int64[4] p = {0, 0, 0, 1}, float v = {1}>", "Pad(j, p, v)"),
        (18, "<int64[2] p = {0, 1}, float v = {1}, int64[1] a = {1}>", "Pad(j, p, v, a)"),
        (18, "<int64[2] p = {0, 1}, int64[1] a = {1}>", "Pad(j, p, , a)"),
    ],
)
def test_padding_has_the_origin_of_the_first_operand(opset: int, constants: str, pad: str) -> None:
    text = (
        f"agraph (float[8,2] x) => (float[8,5] y) {constants} "
        f"{{ n = Neg(x) j = Concat <axis = 1> (x, n) y = {pad} }}"
    )
    values = np.linspace(1, 2, 16, dtype=np.float32).reshape(8, 2)
    names = ["y, columns 0 to 1, 4", "y, columns 2 to 3"]
    assert texts(slices_of(parse(text, opset), {"x": values})) == names


def channels(*scales: float, rows: int = 64) -> dict[str, np.ndarray]:
    """Numbers with a scale for each column."""
    numbers = np.random.default_rng(0).uniform(-1, 1, (rows, len(scales)))
    return {"x": (numbers * np.array(scales)).astype(np.float32)}


@pytest.mark.parametrize(
    ("scales", "names"),
    [
        ((100.0, 1.0, 120.0, 0.9), ["y, columns 0, 2", "y, columns 1, 3"]),
        ((1.0, 3.0, 5.0, 9.0), ["y"]),
        # a chain from large to small
        ((100.0, 50.0, 25.0, 12.0, 6.0, 3.0, 1.5), ["y"]),
        ((600.0, 20.0, 0.5), ["y, columns 0", "y, columns 1", "y, columns 2"]),
        ((600.0, 0.0, 1.0, 1.0), ["y, columns 0", "y, columns 1 to 3"]),
        ((0.0, 0.0), ["y"]),
    ],
)
def test_channels_of_other_scales_are_slices(scales: tuple[float, ...], names: list[str]) -> None:
    model = parse("agraph (float[n,c] x) => (float[n,c] y) { y = Identity(x) }")
    assert texts(slices_of(model, channels(*scales))) == names
    # the index of the largest one is about all channels; few elements tell no scale
    assert texts(slices_of(model, channels(*scales), metric="choice")) == ["y"]
    assert texts(slices_of(model, channels(*scales, rows=8))) == ["y"]


def test_a_model_whose_inner_results_cannot_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is measured by channels, or as a whole."""

    def refused(*_: object) -> None:
        raise LoadError("no kernel without optimizations")

    monkeypatch.setattr("xoptim.precision.slices.OriginReader", refused)
    assert texts(slices_of(detector("columns"), anchors(), metric="choice")) == ["y"]


def test_each_slice_has_its_error() -> None:
    slices = slices_of(detector("columns"), anchors())
    expected = np.array([[600.0, 1, 1, 1, *[0.5] * 8]], np.float32)
    actual = expected + np.array([[6.0, 0, 0, 0, *[0.005] * 8]], np.float32)
    assert slices.errors("largest", [expected], [actual]) == pytest.approx((0.01, 0.01), rel=1e-3)
    assert slices.errors("choice", [expected], [actual]) == (0.0, 0.0)
    assert slices.errors("largest", [expected], [expected[:, :5]]) == (np.inf, np.inf)
    # numbers that are 0 in one sample are measured by their scale in all
    dark = expected.copy()
    dark[:, 4:] = 0
    error = slices.errors("largest", [dark], [dark + np.float32(0.01)])[1]
    assert error == pytest.approx(0.01 / slices.slices[1].largest, rel=1e-3)
    swapped = expected.copy()
    swapped[:, 4] = 0.4
    assert slices.errors("choice", [expected], [swapped]) == (0.0, 1.0)


@pytest.mark.slow
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    ("scheme", "tolerance"),
    [("int8", 0.01), *[("int8", 0.03), ("int4", 0.03)][: 2 if is_whole("xoptim/precision") else 0]],
)
def test_boxes_and_scores_keep_the_tolerance(layout: Layout, scheme: str, tolerance: float) -> None:
    """On samples that nothing was chosen on."""
    model = detector(layout)
    samples = [anchors(seed=seed) for seed in range(8)]
    found = quantized(model, scheme=scheme, tolerance=tolerance, feeds=samples, goal="size")
    assert found.applied, "something is quantized"
    assert 0 < found.error <= found.tolerance == tolerance
    assert found.worst is not None
    assert str(found.worst.name) in texts(slices_of(model, *samples))
    assert f"in {found.worst.name} (largest" in found.summary()
    for seed in range(100, 104):
        feeds = anchors(seed=seed)
        expected, actual = (run(each, feeds)[0] for each in (model, found.verified.proto))
        pairs = zip(parts_of(layout, expected), parts_of(layout, actual), strict=True)
        errors = [np.abs(b - a).max() / np.abs(a).max() for a, b in pairs]
        assert max(errors) <= 1.6 * tolerance


def sized(*sizes: float, metric: ErrorMetric = "largest") -> OutputSlices:
    """The only slice of an output that has these sizes on samples."""
    arrays = [np.full((1, 2), size, np.float32) for size in sizes]
    return OutputSlices.find(["y"], {}, [[array] for array in arrays], metric)


@pytest.mark.parametrize("metric", ["largest", "rms"])
def test_a_small_sample_is_measured_by_the_typical_size(metric: ErrorMetric) -> None:
    slices = sized(0.1, 2.0, 4.0, 90.0, metric=metric)
    assert slices.slices[0].typical == 2.0, "an outlier does not move the lower median"
    for size, divisor in ((0.0, 2.0), (0.1, 2.0), (4.0, 4.0)):
        expected = np.full((1, 2), size, np.float32)
        actual = expected + np.float32(0.2)
        assert slices.errors(metric, [expected], [actual])[0] == pytest.approx(0.2 / divisor)


@pytest.mark.parametrize("sizes", [(0.1,), (0.1, 90.0), (0.1, 0.1, 90.0)])
def test_few_samples_or_one_outlier_do_not_make_errors_smaller(sizes: tuple[float, ...]) -> None:
    expected = np.full((1, 2), 0.1, np.float32)
    error = sized(*sizes).errors("largest", [expected], [expected + np.float32(0.01)])[0]
    assert error == pytest.approx(0.1)


def test_metrics_without_a_size_have_no_typical_one() -> None:
    for metric in ("choice", "cosine", lambda expected, actual: 0.0):
        assert sized(1.0, 2.0, 3.0, metric=metric).slices[0].typical == 0.0


def test_an_output_that_is_usually_zero_has_no_typical_size() -> None:
    expected = np.zeros((1, 2), np.float32)
    error = sized(0.0, 0.0, 5.0).errors("largest", [expected], [expected + np.float32(0.01)])[0]
    assert error == 1.0


def test_numbers_that_are_not_finite_have_no_size() -> None:
    arrays = [np.array([[1.0, value]], np.float32) for value in (np.inf, np.nan, 1.0)]
    slices = OutputSlices.find(["y"], {}, [[array] for array in arrays], "largest")
    assert slices.slices[0].typical == 1.0
