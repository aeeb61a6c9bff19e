"""Inputs and outputs of 16 bits."""

import numpy as np
import onnx
from onnx import TensorProto

from tests.support import parse, run
from xoptim.precision.float16_io import with_float16_feeds, with_float16_io
from xoptim.verification.runs.session import Port, Value


def types(model: onnx.ModelProto) -> dict[str, int]:
    return {
        value.name: value.type.tensor_type.elem_type
        for value in (*model.graph.input, *model.graph.output)
    }


def test_ports_keep_their_names_and_order() -> None:
    model = parse(
        "agraph (float[n,2] x, int64[n] k, bool c, float[2] w) "
        "=> (float[n,2] y, int64[n] k2, float[n,2] z) <float[2] w = {1, 2}> { y = Mul(x, w) "
        "k2 = Identity(k) z = If (c) <then_branch = a () "
        "=> (float[n,2] s) { s = Add(x, y) }, else_branch = b () => (float[n,2] t) { "
        "t = Neg(x) }> }"
    )
    found = with_float16_io(model)
    onnx.checker.check_model(found, full_check=True)
    half, whole = TensorProto.FLOAT16, TensorProto.FLOAT
    integers = TensorProto.INT64
    assert list(types(found).items()) == [
        *(("x", half), ("k", integers), ("c", TensorProto.BOOL), ("w", whole)),
        *(("y", half), ("k2", integers), ("z", half)),
    ]
    feeds = {
        "x": np.array([[1, 2], [3, 4]], np.float32),
        "k": np.array([1, 2]),
        "c": np.array(True),
    }
    narrow = with_float16_feeds(feeds, [Port("x", "tensor(float16)"), Port("k", "tensor(int64)")])
    for expected, actual in zip(run(model, feeds), run(found, narrow), strict=True):
        np.testing.assert_array_equal(expected, actual.astype(expected.dtype))


def test_an_input_that_is_an_output() -> None:
    model = parse("agraph (float[2] x) => (float[2] x, float[2] y) { y = Neg(x) }")
    found = with_float16_io(model)
    assert [*types(found).values()] == [TensorProto.FLOAT16] * 2
    feeds = {"x": np.array([1, 2], np.float16)}
    assert [value.tolist() for value in run(found, feeds)] == [[1, 2], [-1, -2]]


def test_only_32_bit_floats_are_made_narrow() -> None:
    given: dict[str, Value] = {
        "a": np.ones(2),
        "b": np.ones(2, np.float32),
        "c": [np.ones(2, np.float32)],
        "d": np.full(1, 1e9, np.float32),
    }
    found = with_float16_feeds(given, [Port(name, "tensor(float16)") for name in "acd"])
    assert [getattr(value, "dtype", None) for value in found.values()] == [
        np.float64,
        np.float32,
        None,
        np.float16,
    ]
    assert np.isinf(np.asarray(found["d"])).all()
