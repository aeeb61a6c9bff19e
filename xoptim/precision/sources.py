"""Samples from all sources that users have: folders, loaders of torch, datasets, iterators.

No package is imported: a tensor is anything that numpy converts, a row is a mapping or a sequence.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx

from xoptim.facts.dtypes import numpy_dtype, type_name
from xoptim.facts.protos import fed_inputs
from xoptim.facts.words import listed
from xoptim.precision.options import PrecisionOptions
from xoptim.verification.errors import ChoiceError
from xoptim.verification.inputs.archives import Archive
from xoptim.verification.runs.session import Value

_SUFFIX: Final = "*.npz"


class Sample(dict[str, Value]):
    """The values of the inputs, with the file that they were read from; empty without one."""

    path = ""


def sample_name(index: int, sample: Mapping[str, Any]) -> str:
    """A sample in messages: by its file, else by its index."""
    path = sample_path(sample)
    return f"sample {path!r}" if path else f"sample {index}"


def sample_path(sample: Mapping[str, Any]) -> str:
    """The file that a sample was read from; empty without one."""
    return str(sample.path) if isinstance(sample, (Archive, Sample)) else ""


def with_samples(options: PrecisionOptions, model: onnx.ModelProto) -> PrecisionOptions:
    """The options with their samples read: a list of dictionaries of arrays.

    An iterator is read once, up to ``max_samples``.

    Raises:
        ChoiceError: samples cannot be read, or do not fit the inputs of the model.
    """
    if options.are_samples_read:
        return options
    feeds = read_samples(options.feeds, fed_inputs(model), options.max_samples)
    return replace(options, feeds=feeds)


def read_samples(
    source: str | Path | Iterable[Any], inputs: Sequence[onnx.ValueInfoProto], max_samples: int
) -> list[Sample]:
    """The first samples of a source, as arrays of the types of the inputs.

    Args:
        source: an ``.npz`` file or a folder of them, or an iterable of samples: a DataLoader, a
            dataset, an iterator, even one without an end. A sample is a mapping by name, a sequence
            by position, or the array of the only input. If all values of a sample lack the first
            dimension of their inputs, this dimension is added.
        inputs: of the model.
        max_samples: maximal number of samples that are read.

    Raises:
        ChoiceError: there is no sample, or one does not fit the inputs.
    """
    values = _archives(Path(source)) if isinstance(source, (str, Path)) else source
    samples = [
        _sample(sample, inputs, sample_name(index, sample))
        for index, sample in enumerate(islice(iter(values), max_samples))
    ]
    if not samples:
        raise ChoiceError(f"{_described(source)} gives no sample")
    return samples


def _described(source: object) -> str:
    return repr(str(source)) if isinstance(source, (str, Path)) else f"a {type(source).__name__}"


def _archives(path: Path) -> Iterator[Mapping[str, np.ndarray]]:
    """The contents of an ``.npz`` file, or of all such files in a folder, by name."""
    for file in sorted(path.glob(_SUFFIX)) if path.is_dir() else [path]:
        yield Archive(file, "samples")


def _sample(values: Any, inputs: Sequence[onnx.ValueInfoProto], where: str) -> Sample:
    """One sample, by the names of the inputs; ``where`` names it in messages."""
    by_name = _named(values, inputs, where)
    arrays = {port.name: _array(by_name[port.name], port.name, where) for port in inputs}
    is_single = all(_lacks_first_dimension(arrays[port.name], port) for port in inputs)
    sample = Sample(
        (
            port.name,
            _typed(arrays[port.name][np.newaxis] if is_single else arrays[port.name], port, where),
        )
        for port in inputs
    )
    sample.path = str(values.path) if isinstance(values, Archive) else ""
    return sample


def _named(sample: Any, inputs: Sequence[onnx.ValueInfoProto], where: str) -> Mapping[str, Any]:
    names = [port.name for port in inputs]
    if isinstance(sample, Mapping):
        missing = [name for name in names if name not in sample]
        unknown = [str(name) for name in sample if name not in names]
        if missing or unknown:
            faults = {"lacks": missing, "has unknown inputs": unknown}
            texts = [f"{text} {listed(group)}" for text, group in faults.items() if group]
            raise ChoiceError(f"{where} {' and '.join(texts)}; the inputs are {listed(names)}")
        return sample
    values = list(sample) if isinstance(sample, (list, tuple)) else [sample]
    if len(values) != len(names):
        raise ChoiceError(
            f"{where} has {len(values)} values, but the model has {len(names)} inputs: "
            f"{listed(names)}; give one for each, or a dictionary"
        )
    return dict(zip(names, values, strict=True))


def _array(value: Any, name: str, where: str) -> np.ndarray:
    """A value as an array: of numpy, a tensor of torch on any device, or a list of numbers."""
    if hasattr(value, "detach"):
        value = value.detach().cpu()
    try:
        array = np.asarray(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ChoiceError(f"{where}: {name!r} is not an array: {error}") from error
    if array.dtype == object:
        raise ChoiceError(f"{where}: {name!r} is not an array of numbers or strings")
    return array


def _lacks_first_dimension(array: np.ndarray, port: onnx.ValueInfoProto) -> bool:
    """Whether an array has one dimension less than the input, as a sample without a batch has."""
    tensor = port.type.tensor_type
    return tensor.HasField("shape") and array.ndim == len(tensor.shape.dim) - 1


def _typed(array: np.ndarray, port: onnx.ValueInfoProto, where: str) -> np.ndarray:
    """An array with the type of an input; integers keep their values, and floats are rounded."""
    dtype = numpy_dtype(port.type.tensor_type.elem_type)
    if dtype is None or array.dtype == dtype or array.dtype.kind in "OSU":
        return array
    are_floats = array.dtype.kind == dtype.kind == "f"
    if are_floats or np.can_cast(array.dtype, dtype, "safe"):
        return array.astype(dtype)
    if array.dtype.kind in "iu" and dtype.kind in "iu":
        cast = array.astype(dtype)
        if np.array_equal(cast, array):
            return cast
    raise ChoiceError(
        f"{where}: {port.name!r} takes {type_name(port.type.tensor_type.elem_type)}, not "
        f"{array.dtype}"
    )
