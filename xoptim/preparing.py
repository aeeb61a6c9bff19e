"""Changes of a model that are not optimizations: `prepare`, `extract` and `infer`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar, Unpack, overload

import onnx

from xoptim.graph.sources import Source as Source  # for the command
from xoptim.prepare.extract import extract_part
from xoptim.prepare.infer import with_shapes
from xoptim.prepare.preparation import Preparation, PreparationChanges

AnyModel = TypeVar("AnyModel")


@overload
def prepare(model: str | Path, **changes: Unpack[PreparationChanges]) -> onnx.ModelProto: ...
@overload
def prepare(model: AnyModel, **changes: Unpack[PreparationChanges]) -> AnyModel: ...
def prepare(model: Any, **changes: Unpack[PreparationChanges]) -> Any:
    """Write sizes into a model, change its inputs and outputs, remove texts; returns a model of the same kind.

    Args:
        model: a model as for `xoptim.optimize`, which is left unchanged; a path gives a ``ModelProto``.
        **changes: fields of `Preparation`: ``fix={"batch": [1]}``, ``rename={"old": "new"}``, ...

    Raises:
        ModelError: a name or a size does not fit the model.
    """
    source = Source(model)
    proto = onnx.ModelProto()
    proto.CopyFrom(source.proto)
    Preparation(**changes).apply(proto, source.base_dir)
    return source.give_back(proto)


def prepared_source(path: Path, preparation: Preparation) -> Source:
    """A model file, changed in memory.

    Raises:
        ModelError: it cannot be read, or a name or a size does not fit it.
    """
    source = Source(path)
    preparation.apply(source.proto, source.base_dir)
    return Source(source.proto, source.base_dir)


@overload
def extract(model: str | Path, inputs: Sequence[str] = (), outputs: Sequence[str] = ()) -> onnx.ModelProto: ...
@overload
def extract(model: AnyModel, inputs: Sequence[str] = (), outputs: Sequence[str] = ()) -> AnyModel: ...
def extract(model: Any, inputs: Sequence[str] = (), outputs: Sequence[str] = ()) -> Any:
    """The part of a model that computes some results from others; returns a model of the same kind.

    Args:
        model: a model as for `xoptim.optimize`, which is left unchanged; a path gives a ``ModelProto``.
        inputs: values that the part reads; inputs of the model that it needs besides become inputs too.
        outputs: values that it computes; those of the model by default.

    Raises:
        ModelError: a name does not exist, or an input is not needed.
    """
    source = Source(model)
    return source.give_back(extract_part(source.proto, inputs, outputs, source.base_dir))


@overload
def infer(model: str | Path) -> onnx.ModelProto: ...
@overload
def infer(model: AnyModel) -> AnyModel: ...
def infer(model: Any) -> Any:
    """A model in which the types and shapes of all results are declared, as far as they are known.

    Args:
        model: a model as for `xoptim.optimize`, which is left unchanged; a path gives a ``ModelProto``.
    """
    source = Source(model)
    return source.give_back(with_shapes(source.proto, source.base_dir))
