"""Test data in the layout of ONNX: ``test_data_set_0/input_0.pb`` and so on beside a model."""

from __future__ import annotations

import re
from pathlib import Path

import onnx
from onnx import numpy_helper

from xoptim.facts.protos import is_external
from xoptim.validate.errors import ChoiceError
from xoptim.validate.protos import graph_inputs
from xoptim.validate.session import Value


def load_test_data(folder: Path, model: onnx.ModelProto) -> list[dict[str, Value]]:
    """The feeds of all data sets of a folder, in the order of their numbers.

    The folder holds ``test_data_set_*``, or is itself one data set; ``input_0.pb``, ``input_1.pb``, ... are for the inputs of
    the model, in order. Raises `ChoiceError` when it has no data set, or a file cannot be read.
    """
    if not folder.is_dir():
        raise ChoiceError(f"there is no folder {str(folder)!r} of test data")
    sets = sorted((path for path in folder.glob("test_data_set_*") if path.is_dir()), key=_number) or [folder]
    inputs = graph_inputs(model)
    found = [_load_set(path, inputs) for path in sets]
    if not any(found):
        raise ChoiceError(f"no test data (input_0.pb, ...) in {str(folder)!r}")
    return [feeds for feeds in found if feeds]


def _load_set(folder: Path, inputs: list[onnx.ValueInfoProto]) -> dict[str, Value]:
    files = sorted(folder.glob("input_*.pb"), key=_number)
    if len(files) > len(inputs):
        raise ChoiceError(f"{folder} holds {len(files)} inputs, the model has {len(inputs)}")
    return {value.name: _load_value(path, value.type) for path, value in zip(files, inputs, strict=False)}


def _load_value(path: Path, type_proto: onnx.TypeProto) -> Value:
    kind = type_proto.WhichOneof("value")
    data = path.read_bytes()
    try:
        if kind == "sequence_type":
            sequence = onnx.SequenceProto.FromString(data)
            _check_whole(*sequence.tensor_values)
            items: list[Value] = numpy_helper.to_list(sequence)
            return items
        if kind == "optional_type":
            content: Value = numpy_helper.to_optional(onnx.OptionalProto.FromString(data))
            return content
        tensor = onnx.TensorProto.FromString(data)
        _check_whole(tensor)
        return numpy_helper.to_array(tensor)
    except Exception as error:  # protobuf and onnx raise several kinds
        raise ChoiceError(f"{path} cannot be read: {error}") from error


def _check_whole(*tensors: onnx.TensorProto) -> None:
    """Raise for values in other files, which onnx would search in the current folder."""
    if any(map(is_external, tensors)):
        raise ValueError("its data is in another file")


def _number(path: Path) -> tuple[int, str]:
    digits = re.findall(r"\d+", path.stem)
    return (int(digits[-1]) if digits else 0), path.name
