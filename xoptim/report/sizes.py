"""Names and sizes of models."""

from __future__ import annotations

from pathlib import Path

import onnx

from xoptim.graph.sources import Source


def title_of(source: Source, other: str = "model") -> str:
    """The name of the file of a model, else another name."""
    return Path(source.original).name if source.kind == "path" else other


def size_of(model: Source | onnx.ModelProto) -> int:
    """Bytes of a model with its external weights; those of its file when it comes from one."""
    proto = model if isinstance(model, onnx.ModelProto) else model.proto
    is_file = isinstance(model, Source) and model.kind == "path"
    own = Path(model.original).stat().st_size if isinstance(model, Source) and is_file else proto.ByteSize()
    return own + external_bytes(proto.graph)


def external_bytes(graph: onnx.GraphProto | None) -> int:
    """Bytes of the weights of a graph that are in files of their own."""
    tensors = graph.initializer if graph is not None else ()
    return sum(int(entry.value) for tensor in tensors for entry in tensor.external_data if entry.key == "length")
