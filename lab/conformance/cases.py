"""The conformance cases of the onnx package: models, inputs, and the expected outputs."""

import warnings
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
from onnx import numpy_helper

KINDS = ("node", "simple", "light", "pytorch-converted", "pytorch-operator")
"""The kinds of cases that the package contains.

The kind ``real`` is not among them: it downloads the models of ``light`` with trained weights.
"""
_DATA = Path(onnx.__file__).parent / "backend" / "test" / "data"
_LIGHT_RTOL = 2e-3


class Case(NamedTuple):
    """A model and what it must compute.

    Attributes:
        kind: one of `KINDS`.
        name: name of the case, unique within its kind.
        model: the model.
        data: data sets, each a pair of the inputs and the expected outputs, in the order of the
            model.
        rtol: relative tolerance of the test suite.
        atol: absolute tolerance of the test suite.
    """

    kind: str
    name: str
    model: onnx.ModelProto
    data: tuple[tuple[Sequence[Any], Sequence[Any]], ...]
    rtol: float = 1e-3
    atol: float = 1e-7

    def feeds(self, number: int) -> dict[str, Any]:
        """Inputs of one of the data sets, by name."""
        stored = {tensor.name for tensor in self.model.graph.initializer}
        names = [value.name for value in self.model.graph.input if value.name not in stored]
        return dict(zip(names, map(_array, self.data[number][0]), strict=True))


@cache
def all_cases() -> tuple[Case, ...]:
    """Every case, sorted by kind and name."""
    cases = [*_node_cases(), *_light_cases()]
    for kind in ("simple", "pytorch-converted", "pytorch-operator"):
        cases += [
            _stored_case(kind, folder)
            for folder in (_DATA / kind).iterdir()
            if (folder / "model.onnx").is_file()
        ]
    return tuple(sorted(cases, key=lambda case: (KINDS.index(case.kind), case.name)))


def with_constants(case: Case, *, spare: int) -> onnx.ModelProto | None:
    """The model with the tensors of the first data set in place of its inputs.

    Args:
        case: the case.
        spare: how many of the first inputs stay.

    Returns:
        ``None`` when no input can be replaced.
    """
    feeds = case.feeds(0)
    constants = {n: v for n, v in list(feeds.items())[spare:] if isinstance(v, np.ndarray)}
    if not constants:
        return None
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    inputs = [value for value in case.model.graph.input if value.name not in constants]
    del model.graph.input[:]
    model.graph.input.extend(inputs)
    model.graph.initializer.extend(
        numpy_helper.from_array(value, name) for name, value in constants.items()
    )
    # up to IR version 3, every initializer has to be an input
    model.ir_version = max(model.ir_version, 4)
    return model


def _array(value: Any) -> Any:
    if isinstance(value, onnx.TensorProto):
        return numpy_helper.to_array(value)
    if isinstance(value, np.generic | float | int | bool):
        return np.asarray(value)
    return value


def _node_cases() -> Iterator[Case]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test.case.node import collect_testcases

        cases = collect_testcases(None)
    for case in cases:
        if case.model is not None and case.data_sets:
            data = tuple(
                (inputs, [_array(o) for o in outputs]) for inputs, outputs in case.data_sets
            )
            yield Case("node", case.name, case.model, data, case.rtol, case.atol)


def _stored_case(kind: str, folder: Path) -> Case:
    model = onnx.load(folder / "model.onnx")
    stored = {tensor.name for tensor in model.graph.initializer}
    inputs = [value for value in model.graph.input if value.name not in stored]
    data = [
        (_read(path, "input", inputs), _read(path, "output", model.graph.output))
        for path in sorted(folder.glob("test_data_set*"))
    ]
    return Case(kind, folder.name, model, tuple(data))


def _read(folder: Path, direction: str, values: Sequence[onnx.ValueInfoProto]) -> list[Any]:
    arrays: list[Any] = []
    for number, value in enumerate(values):
        data = (folder / f"{direction}_{number}.pb").read_bytes()
        if value.type.HasField("sequence_type"):
            arrays.append(numpy_helper.to_list(onnx.SequenceProto.FromString(data)))
        elif value.type.HasField("optional_type"):
            arrays.append(numpy_helper.to_optional(onnx.OptionalProto.FromString(data)))
        else:
            arrays.append(numpy_helper.to_array(onnx.TensorProto.FromString(data)))
    return arrays


def _light_cases() -> Iterator[Case]:
    """CNNs whose weights are ConstantOfShape nodes; their inputs are a ramp from 0 to 1."""
    for path in sorted((_DATA / "light").glob("*.onnx")):
        model = onnx.load(path)
        stored = {tensor.name for tensor in model.graph.initializer}
        shapes = [
            [d.dim_value or 1 for d in v.type.tensor_type.shape.dim]
            for v in model.graph.input
            if v.name not in stored
        ]
        inputs = [
            (np.arange(np.prod(s)).reshape(s) / np.prod(s)).astype(np.float32) for s in shapes
        ]
        count = range(len(model.graph.output))
        outputs = [
            onnx.TensorProto.FromString((path.parent / f"{path.stem}_output_{i}.pb").read_bytes())
            for i in count
        ]
        yield Case(
            "light", path.stem, model, ((inputs, [_array(o) for o in outputs]),), _LIGHT_RTOL
        )
