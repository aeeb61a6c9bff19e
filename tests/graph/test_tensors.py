from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.support import tensor_proto
from xoptim.facts.dtypes import ELEMENT_TYPES, numpy_dtype
from xoptim.facts.errors import ModelError
from xoptim.graph.tensors import Tensor

NUMBERS = [number for number in ELEMENT_TYPES if number != TensorProto.STRING]


@pytest.mark.parametrize("dtype", NUMBERS, ids=lambda d: ELEMENT_TYPES[d].name)
def test_every_type_in_every_form(dtype: int) -> None:
    typed = helper.make_tensor("w", dtype, [3, 1], [1, 0, 1])
    tensor = Tensor.from_proto(typed)
    array = tensor.numpy()
    assert (array.dtype, array.shape) == (numpy_dtype(dtype), (3, 1))
    assert array.astype(np.complex64).ravel().tolist() == pytest.approx([1, 0, 1], abs=1e-30)
    raw = helper.make_tensor("w", dtype, [3, 1], tensor.to_raw(), raw=True)
    forms = [tensor, Tensor.from_proto(raw), Tensor.from_array(array)]
    assert len({form.key() for form in forms}) == 1, (
        "the form in which numbers are stored does not matter"
    )
    assert {form.nbytes for form in forms} == {len(tensor.to_raw())}
    for form in forms:
        written = form.to_proto("other")
        assert (written.name, written.data_type, list(written.dims)) == ("other", dtype, [3, 1])
        np.testing.assert_array_equal(Tensor.from_proto(written).numpy(), array)
    assert tensor.to_proto("w") is typed
    assert Tensor.from_array(array.reshape(1, 3)).key() != tensor.key()


@pytest.mark.parametrize("dtype", [TensorProto.INT4, TensorProto.UINT4, 23, 25, 26])
@pytest.mark.parametrize("count", [0, 1, 2, 5, 8, 9])
def test_packed_types_of_any_length(dtype: int, count: int) -> None:
    values = (np.arange(count) % 2).astype(numpy_dtype(dtype))
    tensor = Tensor.from_array(values)
    again = Tensor.from_proto(tensor.to_proto("w"))
    np.testing.assert_array_equal(again.numpy(), values)
    assert again.key() == tensor.key()
    assert again.nbytes == len(again.to_raw())


def test_bits_decide_not_values() -> None:
    def key(*values: float) -> object:
        return Tensor.from_array(np.array(values, np.float32)).key()

    assert key(0.0) != key(-0.0)
    assert key(np.nan) == key(np.nan)
    assert (
        Tensor.from_array(np.zeros(2, np.int32)).key()
        != Tensor.from_array(np.zeros(2, np.float32)).key()
    )
    large = np.arange(1000, dtype=np.float32)
    assert (
        key(*large) == Tensor.from_proto(helper.make_tensor("w", 1, [1000], large.tolist())).key()
    )
    assert key(*large) != key(*large[::-1])


def test_strings() -> None:
    values = ["a", "", "zoë", "null\0"]
    stored = Tensor.from_proto(
        tensor_proto(data_type=8, dims=[2, 2], string_data=[v.encode() for v in values])
    )
    assert stored.numpy().tolist() == [["a", ""], ["zoë", "null\0"]]
    assert stored.numpy().dtype == object
    array = Tensor.from_array(np.array(values, dtype=object).reshape(2, 2))
    assert array.key() == stored.key()
    assert Tensor.from_proto(array.to_proto("s")).key() == stored.key()
    for other in (np.array(["ab", "c"]), np.array([b"ab", b"c"])):
        assert numpy_helper.to_array(Tensor.from_array(other).to_proto("s")).tolist() == ["ab", "c"]


def test_foreign_byte_order_and_layout() -> None:
    plain = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert Tensor.from_array(plain.astype(">f4")).key() == Tensor.from_array(plain).key()
    assert Tensor.from_array(np.asfortranarray(plain)).key() == Tensor.from_array(plain).key()
    stored = Tensor.from_proto(numpy_helper.from_array(plain)).numpy()
    assert stored.dtype.isbuiltin == 1


def test_empty_and_scalar() -> None:
    empty = Tensor.from_proto(tensor_proto(data_type=1, dims=[0, 3]))
    assert empty.numpy().shape == (0, 3)
    assert empty.key() == Tensor.from_array(np.zeros((0, 3), np.float32)).key()
    scalar = Tensor.from_proto(numpy_helper.from_array(np.array(2.5, np.float32)))
    assert (scalar.shape, scalar.size, float(scalar.numpy())) == ((), 1, 2.5)
    assert repr(scalar) == "Tensor(FLOAT, ())"


def test_stripped_weights_are_not_all_equal() -> None:
    stripped = tensor_proto(data_type=1, dims=[4])
    with pytest.raises(ModelError, match="'w' is damaged"):
        Tensor.from_proto(stripped).key()


def external(**place: str) -> TensorProto:
    tensor = tensor_proto(data_type=1, dims=[4], data_location=TensorProto.EXTERNAL)
    for key, value in place.items():
        tensor.external_data.add(key=key, value=value)
    return tensor


def test_external_tensors_are_told_apart_by_their_place() -> None:
    folder = Path("folder")

    def key(base: Path = folder, **place: str) -> object:
        return Tensor.from_proto(external(**place), base).key()

    assert key(location="nothing") == key(location="nothing"), "the data is not read for this"
    assert key(location="w") != key(location="w", offset="16")
    assert key(location="w") != key(location="deep/w")
    assert key(location="w") != key(folder / "deep", location="w")
