"""Work on protobufs that several rooms need."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TypeVar

import onnx
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message as AnyMessage

Message = TypeVar("Message", onnx.ModelProto, onnx.GraphProto)


def copy_fields(source: Message, target: Message, but: Collection[str]) -> None:
    """Copy the fields that are set in a protobuf into an empty one of the same type.

    Args:
        source: the protobuf to read.
        target: the protobuf to fill.
        but: names of fields to leave out, the large ones as a rule.
    """
    for field, value in source.ListFields():
        if field.name in but:
            continue
        if hasattr(value, "MergeFrom"):
            getattr(target, field.name).MergeFrom(value)
        elif isinstance(value, bytes) and field.type == FieldDescriptor.TYPE_STRING:
            setattr(target, field.name, value.decode(errors="replace"))  # protobuf reads such texts, but does not write them
        else:
            setattr(target, field.name, value)


def unreadable_texts(message: AnyMessage) -> Iterator[bytes]:
    """Texts anywhere in a protobuf that are not in UTF-8; they can be written but are read as bytes."""
    for field, value in message.ListFields():
        values = value if isinstance(value, Collection) and not isinstance(value, (str, bytes)) else (value,)
        if field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE:
            for inner in values:
                yield from unreadable_texts(inner)
        elif field.type == FieldDescriptor.TYPE_STRING:
            yield from (each for each in values if isinstance(each, bytes))
