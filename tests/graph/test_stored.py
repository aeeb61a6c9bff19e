from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, numpy_helper

from tests.support import tensor_proto
from xoptim.facts.errors import ModelError
from xoptim.graph.stored import StoredTensor, data_size, raw_data


@pytest.mark.parametrize(
    "fields",
    [
        {"data_type": 1, "dims": [4], "raw_data": b"123"},
        {"data_type": 1, "dims": [1], "raw_data": b"12345678"},
        {"data_type": 1, "dims": [4], "float_data": [1.0, 2.0]},
        {"data_type": 1, "dims": [4]},
        {"data_type": 1, "dims": [-1], "float_data": [1.0]},
        {"data_type": 1, "dims": [2], "int64_data": [1, 2]},
        {"data_type": 22, "dims": [9], "int32_data": [1]},
        {"data_type": 22, "dims": [9], "raw_data": b"1"},
        {"data_type": 16, "dims": [9], "int32_data": [1]},
        {"data_type": 99, "dims": [1], "raw_data": b"1234"},
        {"data_type": 0, "dims": [1], "raw_data": b"1234"},
        {"data_type": 8, "dims": [3], "string_data": [b"a"]},
        {"data_type": 8, "dims": [1], "string_data": [b"\xff"]},
    ],
)
def test_damaged_data(fields: dict[str, Any]) -> None:
    with pytest.raises(ModelError, match="tensor 'w' is damaged"):
        StoredTensor(tensor_proto(**fields)).numpy()


def external(**place: str) -> TensorProto:
    tensor = tensor_proto(data_type=1, dims=[4], data_location=TensorProto.EXTERNAL)
    for key, value in place.items():
        tensor.external_data.add(key=key, value=value)
    return tensor


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    inner = tmp_path / "model"
    (inner / "deep").mkdir(parents=True)
    data = np.arange(8, dtype=np.float32).tobytes()
    for path in (tmp_path / "x", inner / "w", inner / "deep" / "w"):
        path.write_bytes(data)
    return inner


@pytest.mark.parametrize(
    ("place", "first"),
    [
        ({"location": "w"}, 0.0),
        ({"location": "w", "offset": "16", "length": "16"}, 4.0),
        ({"location": "deep/w", "offset": "4"}, 1.0),
        ({"location": "w", "length": "32"}, 0.0),
    ],
)
def test_external_data(folder: Path, place: dict[str, str], first: float) -> None:
    tensor = StoredTensor(external(**place), folder)
    assert tensor.is_external
    assert tensor.numpy().tolist() == [first, first + 1, first + 2, first + 3]
    assert tensor.to_raw() == tensor.numpy().tobytes()
    assert tensor.external_location()[0] == (folder / place["location"]).resolve()


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ({"location": "../x"}, "outside"),
        ({"location": "../../x"}, "outside"),
        ({"location": "deep/../../x"}, "outside"),
        ({"location": "/etc/passwd"}, "outside"),
        ({"location": "nothing"}, "nothing' is missing"),
        ({"location": ""}, "is missing"),
        ({}, "is missing"),
        ({"location": "deep"}, "is not a file"),
        ({"location": "w", "offset": "20"}, "too short"),
        ({"location": "w", "offset": "-4"}, "not a number"),
        ({"location": "w", "length": "100"}, "too short"),
        ({"location": "w", "length": "4"}, "too short"),
        ({"location": "w", "offset": "many"}, "not a number"),
    ],
)
def test_external_data_that_cannot_be_read(
    folder: Path, place: dict[str, str], message: str
) -> None:
    tensor = StoredTensor(external(**place), folder)
    for read in (tensor.numpy, tensor.external_location, tensor.to_raw):
        with pytest.raises(ModelError, match=message):
            read()


def test_a_link_out_of_the_folder_is_not_followed(folder: Path) -> None:
    (folder / "link").symlink_to(folder.parent / "x")
    with pytest.raises(ModelError, match="outside"):
        StoredTensor(external(location="link"), folder).numpy()


def test_a_wrong_count_is_found_without_reading_the_numbers() -> None:
    StoredTensor(tensor_proto(data_type=1, dims=[2], float_data=[1.0, 2.0])).check_count()
    # only the usual types are checked ahead
    StoredTensor(tensor_proto(data_type=9, dims=[2])).check_count()
    StoredTensor(external(location="nothing")).check_count()
    with pytest.raises(ModelError, match=r"'w' is damaged: 1 .* 2 "):
        StoredTensor(tensor_proto(data_type=1, dims=[2], float_data=[1.0])).check_count()
    with pytest.raises(ModelError, match=r"'w' is damaged: 4 .* 8 "):
        StoredTensor(tensor_proto(data_type=1, dims=[2], raw_data=b"1234")).check_count()


def test_numbers_that_were_read_are_not_parsed_again() -> None:
    stored = StoredTensor(tensor_proto(data_type=1, dims=[2], float_data=[1.0, 2.0]))
    assert stored.to_raw() == np.array([1, 2], np.float32).tobytes()
    assert stored.to_raw(np.array([3, 4], np.float32)) == np.array([3, 4], np.float32).tobytes()


def test_sizes_and_raw_data() -> None:
    assert [
        data_size(dtype, (3, 1))
        for dtype in (TensorProto.FLOAT, TensorProto.INT4, TensorProto.STRING)
    ] == [12, 2, 24]
    foreign = np.asfortranarray(np.arange(6, dtype=np.float32).reshape(2, 3))
    assert raw_data(TensorProto.FLOAT, foreign) == np.arange(6, dtype=np.float32).tobytes()


def test_the_protobuf_is_copied_for_another_name_only() -> None:
    given = numpy_helper.from_array(np.ones(2, np.float32), "w")
    stored = StoredTensor(given)
    assert stored.to_proto("w") is given
    assert stored.to_proto("v").name == "v"
    assert given.name == "w"
