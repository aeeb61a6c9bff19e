"""Write models to files: first the weights, into temporary files; once the model is verified, all
files are moved into place.
"""

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from google.protobuf.message import EncodeError
from onnx import ModelProto, TensorProto

from xoptim.facts.errors import ModelError
from xoptim.facts.protos import is_external, lack_of_memory, replace_items
from xoptim.graph.atomic_write import remove_files, replacing, write_errors
from xoptim.graph.data_file import (
    Weight,
    data_path,
    external_locations,
    former_data,
    graph_files,
    has_external_data,
    is_named,
    refer,
    stored_tensors,
    uses,
    write_weights,
)
from xoptim.graph.export import export_model
from xoptim.graph.model import Model
from xoptim.graph.stored import set_location
from xoptim.graph.tensors import Tensor
from xoptim.graph.views import View
from xoptim.system.files import check_space
from xoptim.system.journal import ScratchFolder
from xoptim.system.temporary import check_place, place_of, temporary

PROTO_LIMIT: Final = 2_000_000_000
"""A protobuf cannot be larger than 2 GiB.

Above this many bytes of tensors, data goes to an external file.
"""
INLINE_LIMIT: Final = 1024
"""Tensors of up to this many bytes stay in the model even when data is external."""
SHARED: Final = "xoptim.weights"
"""Key of the metadata entry that names the files whose weights a model shares with another one."""
_HELD: Final = f"held {os.urandom(8).hex()}"
"""The key of a stub, which no loaded model contains."""


class Held:
    """Constants that are kept out of a protobuf while it is made; a numbered stub replaces each."""

    def __init__(self) -> None:
        self._tensors: list[Tensor] = []

    def __call__(self, tensor: Tensor, name: str) -> TensorProto:
        """The protobuf of a constant: a stub where the data would have to be copied or computed,
        unless it is small.
        """
        is_in_file = tensor.is_external and not isinstance(tensor, View)
        if is_in_file or tensor.nbytes <= INLINE_LIMIT or tensor.dtype == TensorProto.STRING:
            return tensor.to_proto(name)
        stub = TensorProto(
            name=name, data_type=tensor.dtype, dims=tensor.shape, data_location=TensorProto.EXTERNAL
        )
        stub.external_data.add(key=_HELD, value=str(len(self._tensors)))
        self._tensors.append(tensor)
        return stub

    def weights_of(self, proto: ModelProto, base_dir: Path | None) -> list[Weight]:
        """The tensors of a model that was made with these stubs."""
        weights: list[Weight] = []
        for tensor in stored_tensors(proto):
            tensors = (
                self._tensors[int(entry.value)]
                for entry in tensor.external_data
                if entry.key == _HELD
            )
            weights.append(
                Weight(tensor, next(tensors, None) or Tensor.from_proto(tensor, base_dir))
            )
        return weights


class Draft:
    """Writes the weights of models next to a target, and one of the models into place.

    Temporary files are removed at the end; without a target, all files are temporary. Where the
    target is a symbolic link, the file that it leads to is replaced; `ModelError` is raised unless
    that is a regular file. ``in_place``: the original is replaced, and nothing needs its weights
    then. For the other options see `xoptim.graph.save.save_proto`.
    """

    def __init__(
        self,
        target: Path | None,
        *,
        external: bool | None = None,
        share_weights: bool = False,
        in_place: bool = False,
    ) -> None:
        self._scratch = ScratchFolder() if target is None else None
        self._target = target or Path(self._scratch.name if self._scratch else "", "model.onnx")
        self._place = place_of(self._target)
        with write_errors(self._target):  # before any work
            check_place(self._place)
        self.folder = self._place.parent  # where the weights of the models are
        self._external, self._shares, self._in_place = external, share_weights, in_place
        # names of files in the folder that hold weights of the original
        self._source_names: frozenset[str] = frozenset()
        self._weights: list[Path] = []  # temporary files with the weights of models

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.discard()
        if self._scratch is not None:
            self._scratch.cleanup()

    def export(self, model: Model) -> ModelProto:
        """A protobuf of a model, whose external weights are written to a file in `folder` now.

        Raises `ModelError` as `fill`.
        """
        stubs = Held()
        proto = export_model(model, stubs)
        weights = stubs.weights_of(proto, model.base_dir)
        initializers = () if model.graph.source is None else model.graph.source.initializer
        came_external = any(
            map(is_external, (*initializers, *(w.proto for w in weights if not is_stub(w.proto))))
        )
        if model.graph.source is not None:  # the result may not need them, but the original does
            self._protect(graph_files(model.graph.source, model.base_dir))
        self.fill(proto, weights, came_external=came_external)
        return proto

    def fill(self, proto: ModelProto, weights: Sequence[Weight], *, came_external: bool) -> None:
        """Write the weights of a protobuf, which then refers to them.

        ``came_external``: whether the model had external data. Raises `ModelError` when the file
        cannot be written, or a weight cannot be read.
        """
        places = [weight.tensor.place() for weight in weights]
        self._protect(place[0] for place in places if place is not None)
        if self._place.name in self._source_names:
            raise ModelError(f"cannot write {str(self._target)!r}: it holds weights of the model")
        shares = [self._shares and self._share(weight) for weight in weights]
        files = {
            refers_to(weight.proto)
            for weight, is_shared in zip(weights, shares, strict=True)
            if is_shared
        }
        _note_shared(proto, files)
        weights = [
            weight for weight, is_shared in zip(weights, shares, strict=True) if not is_shared
        ]
        for weight in weights:
            weight.tensor.check_size()
        is_too_large = sum(tensor.nbytes for _, tensor in weights) > PROTO_LIMIT
        external = came_external or is_too_large if self._external is None else self._external
        moving = [weight for weight in weights if external and _is_movable(weight)]
        if moving or files:
            self._check_link()
        for weight in () if external else weights:
            if is_external(weight.proto):
                _take_in(*weight)
        if moving:
            order = uses(proto)
            moving.sort(key=lambda weight: order.get(weight.proto.name, len(order)))
            self._write(moving)

    def _protect(self, files: Iterable[Path]) -> None:
        """Note files that hold weights of the original: no result replaces them."""
        home = self.folder.resolve()
        self._source_names |= {file.name for file in files if file.parent == home}

    def _share(self, weight: Weight) -> bool:
        """Let a weight refer to the file of the folder that already holds it, if there is one.

        Returns whether there is such a file.
        """
        place = weight.tensor.place()
        if (
            place is None
            or place[0].parent != self.folder.resolve()
            or place[0] in {path.resolve() for path in self._weights}
        ):
            return False
        refer(weight.proto, place[0].name, place[1], weight.tensor.nbytes)
        return True

    def _check_link(self) -> None:
        if self._place.parent.resolve() != self._target.parent.resolve():
            raise ModelError(
                f"cannot write {str(self._target)!r}: it is a link to another folder, "
                f"and weights are in a file next to the model; write {str(self._place)!r} itself"
            )

    def _write(self, weights: Sequence[Weight]) -> None:
        with write_errors(self._target):
            final = data_path(self._target, 0)
            # A new file is not worth the wait for the disk: `cp` does not wait either.
            with temporary(final, buffering=0, syncs=self._place.exists()) as (stream, path):
                write_weights(weights, stream, path.parent, path.name)
            self._weights.append(path)

    def discard(self, proto: ModelProto | None = None) -> None:
        """Remove the weights of a model that is no longer needed; without an argument, the weights
        of all models.
        """
        for path in list(self._weights) if proto is None else self._of(proto):
            self._weights.remove(path)
            with suppress(OSError):
                path.unlink()

    def _of(self, proto: ModelProto) -> list[Path]:
        names = {refers_to(tensor) for tensor in filter(is_external, stored_tensors(proto))}
        return [path for path in self._weights if path.name in names]

    def commit(self, proto: ModelProto, along: Mapping[Path, bytes] | None = None) -> list[Path]:
        """Move a model, its weights and the further files in ``along`` into place, or none of them.

        The weights get a name of their own: ``TARGET.data``, or ``TARGET.1.data`` where there is
        such a file. Then the model replaces an older model in one step, and the weights of the
        older model are removed if no model in the folder refers to them.

        Returns the files written. The model refers to its weights by their final name then. Raises
        `ModelError` when a file cannot be written; all are unchanged then.
        """
        old_data = former_data(self._place, () if self._in_place else self._source_names)
        try:
            return self._replace(proto, along or {})
        finally:
            remove_files(path for path in old_data if not is_named(path))

    def _replace(self, proto: ModelProto, along: Mapping[Path, bytes]) -> list[Path]:
        target = self._target
        with replacing(target) as files:
            for path in self._of(proto):
                final = files.reserve(path, target)
                self._weights.remove(path)
                for tensor in filter(is_external, stored_tensors(proto)):
                    if refers_to(tensor) == path.name:
                        set_location(tensor, final.name)
            try:
                raw = proto.SerializeToString()
            except EncodeError as error:
                reason = "it does not fit into memory, or into a protobuf of 2 GiB"
                raise ModelError(f"cannot write {str(target)!r}: {reason}") from error
            check_space(self.folder, len(raw))
            for place, content in (*along.items(), (self._place, raw)):
                with files.open(place) as stream:
                    stream.write(content)
        return [target if path == self._place else path for path in files.targets]


def is_stub(proto: TensorProto) -> bool:
    """Whether a tensor is a stub."""
    return any(entry.key == _HELD for entry in proto.external_data)


def refers_to(proto: TensorProto) -> str:
    """The location of an external tensor."""
    return next((entry.value for entry in proto.external_data if entry.key == "location"), "")


def _is_movable(weight: Weight) -> bool:
    """Whether external data may hold a tensor: small ones stay in the model, and so do strings,
    which have no raw form.
    """
    return is_external(weight.proto) or (
        weight.tensor.nbytes > INLINE_LIMIT and weight.tensor.dtype != TensorProto.STRING
    )


def hold_weights(proto: ModelProto, base_dir: Path | None) -> None:
    """Copy external weights, found from ``base_dir``, into a protobuf, which then refers to no
    file; raises `ModelError`.
    """
    for tensor in list(filter(is_external, stored_tensors(proto))):
        _take_in(tensor, Tensor.from_proto(tensor, base_dir))


def _take_in(proto: TensorProto, tensor: Tensor) -> None:
    raw = tensor.to_raw()
    del proto.external_data[:]
    proto.data_location = TensorProto.DEFAULT
    proto.raw_data = raw


def _note_shared(proto: ModelProto, names: Collection[str]) -> None:
    replace_items(
        proto.metadata_props, [entry for entry in proto.metadata_props if entry.key != SHARED]
    )
    if names:
        proto.metadata_props.add(key=SHARED, value=", ".join(sorted(names)))


def shared_files(proto: ModelProto) -> list[str]:
    """The files of another model whose weights a model shares, by its metadata."""
    text = next((entry.value for entry in proto.metadata_props if entry.key == SHARED), "")
    # the name of a file may have a comma
    return [name for name in external_locations(proto) if f", {name}, " in f", {text}, "]


def save_model(
    model: Model, target: Path, *, external: bool | None = None, share_weights: bool = False
) -> list[Path]:
    """Write a model in memory; see `save_proto`.

    Weights that are views are computed while they are written.
    """
    with Draft(target, external=external, share_weights=share_weights) as draft:
        return draft.commit(draft.export(model))


def save_proto(
    proto: ModelProto,
    target: str | os.PathLike[str],
    base_dir: str | os.PathLike[str] | None = None,
    *,
    external: bool | None = None,
    share_weights: bool = False,
    in_place: bool = False,
    along: Mapping[Path, bytes] | None = None,
) -> list[Path]:
    """Write a model, and its weights to one external file where necessary.

    Returns the files written.

    Without ``share_weights``, the written files can be moved elsewhere together, and need no other.
    The operating system copies weights that are in a file. Raises `ModelError` when a file cannot
    be written, or is not a regular file; the target is then unchanged.

    Args:
        proto: the model; the locations of external data in it are changed when data moves.
        target: the file to write. Where it is a symbolic link, its target is replaced.
        base_dir: folder against which the external locations of ``proto`` are resolved.
        external: write weights to a file of their own (``TARGET.data``); by default only when some
            of them are in an external file already, or when the model would not fit into a
            protobuf.
        share_weights: keep referring to files of weights in the folder of the target; the metadata
            then name them.
        in_place: the model came from the target, and nothing needs the former file of its weights.
        along: contents of further files, which are moved into place with the model: all of them, or
            none.
    """
    draft = Draft(Path(target), external=external, share_weights=share_weights, in_place=in_place)
    folder = None if base_dir is None else Path(base_dir)
    with draft:
        draft.fill(proto, Held().weights_of(proto, folder), came_external=has_external_data(proto))
        return draft.commit(proto, along)


def serialized(proto: ModelProto, base_dir: Path | None = None) -> bytes:
    """A model as bytes that refer to no file: external weights, found from ``base_dir``, are copied
    into them.

    Raises `ModelError` when it does not fit into a protobuf.
    """
    copy = ModelProto()
    try:
        with lack_of_memory():
            copy.CopyFrom(proto)
            hold_weights(copy, base_dir)
            return bytes(copy.SerializeToString())
    except (EncodeError, ValueError) as error:
        raise ModelError(
            "the model does not fit into a protobuf of 2 GiB; write it to a file"
        ) from error
