"""Quantized models are judged as they were made, in Python too."""

from pathlib import Path

import onnx
import pytest

import xoptim
from tests.precision.detectors import anchors, detector
from xoptim.precision.options import PrecisionOptions


@pytest.fixture(scope="module")
def precision() -> PrecisionOptions:
    samples = [anchors(seed=seed) for seed in range(4)]
    return PrecisionOptions(tolerance=0.02, goal="size", feeds=samples)


@pytest.fixture(scope="module")
def quantized(precision: PrecisionOptions) -> onnx.ModelProto:
    return xoptim.optimize(detector("columns"), precision=precision)


def test_within_the_tolerance(quantized: onnx.ModelProto, precision: PrecisionOptions) -> None:
    assert xoptim.verify(detector("columns"), quantized).status == "different"
    report = xoptim.verify(detector("columns"), quantized, precision=precision)
    assert report.status == "equal"
    assert "at most 2.00%" in report.notes[0]


def test_beyond_the_tolerance(quantized: onnx.ModelProto) -> None:
    strict = PrecisionOptions(tolerance=1e-5, feeds=[anchors(seed=0)])
    report = xoptim.verify(detector("columns"), quantized, precision=strict)
    assert report.status == "different"
    assert "y, columns" in report.reason


def test_external_data(
    tmp_path: Path, quantized: onnx.ModelProto, precision: PrecisionOptions
) -> None:
    path, copy = tmp_path / "int8.onnx", onnx.ModelProto()
    copy.CopyFrom(quantized)  # saving moves its weights
    onnx.save(copy, path, save_as_external_data=True, size_threshold=256)
    unread = onnx.load(path, load_external_data=False)
    with_folder = xoptim.VerificationOptions(optimized_dir=tmp_path)
    for model, options in ((path, None), (unread, with_folder)):
        report = xoptim.verify(detector("columns"), model, options, precision=precision)
        assert report.status == "equal"


def test_a_function_has_no_slices(quantized: onnx.ModelProto, precision: PrecisionOptions) -> None:
    with pytest.raises(TypeError, match="precision"):
        xoptim.verify(lambda x: x, quantized, precision=precision)
