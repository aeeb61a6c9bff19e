"""Changes of a model that are not optimizations: `prepare`, `extract` and `infer`."""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar, Unpack, overload

import numpy as np
import onnx

from xoptim.facts.errors import ModelError
from xoptim.graph.assumed import (
    assumed_of as assumed_of,  # for the command
    fitting,
    recorded as recorded,  # for the command
)
from xoptim.graph.data_file import lacks_weights as lacks_weights  # for the command
from xoptim.graph.save import replace_file as replace_file, serialized as serialized  # for the command
from xoptim.graph.sources import Source as Source  # for the command
from xoptim.preparation.ports import extract_part
from xoptim.preparation.preparation import Preparation, PreparationChanges, free_batch, with_shapes
from xoptim.validate.compare import compare_values
from xoptim.validate.errors import FeedError, LoadError, RunError
from xoptim.validate.options import ValidationOptions
from xoptim.validate.reference import run_reference
from xoptim.validate.session import Session

AnyModel = TypeVar("AnyModel")


@overload
def prepare(model: str | Path, **changes: Unpack[PreparationChanges]) -> onnx.ModelProto: ...
@overload
def prepare(model: AnyModel, **changes: Unpack[PreparationChanges]) -> AnyModel: ...
def prepare(model: Any, **changes: Unpack[PreparationChanges]) -> Any:
    """Write sizes into a model, change its inputs and outputs, remove texts; returns a model of the same kind.

    Raises `ModelError` when a name or a size does not fit the model.

    Args:
        model: a model as for `xoptim.optimize`, which is left unchanged; a path gives a ``ModelProto``.
        **changes: fields of `Preparation`: ``fix={"batch": [1]}``, ``rename={"old": "new"}``, ...
    """
    source = Source(model)
    return source.give_back(_prepared(source, Preparation(**changes)))


def _prepared(source: Source, preparation: Preparation) -> onnx.ModelProto:
    proto = freed(source.proto, preparation.free, source.base_dir) if preparation.free else deepcopy(source.proto)
    preparation.apply(proto, source.base_dir)
    return proto


def freed(proto: onnx.ModelProto, name: str, base_dir: Path | None = None, seed: int = 0) -> onnx.ModelProto:
    """A copy of a model with a free leading size, which computes for a batch of two what the model computes for each of them.

    ``name`` is the dimension that takes the place of the fixed size; ``seed`` belongs to the random values. Raises
    `ModelError` when the copy does not, or it cannot be run.
    """
    free = deepcopy(proto)
    size, inputs = free_batch(free, name, base_dir)
    checks = [ValidationOptions(assignments=1, extremes=False, seed=seed + place, original_dir=base_dir) for place in range(2)]
    try:
        runs = [run_reference(proto, options).runs[0] for options in checks]
        given = {each: value for each, value in runs[0].feeds.items() if each not in inputs}
        if given:  # what is not part of the batch is the same for both
            runs[1] = run_reference(proto, replace(checks[1], feeds={**runs[1].feeds, **given})).runs[0]
        batch = {each: np.concatenate([np.asarray(run.feeds[each]) for run in runs]) for each in inputs}
        session = Session(free, checks[0].settings, base_dir=base_dir)
        results = session.run({**given, **batch})
    except (LoadError, FeedError, RunError) as error:
        raise ModelError(f"--free {name}: the model does not run with {2 * size} in place of {size}: {error}") from error
    for port, result, *parts in zip(session.outputs, results, *(run.results for run in runs), strict=True):
        if any(not isinstance(part, np.ndarray) or part.ndim == 0 for part in parts):
            raise ModelError(f"--free {name}: output {port.name!r} has no leading axis")
        expected = np.concatenate([np.asarray(part) for part in parts])
        wrong = next((each for each in compare_values(port.name, expected, result, checks[0].rules) if not each.ok), None)
        if wrong is not None:
            raise ModelError(f"--free {name}: output {port.name!r} mixes the parts of a batch: {wrong.message}")
    return free


def prepared_source(path: Path, preparation: Preparation) -> Source:
    """A model file, changed in memory; raises ModelError when it cannot be read, or a name or a size does not fit it."""
    source = Source(path)
    proto = freed(source.proto, preparation.free, source.base_dir) if preparation.free else source.proto
    preparation.apply(proto, source.base_dir)
    return Source(proto, source.base_dir)


def fitting_assumptions(model: Source, texts: Sequence[str]) -> tuple[list[str], list[str]]:
    """The assumptions that fit a model, and the reasons why others do not."""
    return fitting(texts, model.proto)


@overload
def extract(model: str | Path, inputs: Sequence[str] = (), outputs: Sequence[str] = ()) -> onnx.ModelProto: ...
@overload
def extract(model: AnyModel, inputs: Sequence[str] = (), outputs: Sequence[str] = ()) -> AnyModel: ...
def extract(model: Any, inputs: Sequence[str] = (), outputs: Sequence[str] = ()) -> Any:
    """The part of a model that computes some results from others; returns a model of the same kind.

    Raises `ModelError` when a name does not exist, or an input is not needed.

    Args:
        model: a model as for `xoptim.optimize`, which is left unchanged; a path gives a ``ModelProto``.
        inputs: values that the part reads; inputs of the model that it needs besides become inputs too.
        outputs: values that it computes; the outputs of the model by default.
    """
    source = Source(model)
    return source.give_back(extract_part(source.proto, inputs, outputs, source.base_dir))


@overload
def infer(model: str | Path, *, assume_from_model: bool = False) -> onnx.ModelProto: ...
@overload
def infer(model: AnyModel, *, assume_from_model: bool = False) -> AnyModel: ...
def infer(model: Any, *, assume_from_model: bool = False) -> Any:
    """A model in which the types and shapes of all results are declared, where they are known.

    Args:
        model: a model as for `xoptim.optimize`, which is left unchanged; a path gives a ``ModelProto``. Its external weights
            may be missing.
        assume_from_model: also use the assumptions in the metadata of the model.
    """
    source = Source(model, needs_weights=False)
    return source.give_back(with_shapes(source.proto, source.base_dir, assume_from_model=assume_from_model))
