"""Changes of a model that are not optimizations: `prepare`, `extract` and `infer`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar, Unpack, overload

import onnx

# Names imported "as" themselves are for the command line and for integrations.
from xoptim.catalogue.discovery import operator_packs as operator_packs
from xoptim.catalogue.registry import registry as registry
from xoptim.catalogue.selection import chosen as chosen
from xoptim.graph.assumed import assumed_of as assumed_of, fitting, recorded as recorded
from xoptim.graph.atomic_write import replace_file as replace_file, write_derived as write_derived
from xoptim.graph.data_file import (
    external_locations as external_locations,
    lacks_weights as lacks_weights,
)
from xoptim.graph.hub import (
    download as download,
    hub_folder as hub_folder,
    is_hub_address as is_hub_address,
)
from xoptim.graph.load import LARGEST_FILE as LARGEST_FILE, read_proto as read_proto
from xoptim.graph.save import hold_weights as hold_weights, serialized as serialized
from xoptim.graph.sources import Source as Source
from xoptim.preparation.ports import extract_part
from xoptim.preparation.preparation import Preparation, PreparationChanges, with_shapes
from xoptim.workflow.preparing import prepared_source

AnyModel = TypeVar("AnyModel")


@overload
def prepare(model: str | Path, **changes: Unpack[PreparationChanges]) -> onnx.ModelProto: ...
@overload
def prepare(model: AnyModel, **changes: Unpack[PreparationChanges]) -> AnyModel: ...
def prepare(model: Any, **changes: Unpack[PreparationChanges]) -> Any:
    """Fix dimensions, change inputs and outputs, and remove doc strings.

    Returns a model of the same kind.

    Raises `ModelError` when a name or a size does not fit the model.

    Args:
        model: a model as for `xoptim.optimize`, which is left unchanged; a path gives a
            ``ModelProto``.
        **changes: fields of `Preparation`: ``fix={"batch": [1]}``, ``rename={"old": "new"}``, ...
    """
    source = Source(model)
    return source.give_back(prepared_source(source, Preparation(**changes)).proto)


def fitting_assumptions(model: Source, texts: Sequence[str]) -> tuple[list[str], list[str]]:
    """The assumptions that fit a model, and the reasons why others do not."""
    return fitting(texts, model.proto)


@overload
def extract(
    model: str | Path, inputs: Sequence[str] = (), outputs: Sequence[str] = ()
) -> onnx.ModelProto: ...
@overload
def extract(
    model: AnyModel, inputs: Sequence[str] = (), outputs: Sequence[str] = ()
) -> AnyModel: ...
def extract(model: Any, inputs: Sequence[str] = (), outputs: Sequence[str] = ()) -> Any:
    """The part of a model that computes some results from others; returns a model of the same kind.

    Raises `ModelError` when a name does not exist, or an input is not needed.

    Args:
        model: a model as for `xoptim.optimize`, which is left unchanged; a path gives a
            ``ModelProto``. Its external weights may be missing.
        inputs: values that the part reads; other inputs of the model that it needs are added.
        outputs: values that it computes; the outputs of the model by default.
    """
    source = Source(model, needs_weights=False)
    return source.give_back(extract_part(source.proto, inputs, outputs, source.base_dir))


@overload
def infer(model: str | Path, *, assume_from_model: bool = False) -> onnx.ModelProto: ...
@overload
def infer(model: AnyModel, *, assume_from_model: bool = False) -> AnyModel: ...
def infer(model: Any, *, assume_from_model: bool = False) -> Any:
    """A model in which the types and shapes of all results are declared, where they are known.

    Args:
        model: a model as for `xoptim.optimize`, which is left unchanged; a path gives a
            ``ModelProto``. Its external weights may be missing.
        assume_from_model: also use the assumptions in the metadata of the model.
    """
    source = Source(model, needs_weights=False)
    return source.give_back(
        with_shapes(source.proto, source.base_dir, assume_from_model=assume_from_model)
    )
