"""Keys of rewrites: equal for rewrites that differ in the names of values and nodes only."""

from __future__ import annotations

from collections.abc import Iterable, MutableSequence, Sequence
from hashlib import sha256

import onnx


def digest_without_names(models: Sequence[onnx.ModelProto], texts: Iterable[str]) -> bytes:
    """A digest of everything that a proof depends on, but for the names of values.

    Inputs and outputs are identified by position. Names of dimensions are kept: they are in the
    premises. Models with subgraphs keep all names, as subgraphs read values of the graph around
    them by name.

    Args:
        models: both sides of a rewrite.
        texts: the assumptions about the model.
    """
    ports = [[v.name for v in (*m.graph.input, *m.graph.output)] for m in models]
    if any(_has_subgraphs(model) for model in models) or ports[0] != ports[-1]:
        parts = [model.SerializeToString(deterministic=True) for model in models]
    else:
        parts = [_without_names(model) for model in models]
    parts += [text.encode() for text in texts]
    lengths = ",".join(str(len(part)) for part in parts)
    return sha256(b"".join([lengths.encode(), *parts])).digest()


def _has_subgraphs(model: onnx.ModelProto) -> bool:
    return any(
        attribute.HasField("g") or attribute.graphs
        for node in model.graph.node
        for attribute in node.attribute
    )


def _without_names(model: onnx.ModelProto) -> bytes:
    """A model whose values have numbers in place of names, serialized."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    graph = copy.graph
    graph.ClearField("value_info")  # proofs do not read it
    names: dict[str, str] = {"": ""}

    def rename(values: MutableSequence[str]) -> None:
        values[:] = [names.setdefault(name, f"v{len(names)}") for name in values]

    for value in (*graph.input, *graph.output):
        value.name = names.setdefault(value.name, f"v{len(names)}")
    for tensor in graph.initializer:
        tensor.name = names.setdefault(tensor.name, f"v{len(names)}")
    for node in graph.node:
        node.ClearField("name")
        node.ClearField("doc_string")
        node.ClearField("metadata_props")
        rename(node.input)
        rename(node.output)
    return copy.SerializeToString(deterministic=True)
