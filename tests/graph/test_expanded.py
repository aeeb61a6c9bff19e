"""Constants of which one copy of the elements that repeat is kept."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.support import load
from xoptim.graph.expanded import expanded
from xoptim.graph.graph import Graph
from xoptim.graph.tensors import Tensor

MODEL = "agraph (float[n] x) => (float[n] y) { y = Neg(x) }"


def graph(opset: int = 18) -> Graph:
    return load(MODEL, opset=opset).graph


ROWS = np.broadcast_to(np.arange(40, dtype=np.float32)[:, None], (40, 30))


@pytest.mark.parametrize(
    ("array", "core"),
    [
        (np.full((30, 40), 2.5, np.float32), (1, 1)),
        (np.full((30, 40), -0.0, np.float32), (1, 1)),
        (np.full((30, 40), np.nan, np.float16), (1, 1)),
        (np.zeros((2, 3000), bool), (1, 1)),
        (np.ones(3000, np.int64), (1,)),
        (ROWS, (40, 1)),
        (ROWS.copy().T, (1, 40)),
    ],
    ids=["number", "minus zero", "NaN", "bool", "int64", "a view", "columns"],
)
def test_the_elements_are_the_same_bits(array: np.ndarray, core: tuple[int, ...]) -> None:
    found = expanded(graph(), Tensor.from_array(array))
    assert found is not None
    assert (found.core.shape, found.shape, found.stored_bytes) == (
        core,
        array.shape,
        found.core.nbytes,
    )
    assert found.to_raw() == array.tobytes()


def mixed(first: Any, other: Any) -> np.ndarray:
    array = np.full((40, 40), other, np.float32)
    array[-1, -1] = first
    return array


@pytest.mark.parametrize(
    "array",
    [
        np.arange(3000, dtype=np.float32),
        mixed(0.0, -0.0),
        mixed(1, 2),
        np.zeros(10, np.float32),
        np.zeros((0, 5000), np.float32),
        np.full(3000, "a", object),
        np.zeros(3000, ml_dtypes.bfloat16),
    ],
    ids=[
        "all differ",
        "signs of zeros",
        "the last differs",
        "small",
        "empty",
        "text",
        "a type without kernels",
    ],
)
def test_what_is_stored_whole(array: np.ndarray) -> None:
    assert expanded(graph(), Tensor.from_array(array)) is None


def test_two_different_payloads_of_nan_differ() -> None:
    bits = np.full(3000, 0x7FC00000, np.uint32)
    bits[7] += 1
    assert expanded(graph(), Tensor.from_array(bits.view(np.float32))) is None


@pytest.mark.parametrize(
    ("opset", "expected"), [(7, ""), (8, "Expand"), (9, "ConstantOfShape"), (18, "ConstantOfShape")]
)
def test_the_operator_that_the_model_has(opset: int, expected: str) -> None:
    target = graph(opset)
    found = expanded(target, Tensor.from_array(np.full((30, 40), 2.5, np.float32)))
    assert (found is not None) == bool(expected)
    if found is not None:
        assert found.core.size == 1
        target.add_initializer("c", found)
        target.set_inputs(next(iter(target.nodes)), ["c"])
        assert found.write(target, "c").op_type == expected


def test_equal_ones_have_equal_keys() -> None:
    one, same = (
        expanded(graph(), Tensor.from_array(np.full((30, 40), 2, np.float32))) for _ in range(2)
    )
    other = expanded(graph(), Tensor.from_array(np.full((30, 40), 3, np.float32)))
    assert one is not None
    assert same is not None
    assert other is not None
    assert one.key() == same.key() != other.key()
    assert one.uniform() == 2
