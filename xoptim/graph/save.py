"""Write a model: its protobuf, and the file of its external data. A written model is whole: it refers to no other files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from google.protobuf.message import EncodeError
from onnx import ModelProto

from xoptim.facts.errors import ModelError
from xoptim.facts.protos import lack_of_memory
from xoptim.graph.draft import Draft, Held, hold_weights
from xoptim.graph.external_data import has_external_data
from xoptim.graph.model import Model


def save_model(model: Model, target: Path, *, external: bool | None = None, share_weights: bool = False) -> list[Path]:
    """Write a model in memory; see `save_proto`. Weights that are views are computed while they are written."""
    with Draft(target, external=external, share_weights=share_weights) as draft:
        return draft.commit(draft.export(model))


def save_proto(
    proto: ModelProto,
    target: Path,
    base_dir: Path | None = None,
    *,
    external: bool | None = None,
    share_weights: bool = False,
    along: Mapping[Path, bytes] | None = None,
) -> list[Path]:
    """Write a model, and its weights to one external file where necessary.

    The written files are whole: they can be moved elsewhere together, and need no other file. Weights that are in a file
    are copied by the kernel.

    Args:
        proto: the model; the locations of external data in it are changed when data moves.
        target: the file to write. Where it is a symbolic link, the file behind the link is replaced.
        base_dir: folder against which the external locations of ``proto`` are resolved.
        external: write weights to a file of their own (``TARGET.data``); by default only when some of them are in an
            external file already, or when the model would not fit into a protobuf.
        share_weights: keep referring to files of weights in the folder of the target; the metadata then name them.
        along: contents of further files, which are moved into place with the model: all of them, or none.

    Returns:
        The files written.

    Raises:
        ModelError: when a file cannot be written, or is not a regular file; the target is then unchanged.
    """
    with Draft(target, external=external, share_weights=share_weights) as draft:
        draft.fill(proto, Held().weights_of(proto, base_dir), came_external=has_external_data(proto))
        return draft.commit(proto, along)


def serialized(proto: ModelProto, base_dir: Path | None = None) -> bytes:
    """A model as bytes that refer to no file: external weights, found from ``base_dir``, are copied into them.

    Raises `ModelError` when it does not fit into a protobuf.
    """
    whole = ModelProto()
    try:
        with lack_of_memory():
            whole.CopyFrom(proto)
            hold_weights(whole, base_dir)
            return bytes(whole.SerializeToString())
    except (EncodeError, ValueError) as error:
        raise ModelError("the model does not fit into a protobuf of 2 GiB; write it to a file") from error
