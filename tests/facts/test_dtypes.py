import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper

from xoptim.facts import dtypes

KNOWN = [n for n in TensorProto.DataType.values() if n in dtypes.ELEMENT_TYPES]


def test_every_type_of_the_standard_is_known() -> None:
    exotic = {"UNDEFINED", "FLOAT6E2M3", "FLOAT6E3M2"}
    assert {
        TensorProto.DataType.Name(n) for n in TensorProto.DataType.values() if n not in KNOWN
    } <= exotic


@pytest.mark.parametrize("number", KNOWN)
def test_agrees_with_onnx(number: int) -> None:
    assert dtypes.numpy_dtype(number) == helper.tensor_dtype_to_np_dtype(number)
    assert dtypes.element_type(dtypes.numpy_dtype(number)) == number
    assert dtypes.type_name(number) in (
        TensorProto.DataType.Name(number).lower(),
        "float",
        "double",
    )


def test_strings_of_all_kinds() -> None:
    assert {dtypes.element_type(np.dtype(t)) for t in ("U3", "S5", object)} == {TensorProto.STRING}


def test_sizes() -> None:
    assert dtypes.bits(TensorProto.INT4) == 4
    assert dtypes.bits(TensorProto.COMPLEX128) == 128
    assert dtypes.bits(TensorProto.STRING) == dtypes.bits(99) == 0
    assert dtypes.byte_size(TensorProto.INT4, 3) == 2
    assert dtypes.byte_size(TensorProto.BFLOAT16, 3) == 6


def test_kinds() -> None:
    floats = {n for n in KNOWN if dtypes.is_float(n)}
    assert {TensorProto.BFLOAT16, TensorProto.FLOAT8E5M2, TensorProto.DOUBLE} <= floats
    assert not floats & {n for n in KNOWN if dtypes.is_integer(n)}
    assert dtypes.is_integer(TensorProto.UINT4)
    assert not dtypes.is_integer(TensorProto.BOOL)
    assert dtypes.is_signed_integer(TensorProto.INT4)
    assert not dtypes.is_signed_integer(TensorProto.UINT8)
    assert not dtypes.is_float(TensorProto.COMPLEX64)
    assert not dtypes.is_float(99)


def test_names_of_what_is_no_type() -> None:
    assert dtypes.type_name(0) == "undefined"
    assert dtypes.type_name(99) == "type 99"
    with pytest.raises(KeyError):
        dtypes.numpy_dtype(99)
    with pytest.raises(KeyError):
        dtypes.element_type(np.dtype("datetime64[s]"))


@pytest.mark.parametrize("number", KNOWN)
def test_tolerances_grow_with_the_loss(number: int) -> None:
    exact, rounding, finite, approximate = (
        dtypes.tolerance(number, e) for e in ("exact", "rounding", "finite", "approximate")
    )
    assert exact == (0, 0)
    assert finite == rounding
    assert approximate.rtol >= rounding.rtol
    rounds = dtypes.is_float(number) or number in (TensorProto.COMPLEX64, TensorProto.COMPLEX128)
    assert (rounding.rtol > 0) is rounds


@pytest.mark.parametrize(
    "dtype",
    [
        np.float64,
        np.float32,
        np.float16,
        ml_dtypes.bfloat16,
        ml_dtypes.float8_e4m3fn,
        ml_dtypes.float8_e5m2,
    ],
)
def test_rounding_allows_at_least_a_step(dtype: type) -> None:
    step = float(ml_dtypes.finfo(dtype).eps)  # type: ignore[no-untyped-call]
    assert dtypes.tolerance(dtypes.element_type(dtype), "rounding").rtol >= step


def test_unknown_exactness() -> None:
    with pytest.raises(ValueError, match="rounding"):
        dtypes.tolerance(TensorProto.FLOAT, "roughly")  # type: ignore[arg-type]


def test_one_weak_guarantee_weakens_all() -> None:
    assert dtypes.weakest(["exact", "finite", "rounding"]) == "finite"
    assert dtypes.weakest([]) == "exact"
