"""Work on protobufs that several rooms need."""

from __future__ import annotations

from collections.abc import Collection
from typing import TypeVar

import onnx

Message = TypeVar("Message", onnx.ModelProto, onnx.GraphProto)


def copy_fields(source: Message, target: Message, but: Collection[str]) -> None:
    """Copy what is set in a protobuf into an empty one of its kind.

    Args:
        source: where from.
        target: where to.
        but: names of fields to leave out, the large ones as a rule.
    """
    for field, value in source.ListFields():
        if field.name in but:
            continue
        if hasattr(value, "MergeFrom"):
            getattr(target, field.name).MergeFrom(value)
        else:
            setattr(target, field.name, value)
