"""Choices that are tried as a whole, such as convolutions with everything between them on
integers.
"""

import weakref
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from tests.precision.models import convolutions, images, kernels
from tests.support import values_in
from xoptim.engine.options import OptimizationOptions
from xoptim.optimizing.plans import Plan, Sink
from xoptim.optimizing.verified import optimize_verified
from xoptim.precision import reference, switched_session
from xoptim.precision.options import PrecisionOptions
from xoptim.precision.quantize import before_quantization, quantize
from xoptim.precision.quantized import Quantized
from xoptim.verification.runs.session import Session

pytestmark = pytest.mark.usefixtures("faster")


def quantized(model: onnx.ModelProto, patterns: str = "default", **options: Any) -> Quantized:
    """A model in lower precision."""
    how, chosen = Plan(), OptimizationOptions(patterns=patterns)
    precision = PrecisionOptions(
        **{"tolerance": 0.5, "feeds": [images(), images(seed=1)], **options}
    )
    return quantize(
        optimize_verified(model, before_quantization(chosen), how), chosen, how, precision
    )


@pytest.mark.parametrize("opset", [11, 13, 17, 21])
def test_integers_from_the_first_convolution_to_the_last(opset: int, tmp_path: Path) -> None:
    found = quantized(convolutions(opset))
    assert not found.fault
    patterns = [*found.applied.values()]
    assert [patterns.count(name) for name in ("Int8Conv", "Int8Operands")] == [7, 1]
    loaded = kernels(found.verified.proto, tmp_path)
    assert (loaded.count("QLinearConv"), loaded.count("Conv")) == (3, 0)
    assert {"QLinearAdd", "QLinearSigmoid", "QLinearMul"} <= {*loaded}
    assert 0 < found.error < 0.1
    assert [report.status for report in found.comparisons] == ["equal"]


@pytest.mark.parametrize("further", ["", "+QLinear+QLinearElement"])
def test_fused_convolutions_do_not_keep_integers_out(tmp_path: Path, further: str) -> None:
    found = quantized(convolutions(), f"default+onnxruntime{further}")
    assert not found.fault
    assert kernels(found.verified.proto, tmp_path).count("QLinearConv") == 3
    assert ("QLinearConv" in {node.op_type for node in found.verified.proto.graph.node}) == bool(
        further
    )


def test_summary_counts_what_is_chosen() -> None:
    found = quantized(convolutions())
    assert found.summary().startswith("int8: 4 of 4 ")
    some = quantized(convolutions(), tolerance=found.error / 3)
    assert some.error <= found.error / 3
    assert len(some.operators) < len(found.operators)


def test_nothing_is_rounded_where_the_whole_is_not_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(
        "xoptim.precision.attempts.best_times", lambda runs, *_: [1.0, *[1.1] * (len(runs) - 1)]
    )
    found = quantized(convolutions(), goal="speed")
    assert {*found.applied.values()} == {"Int8Weights"}
    assert values_in(found.summary())[1:5] == ["0", "4", "4", "8"]
    closer = quantized(convolutions(), goal="speed", tolerance=found.error / 3)
    assert {*closer.applied.values()} == {"Float16Weights", "Int8Weights"}
    assert 0 < closer.error <= found.error / 3


def test_slower_ones_are_taken_where_the_whole_is_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second convolution takes longer alone; with it nothing is converted in between."""
    alone = iter([[1.0, 0.5], [1.0, 1.2], [1.0, 0.5], [1.0, 0.5], [1.0, 0.6]])
    monkeypatch.setattr("xoptim.precision.times.best_times", lambda *_: next(alone))
    monkeypatch.setattr(
        "xoptim.precision.attempts.best_times", lambda runs, *_: [1.0, 0.7, 0.4][: len(runs)]
    )
    found = quantized(convolutions(), goal="speed")
    assert found.summary().startswith("int8: 4 of 4 ")


def test_random_values_have_no_ranges() -> None:
    model = convolutions()
    del model.graph.node[-3:]
    model.graph.output[0].CopyFrom(
        onnx.helper.make_tensor_value_info("m", onnx.TensorProto.FLOAT, None)
    )
    for goal in ("size", "speed"):
        assert {*quantized(model, feeds=(), goal=goal).applied.values()} == {"Int8Weights"}
    assert {*quantized(convolutions(), feeds=()).applied.values()} == {
        "Int8Operands",
        "Int8Weights",
    }


def test_a_rounded_model_is_left_alone() -> None:
    once = quantized(convolutions())
    again = quantized(once.verified.proto)
    assert (again.applied, again.fault) == ({}, "")
    assert "int8" in again.reason


@pytest.mark.parametrize("calibration", ["percentile", "entropy"])
def test_calibrations(calibration: str) -> None:
    found = quantized(convolutions(), calibration=calibration)
    assert not found.fault
    assert "Int8Conv" in found.applied.values()
    own = found.verified.builder.report()
    name, count = next(iter(own.applied.items()))
    assert found.report(replace(own, applied={name: 2})).applied[name] == 2 + count


def test_a_result_that_is_almost_zero_stays_in_floats() -> None:
    """The average of what an InstanceNormalization makes is 0: onnxruntime refuses to compute it on
    integers.
    """
    model = onnx.parser.parse_model(
        """<ir_version: 8,
          opset_import: ["" : 17]> network (float[n,3,16,16] x) => (float[n,64,9,9] y)
        <float[64,3,8,8] k, float[64] one, float[64] zero>
        { c = Conv(x, k) i = InstanceNormalization(c, one, zero) a = GlobalAveragePool(i)
          y = Add(c, a) }"""
    )
    rng = np.random.default_rng(0)
    numbers = {"k": rng.standard_normal((64, 3, 8, 8)), "one": np.ones(64), "zero": np.zeros(64)}
    model.graph.ClearField("initializer")
    for name, array in numbers.items():
        model.graph.initializer.append(onnx.numpy_helper.from_array(array.astype(np.float32), name))
    found = quantized(model)
    assert sorted(found.applied) == ["c"]
    assert [report.status for report in found.comparisons] == ["equal"]


@pytest.mark.parametrize("goal", ["size", "speed"])
def test_weights_in_all_forms_are_freed_before_the_proof(
    goal: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sessions = list[weakref.ref[Session]]()

    def noted(*args: Any, **options: Any) -> Session:
        sessions.append(weakref.ref(found := Session(*args, **options)))
        return found

    def verified(*args: Any, **options: Any) -> Any:
        assert [each() for each in sessions] == [None] * len(sessions) != []
        return optimize_verified(*args, **options)

    monkeypatch.setattr(switched_session, "Session", noted)
    monkeypatch.setattr(reference, "Session", noted)
    monkeypatch.setattr("xoptim.precision.quantize.optimize_verified", verified)
    assert not quantized(convolutions(), goal=goal).fault


def test_constants_of_quantized_operators_are_not_measured() -> None:
    """They are of no use, and would take two thirds of the runs."""
    feeds = [images(seed=seed) for seed in range(4)]
    how, options = Plan(), OptimizationOptions()
    steps: list[str] = []
    how = replace(how, sink=Sink(on_step=steps.append))
    precision = PrecisionOptions(static=True, tolerance=0.5, feeds=feeds)
    found = quantize(optimize_verified(convolutions(), options, how), options, how, precision)
    assert found.operators
    assert not [each for each in found.choices if each.measured.candidate.is_weight_only]
    totals = {
        int(step.rpartition(" ")[2]) for step in steps if step.startswith("measuring the error of")
    }
    assert totals == {4}
