"""A model next to a Python function."""

import itertools
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import xoptim
from tests.support import parse, values_in

LINEAR = "agraph (float[n,2] x) => (float[n,1] y) <float[2,1] w = {2, -3}> { y = MatMul(x, w) }"
TWO = (
    "agraph (float[n] x, float[n] z) => (float[n] a, int64[n] b)"
    " { a = Sub(x, z) s = Sign(x) b = Cast<to: int = 7>(s) }"
)
WEIGHTS = np.array([[2.0], [-3.0]])


def linear(x: np.ndarray) -> np.ndarray:
    found: np.ndarray = x.astype(np.float64) @ WEIGHTS
    return found


def two(x: np.ndarray, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return x - z, np.sign(x).astype(np.int32)


def test_a_function_in_64_bits_that_returns_fewer_axes() -> None:
    report = xoptim.verify(lambda x: linear(x)[:, 0], parse(LINEAR))
    assert report.ok, report
    assert {run.dims["n"] for run in report.runs} >= {1, 2, 3}
    (note,) = report.notes
    assert values_in(note) == ["y", "2", "1", "1"]


def test_a_difference_is_told() -> None:
    report = xoptim.verify(lambda x: linear(x) * 1.001, parse(LINEAR))
    assert report.status == "different"
    assert "output 'y' with n=2: " in report.reason
    assert re.search("2 of 2 .* differ", report.reason)


def test_rounding_of_the_model_is_no_difference() -> None:
    """A sum of large terms that cancel, computed in 64 bits by the function."""
    text = (
        "agraph (float[n,512] x) => (float[n,1] y) <float[1] big = {10000}>"
        " { a = Add(x, big) s = ReduceSum<keepdims: int = 1>(a, axes) y = Sub(s, total) }"
    )
    model = parse(text)
    model.graph.initializer.extend(
        (
            onnx.numpy_helper.from_array(np.array([1], np.int64), "axes"),
            onnx.numpy_helper.from_array(np.array([5_120_000], np.float32), "total"),
        )
    )

    def function(x: np.ndarray) -> Any:
        return (x.astype(np.float64) + 10000).sum(axis=1, keepdims=True) - 5_120_000

    report = xoptim.verify(function, model)
    assert report.status != "different", report
    assert not xoptim.verify(lambda x: function(x) + 1000, model).ok


@pytest.mark.parametrize(
    "returned",
    [
        two,
        lambda x, z: list(two(x, z)),
        lambda x, z: dict(zip(("b", "a"), reversed(two(x, z)), strict=True)),
    ],
)
def test_several_outputs_in_order_or_by_name(returned: Callable[..., Any]) -> None:
    assert xoptim.verify(returned, parse(TWO)).ok
    swapped = xoptim.verify(lambda x, z: returned(z, x), parse(TWO))
    assert swapped.status == "different"


def test_values_that_are_given() -> None:
    seen: list[np.ndarray] = []

    def function(x: np.ndarray) -> np.ndarray:
        seen.append(x)
        return linear(x)

    x = np.array([[1, 2], [3, 4], [5, 6], [7, 8]], np.float32)
    assert xoptim.verify(function, parse(LINEAR), feeds={"x": x}).ok
    assert all(np.array_equal(each, x) for each in seen)


def test_a_function_may_change_its_operand() -> None:
    def function(x: np.ndarray) -> np.ndarray:
        found = linear(x)
        x[:] = 0
        return found

    assert xoptim.verify(function, parse(LINEAR)).ok


def test_a_file_is_compared(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(parse(LINEAR), path)
    assert xoptim.verify(linear, path).ok


def failing(x: np.ndarray) -> np.ndarray:
    raise ValueError("expected 2 dimensions")


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (failing, "the function fails on arrays of shape [2, 2]: ValueError: expected 2 dim"),
        (lambda x: (x, x), "the function returns 2 values, and the model has 1 output: y"),
        (lambda x: {"z": x}, "the function returns z, but not y, which the model computes"),
        (lambda x: [[1.0], [1.0, 2.0]], "the function returns a value that is no array"),
    ],
)
def test_a_function_that_does_not_fit(function: Callable[..., Any], reason: str) -> None:
    report = xoptim.verify(function, parse(LINEAR))
    assert report.status == "not verified"
    assert report.cause == "run"
    assert reason in report.reason


@pytest.mark.parametrize("value", [None, 1.0, np.array(1.0)])
def test_one_value_for_several_outputs(value: Any) -> None:
    model = parse("agraph (float[n] x) => (float[n] y, float[n] z) { y = Relu(x) z = Neg(x) }")
    reason = xoptim.verify(lambda x: value, model).reason
    assert re.search("function .* 1 value, .*model .* 2 outputs: y, z$", reason)


def test_a_function_that_does_not_repeat_its_results() -> None:
    count = itertools.count()
    report = xoptim.verify(lambda x: linear(x) + next(count), parse(LINEAR))
    assert report.status == "not verified"
    assert re.match("the function is not deterministic: .*'y'", report.reason)


def test_a_model_that_does_not_load() -> None:
    text = "agraph (float[n] x) => (float[n] y) { y = custom.Unknown(x) }"
    report = xoptim.verify(np.abs, parse(text, domains={"custom": 1}))
    assert (report.status, report.cause) == ("not verified", "load")


def test_maps_of_classes_are_compared_by_class() -> None:
    """As a classifier with ZipMap returns them: a list with a map for each row."""
    text = (
        "agraph (float[n,2] x) => (y)"
        " { y = ai.onnx.ml.ZipMap<classlabels_int64s: ints = [3, 5]>(x) }"
    )
    model = parse(text, domains={"ai.onnx.ml": 1})
    map_type = onnx.helper.make_map_type_proto(
        onnx.TensorProto.INT64, onnx.helper.make_tensor_type_proto(onnx.TensorProto.FLOAT, ())
    )
    model.graph.output[0].type.CopyFrom(onnx.helper.make_sequence_type_proto(map_type))

    def function(x: np.ndarray) -> list[dict[int, float]]:
        return [dict(zip((3, 5), map(float, row), strict=True)) for row in x]

    assert xoptim.verify(function, model).ok
    report = xoptim.verify(lambda x: function(x + 1), model)
    assert report.status == "different"
    assert "output 'y[3]'" in report.reason


def test_assumptions_in_metadata_are_no_evidence() -> None:
    model = parse(LINEAR)
    model.metadata_props.add(key="xoptim.assumptions", value="n == 1")

    def right_for_one(x: np.ndarray) -> np.ndarray:
        return linear(x) * len(x)

    report = xoptim.verify(right_for_one, model)
    assert (report.status, report.cause) == ("not verified", "assumptions")
    assert xoptim.verify(right_for_one, model, assume_from_model=True).ok


def test_a_torch_module_is_not_called_with_arrays() -> None:
    class Module:
        """Called as one of torch's modules is."""

        def __call__(self, x: np.ndarray) -> np.ndarray:
            return x

    Module.__module__ = "torch.nn.modules.module"
    with pytest.raises(TypeError, match=r"xoptim\.integrations\.torch\.verify"):
        xoptim.verify(Module(), parse(LINEAR))


def test_a_pipeline_of_sklearn() -> None:
    pytest.importorskip("sklearn")
    converter = pytest.importorskip("skl2onnx")
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 5)).astype(np.float32)
    pipeline = make_pipeline(StandardScaler(), RandomForestClassifier(20, random_state=0))
    pipeline.fit(x, (x[:, 0] > x[:, 1]).astype(np.int64))
    model = xoptim.optimize(converter.to_onnx(pipeline, x[:1]))

    def predict(x: np.ndarray) -> tuple[Any, Any]:
        return pipeline.predict(x), [dict(enumerate(row)) for row in pipeline.predict_proba(x)]

    assert xoptim.verify(predict, model).ok
    assert not xoptim.verify(lambda x: predict(x + 1), model).ok
