"""xoptim where other code calls onnxslim, as ultralytics does for ``simplify=True``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Unpack

import onnx

import xoptim
from xoptim.api.preparing import Source, hold_weights
from xoptim.integrations.stand_ins import refuse, standing_in, warn_of_ignored

if TYPE_CHECKING:
    from xoptim import OptimizationOptions
    from xoptim.api.optimizing import OptimizeChanges

_HONORED: Final = frozenset(
    {"input_shapes", "inputs", "outputs", "model_check", "save_as_external_data", "verbose"}
)
"""Arguments of ``slim`` that have their effect here; ``verbose`` never changes the model."""


@contextmanager
def in_place_of_onnxslim(
    options: OptimizationOptions | None = None, **changes: Unpack[OptimizeChanges]
) -> Iterator[None]:
    """Let ``onnxslim.slim(model)`` optimize with xoptim while the block runs, in all threads.

    ``output_model`` is written; ``save_as_external_data`` moves its weights to a file of their own.
    ``input_shapes`` fixes the shapes of inputs, ``inputs`` and ``outputs`` extract a part, and
    ``model_check`` verifies the model: `VerificationError` is raised where slim returns None.
    ``dtype``, types of ``inputs`` and ``outputs``, and a list of models raise `ValueError`. One
    warning names other arguments, which have no effect. onnxslim need not be installed, unless the
    caller looks for its version.

    Args:
        options: of the optimization.
        **changes: as for `xoptim.optimize`, such as ``verify=True``.
    """

    def slim(model: Any, output_model: str | None = None, *_: Any, **arguments: Any) -> Any:
        refuse("onnxslim", {"dtype": arguments.pop("dtype", None)})
        refuse("onnxslim", {"a list of models": isinstance(model, list)})
        warn_of_ignored("onnxslim", _ignored(arguments))
        settings: OptimizeChanges = {**changes}
        if arguments.get("model_check"):
            settings.setdefault("verify", True)
        result = xoptim.optimize(_changed(_with_weights(model), arguments), options, **settings)
        if output_model is None:
            return result
        external = True if arguments.get("save_as_external_data") else None
        xoptim.save(result, Path(output_model), external=external)
        return None

    with standing_in("onnxslim", slim=slim):
        yield


def _ignored(arguments: Mapping[str, Any]) -> list[str]:
    return [name for name, value in arguments.items() if value and name not in _HONORED]


def _with_weights(model: Any) -> onnx.ModelProto:
    """A model as a protobuf, which holds the weights next to a file."""
    source = Source(model)
    if source.base_dir is not None:
        hold_weights(source.proto, source.base_dir)
    return source.proto


def _changed(model: onnx.ModelProto, arguments: Mapping[str, Any]) -> onnx.ModelProto:
    """The part of a model that ``inputs`` and ``outputs`` name, with fixed shapes."""
    inputs, outputs = (_names(kind, arguments.get(kind) or ()) for kind in ("inputs", "outputs"))
    if inputs or outputs:
        model = xoptim.extract(model, inputs, outputs)
    shapes = _shapes(arguments.get("input_shapes") or {})
    return xoptim.prepare(model, fix=shapes) if shapes else model


def _names(kind: str, texts: Sequence[str]) -> list[str]:
    """The names of values in texts like ``hidden``; ``hidden:fp16`` would change its type."""
    types = ("fp16", "fp32", "int32", "bool")
    has_type = any(text.rpartition(":")[2] in types for text in texts if ":" in text)
    refuse("onnxslim", {f"types of {kind}": has_type})
    return [*texts]


def _shapes(shapes: Mapping[str, Sequence[int]] | Sequence[str]) -> dict[str, list[int]]:
    """Shapes by the names of inputs; onnxslim's own form is a list of texts like ``x:1,3,224``."""
    if isinstance(shapes, Mapping):
        return {name: [*shape] for name, shape in shapes.items()}
    parts = [text.rpartition(":") for text in shapes]
    return {name: [int(size) for size in sizes.split(",")] for name, _, sizes in parts}


__all__ = ["in_place_of_onnxslim"]
