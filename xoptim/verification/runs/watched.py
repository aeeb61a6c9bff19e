"""Runs and loads of models that a later process skips if they ended this one."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import numpy as np
import onnx

from xoptim.facts.errors import XoptimError
from xoptim.system.crashes import WATCH
from xoptim.verification.runs.ports import Value
from xoptim.verification.runs.protos import ModelLike
from xoptim.verification.runs.session_settings import SessionSettings


def mark_of(model: ModelLike, settings: SessionSettings) -> str:
    """The key of a session for the next process; empty where no process reads it.

    Weights do not count: it would take time to read them.
    """
    if not WATCH.is_active:
        return ""
    suffix = f"{settings.level} {','.join(settings.providers)}"
    if not isinstance(model, onnx.ModelProto):
        return f"{model} {suffix}"
    parts = [*model.graph.node, *model.graph.input, *model.graph.output, *model.functions]
    checksum = 0
    for part in parts:
        checksum = zlib.crc32(part.SerializeToString(deterministic=True), checksum)
    return f"{checksum:08x} {suffix}"


def digest_of(feeds: Mapping[str, Value]) -> str:
    """The key of values for the next process."""
    checksum = 0
    for name, value in sorted(feeds.items()):
        is_plain = isinstance(value, np.ndarray) and not value.dtype.hasobject
        raw = np.ascontiguousarray(value).tobytes() if is_plain else repr(value).encode()
        shape = getattr(value, "shape", ())
        checksum = zlib.crc32(raw, zlib.crc32(f"{name} {shape} ".encode(), checksum))
    return f"{checksum:08x}"


@contextmanager
def watched(key: str, error: type[XoptimError]) -> Iterator[None]:
    """Note some work under a key while the work is done.

    Raises the error if the work ended an earlier process. An empty key is not noted.
    """
    if not key:
        yield
        return
    ended_by = WATCH.end_of(key)
    if ended_by:
        raise error(f"it ended the process ({ended_by}), most likely a bug in onnxruntime")
    with WATCH.doing(key):
        yield
