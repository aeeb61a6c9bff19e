"""Change inputs a little: protobuf messages by their fields, texts by their words, and both by
their bytes.
"""

import random
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError, Message

_INTEGERS = (-1, 0, 1, 2, 3, 7, 8, 16, 255, 2**31 - 1, -(2**31), 2**40, 2**62, 2**63 - 1, -(2**63))
_NUMBERS = (0.0, -0.0, 1.0, -1.0, 1e-45, 3e38, float("inf"), float("nan"))
_WORDS = (
    "",
    "x",
    "y",
    "Add",
    "If",
    "Loop",
    "Constant",
    "Reshape",
    "n",
    "../x",
    "/",
    "\n",
    "é",
    "a" * 300,
    "then_branch",
)
_SNIPPETS = (b"", b"\0", b"\xff", b"-1", b"9" * 20, *(bytes([byte]) for byte in b'0+-,"<>{}()[]'))
_TOKEN = re.compile(rb"\w+|\s+|[^\w\s]")


def mutate(data: bytes, rng: random.Random, kind: str | type[Message]) -> bytes:
    """A variant of an input.

    Args:
        data: the input.
        rng: the source of randomness.
        kind: ``bytes``, ``text``, or the class of a protobuf message.
    """
    for _ in range(rng.choice((1, 1, 1, 2, 3, 6))):
        if isinstance(kind, type) and rng.random() < 0.9:
            data = _mutate_message(data, rng, kind)
        elif kind == "text" and rng.random() < 0.8:
            data = _mutate_words(data, rng)
        else:
            data = _mutate_bytes(data, rng)
    return data


def _mutate_bytes(data: bytes, rng: random.Random) -> bytes:
    raw = bytearray(data)
    start = rng.randint(0, len(raw))
    end = min(len(raw), start + rng.choice((1, 1, 2, 4, 16, 64)))
    action = rng.randrange(5)
    if action == 0:
        for position in range(start, min(end, start + 4)):
            raw[position] ^= 1 << rng.randrange(8)
    elif action == 1:
        del raw[start:end]
    elif action == 2:
        raw[start:start] = raw[start:end]
    elif action == 3:
        raw[start:end] = rng.choice(_SNIPPETS)
    else:
        del raw[start:]
    return bytes(raw)


def _mutate_words(data: bytes, rng: random.Random) -> bytes:
    words = _TOKEN.findall(data) or [b""]
    first, second = rng.randrange(len(words)), rng.randrange(len(words))
    action = rng.randrange(5)
    if action == 0:
        words[first] = words[second]
    elif action == 1:
        words[first], words[second] = words[second], words[first]
    elif action == 2:
        words[first] = rng.choice(_SNIPPETS)
    elif action == 3:
        words.insert(first, words[second])
    else:
        del words[min(first, second) : min(max(first, second), min(first, second) + 5)]
    return b"".join(words)


def _mutate_message(data: bytes, rng: random.Random, kind: type[Message]) -> bytes:
    message = kind()
    try:
        message.ParseFromString(data)
    except DecodeError:
        return _mutate_bytes(data, rng)
    messages = list(_messages(message))
    target = rng.choice(messages)
    fields = target.DESCRIPTOR.fields
    set_fields = [field for field, _ in target.ListFields()]
    field: Any = rng.choice(set_fields) if set_fields and rng.random() < 0.8 else rng.choice(fields)
    # protobuf refuses unknown values of an enumeration, and strings that are not UTF-8
    with suppress(ValueError, TypeError, IndexError):
        if _is_repeated(field):
            _change_list(getattr(target, field.name), field, messages, rng)
        elif rng.random() < 0.2:
            target.ClearField(field.name)
        elif field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE:
            _copy(rng.choice(_alike(field, messages)), getattr(target, field.name))
        else:
            setattr(target, field.name, _value(field, getattr(target, field.name), messages, rng))
    return bytes(message.SerializeToString())


def _is_repeated(field: Any) -> bool:
    return bool(
        field.is_repeated
        if hasattr(field, "is_repeated")
        else field.label == FieldDescriptor.LABEL_REPEATED
    )


def _messages(message: Message) -> Iterator[Message]:
    """A message and all messages in it."""
    yield message
    for field, value in message.ListFields():
        if field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE:
            for inner in value if _is_repeated(field) else (value,):
                yield from _messages(inner)


def _copy(source: Message, target: Message) -> None:
    """Copy a message. One may contain the other; ``CopyFrom`` of protobuf crashes in this case."""
    raw = source.SerializeToString()
    target.Clear()
    target.MergeFromString(raw)


def _alike(field: Any, messages: list[Message]) -> list[Message]:
    """The messages that have the type of a field."""
    return [message for message in messages if message.DESCRIPTOR is field.message_type]


def _change_list(items: Any, field: Any, messages: list[Message], rng: random.Random) -> None:
    is_message = field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE
    action = rng.randrange(5) if len(items) else 1
    if action == 0:
        del items[rng.randrange(len(items))]
    elif action == 1 and is_message:
        _copy(rng.choice(_alike(field, messages)), items.add())
    elif action == 1:
        items.append(_value(field, None, messages, rng))
    elif action == 2:
        shuffled_items = list(items)
        rng.shuffle(shuffled_items)
        del items[:]
        items.extend(shuffled_items)
    elif action == 3 and is_message:
        _copy(rng.choice(_alike(field, messages)), items[rng.randrange(len(items))])
    elif not is_message:
        position = rng.randrange(len(items))
        items[position] = _value(field, items[position], messages, rng)


def _value(field: Any, old: Any, messages: list[Message], rng: random.Random) -> Any:
    kind = field.cpp_type
    if kind in (FieldDescriptor.CPPTYPE_FLOAT, FieldDescriptor.CPPTYPE_DOUBLE):
        return rng.choice(_NUMBERS)
    if kind == FieldDescriptor.CPPTYPE_ENUM:
        return rng.choice(field.enum_type.values).number
    if kind == FieldDescriptor.CPPTYPE_STRING:
        if field.type == FieldDescriptor.TYPE_BYTES:
            return _mutate_bytes(old or b"abcdefgh", rng)
        return rng.choice(
            [*_WORDS, *rng.sample(_strings(messages), k=min(8, len(_strings(messages))))]
        )
    return rng.choice([*_INTEGERS, rng.randrange(30)])


def _strings(messages: list[Message]) -> list[str]:
    """The values of all string fields, each once."""
    strings: dict[str, None] = {}
    for message in messages:
        for field, value in message.ListFields():
            if field.type == FieldDescriptor.TYPE_STRING:
                strings.update(dict.fromkeys(value if _is_repeated(field) else (value,)))
    return list(strings)
