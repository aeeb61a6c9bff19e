"""A malformed model gives fewer facts.

A formula never raises, and never breaks the rules of `Info`.
"""

import random
from typing import Any

import numpy as np
import pytest
from onnx import AttributeProto, TensorProto, numpy_helper

from tests.operators.inference.context import FakeContext, Input
from xoptim.facts.attributes import AttributeReference
from xoptim.facts.dims import SymbolicDim, fresh, named
from xoptim.facts.shapes import UNKNOWN, Info
from xoptim.operators.registry import OPERATORS

pytestmark = pytest.mark.slow

FORMULAS = {key: each.formula for key, each in OPERATORS.items() if each.formula}

n, m = named("n"), named("m")
F, I64, I32 = TensorProto.FLOAT, TensorProto.INT64, TensorProto.INT32
INPUTS: list[Input] = [
    None,
    UNKNOWN,
    Info(F),
    Info(I64),
    Info(F, ()),
    Info(F, (n,)),
    Info(F, (n, 3)),
    Info(F, (1, n, 0, m)),
    Info(0, (2, n)),
    Info(I64, (0,), ()),
    Info(I64, (), (n,)),
    Info(I64, (2,), (n, -1)),
    Info(I32, (2,), (n - m, 0)),
    Info(I64, (1,), (fresh(nonnegative=False),)),
    Info(I64, (3,), (-7, 2**63 - 1, -(2**63))),
    Info(TensorProto.BOOL, (2,), (0, 1)),
    Info(F, (1,), (0,)),
    Info(TensorProto.STRING, (n,)),
    Info(99, (n,)),
    Info(container="sequence", element=Info(F, (n,))),
    Info(container="map", type_proto=b""),
    np.array([], dtype=np.int64),
    np.array(0),
    np.array([1, -1]),
    np.array([2**63 - 1, 0]),
    np.array([[1, 2], [3, 4]]),
    np.array(1.5, dtype=np.float32),
    np.array([np.nan, -0.0], dtype=np.float32),
    np.array([True, False]),
    np.array(["a"], dtype=object),
]
NAMES = (
    "allowzero",
    "axes",
    "axis",
    "batch_dims",
    "blocksize",
    "dtype",
    "ends",
    "equation",
    "fmod",
    "k",
    "keepdims",
    "noop_with_empty_axes",
    "num_outputs",
    "output_dtype",
    "pads",
    "perm",
    "sample_size",
    "shape",
    "split",
    "start",
    "end",
    "starts",
    "to",
    "transA",
    "value",
    "value_int",
    "value_ints",
    "value_floats",
)
VALUES: list[Any] = [
    *(
        0,
        1,
        -1,
        2,
        7,
        -9,
        1 << 40,
        1.5,
        "odd",
        b"\xff",
        "ij,jk->ik",
        "...i->...",
        "->",
        "i->ii",
        "FLOAT",
    ),
    *([], [0], [1, 0], [-1, 2], [0, 0], [5, 6, 7, 8], [1.5], ["a"], [2**63 - 1]),
    AttributeReference("outer", AttributeProto.INTS),
    numpy_helper.from_array(np.array([3])),
    numpy_helper.from_array(np.array([1.5, 2.5])),
    TensorProto(data_type=I64, dims=[2], raw_data=b"1"),
    np.array([1, 2]),
]
COVERED = sorted(
    key
    for key, formula in FORMULAS.items()
    if key[0] == "" and key[1] not in ("If", "Loop", "Scan", "SequenceMap")
)


def _check(info: Info | None) -> None:
    if info is None:
        return
    for dim in info.shape or ():
        assert isinstance(dim, SymbolicDim) or (type(dim) is int and dim >= 0)
    if info.data is not None:
        assert info.shape is not None
        assert info.shape in ((), (len(info.data),))
        assert all(isinstance(value, SymbolicDim) or type(value) is int for value in info.data)
        assert len(info.data) <= 64


@pytest.mark.parametrize("op_type", [op_type for _, op_type in COVERED])
def test_nothing_raises(op_type: str) -> None:
    rng = random.Random(op_type)
    for _ in range(300):
        attributes = {name: rng.choice(VALUES) for name in rng.sample(NAMES, 8)}
        inputs = rng.choices(INPUTS, k=rng.randrange(6))
        context = FakeContext(
            op_type, inputs, attributes, opset=rng.randrange(1, 29), num_outputs=rng.randrange(5)
        )
        for info in FORMULAS["", op_type](context):
            _check(info)
