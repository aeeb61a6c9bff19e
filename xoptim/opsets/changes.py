"""The difference between two versions of an operator, as the schemas of the onnx package describe it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Final, TypeAlias

import onnx
from onnx.defs import OpSchema

_REQUIRED: Final = OpSchema.FormalParameterOption.Single
_OPTIONAL: Final = OpSchema.FormalParameterOption.Optional


Formals: TypeAlias = Sequence[OpSchema.FormalParameter]


@cache
def _versions() -> dict[str, tuple[int, ...]]:
    found: dict[str, list[int]] = {}
    for each in onnx.defs.get_all_schemas_with_history():
        if not each.domain:
            found.setdefault(each.name, []).append(each.since_version)
    return {name: tuple(sorted(versions)) for name, versions in found.items()}


def versions(op_type: str) -> tuple[int, ...]:
    """The operator sets that define an operator of the standard domain anew, in order; empty for an unknown operator."""
    return _versions().get(op_type, ())


def operators() -> tuple[str, ...]:
    """All operators of the standard domain, of the past too."""
    return tuple(sorted(_versions()))


def next_version(op_type: str, version: int, target: int) -> int | None:
    """The next operator set up to ``target`` that changes an operator after ``version``, ``None`` when there is none."""
    return next((each for each in versions(op_type) if version < each <= target), None)


@cache
def breaks(op_type: str, version: int) -> tuple[str, ...]:
    """The parts that a call may have before an operator set, and not in it; empty when all calls stay valid.

    Args:
        op_type: operator.
        version: operator set that defines it anew.
    """
    return tuple(_breaks(*_pair(op_type, version)))


@cache
def additions(op_type: str, version: int) -> tuple[str, ...]:
    """The additions of an operator set to an operator, element types excepted, and ``text`` when its text differs."""
    old, new = _pair(op_type, version)
    found = [f"attribute {name}" for name in new.attributes if name not in old.attributes]
    found += [f"operand {formal.name}" for formal in new.inputs[len(old.inputs) :]]
    found += [f"result {formal.name}" for formal in new.outputs[len(old.outputs) :]]
    return (*found, "text") if _text(old) != _text(new) else tuple(found)


def _pair(op_type: str, version: int) -> tuple[OpSchema, OpSchema]:
    before = max(each for each in versions(op_type) if each < version)
    return onnx.defs.get_schema(op_type, before, ""), onnx.defs.get_schema(op_type, version, "")


def _breaks(old: OpSchema, new: OpSchema) -> Iterator[str]:
    if new.deprecated:
        yield "the operator"
    for name, was in old.attributes.items():
        now = new.attributes.get(name)
        if now is None:
            yield f"attribute {name}"
        elif now.type != was.type or _default(now) != _default(was):
            yield f"the type or the default of attribute {name}"
    for name, now in new.attributes.items():
        if now.required and not (name in old.attributes and old.attributes[name].required):
            yield f"a call without attribute {name}"
    yield from _broken_formals("operand", old.inputs, new.inputs)
    yield from _broken_formals("result", old.outputs, new.outputs)
    if new.min_input > old.min_input or new.max_input < old.max_input:
        yield "the number of operands"
    if new.min_output > old.min_output or new.max_output < old.max_output:
        yield "the number of results"


def _broken_formals(kind: str, old: Formals, new: Formals) -> Iterator[str]:
    yield from (f"{kind} {was.name}" for was in old[len(new) :])
    for was, now in zip(old, new, strict=False):
        if was.option != now.option and (was.option, now.option) != (_REQUIRED, _OPTIONAL):
            yield f"{kind} {was.name} as it was"
        if not was.types <= now.types:
            yield f"the types of {kind} {was.name}"


def _default(attribute: OpSchema.Attribute) -> bytes:
    return attribute.default_value.SerializeToString(deterministic=True)


def _text(schema: OpSchema) -> list[str]:
    """The words of a schema about what is in both of two versions: layout and marks are left out."""
    parts = [schema.doc, *(each.description for each in (*schema.inputs, *schema.outputs))]
    parts += [schema.attributes[name].description for name in sorted(schema.attributes)]
    return re.findall(r"\w+|[<>=!]+", " ".join(part or "" for part in parts))
