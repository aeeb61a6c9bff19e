"""Classes of patterns and passes that are made from shorter forms, such as functions or text."""

import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, Final, TypeVar, cast

from xoptim.facts.dtypes import GRADES
from xoptim.facts.errors import PatternError
from xoptim.graph.node import Node
from xoptim.match.lines import attribute_line
from xoptim.match.pattern import PatternOptimization
from xoptim.match.rewrite import PHASES, STATUSES, Example, Rewrite

Made = TypeVar("Made", bound=Rewrite)
_PATTERN_NAMES: Final = frozenset(Rewrite.__annotations__ | PatternOptimization.__annotations__)
LISTS: Final = frozenset(
    name for name in _PATTERN_NAMES if isinstance(getattr(PatternOptimization, name), tuple)
) - {"examples"}
"""Class attributes that are tuples of words."""
ORDERS: Final = ("before", "after")
"""Class attributes that name other rewrites, each with a reason where they are not tuples."""
CHOICES: Final[dict[str, tuple[str, ...]]] = {
    "phase": PHASES,
    "exactness": GRADES,
    "status": STATUSES,
    "interior": ("refuse", "keep"),
}
"""Class attributes with a fixed set of values; only declared patterns have ``interior``."""
_VERSIONS: Final = re.compile(r"((<=?|>=?|==|!=)\d+(\.\d+)*(,(?=.))?)*")


def metadata_of(kind: type[Rewrite]) -> frozenset[str]:
    """The class attributes that are metadata of a pattern or a pass."""
    return (
        _PATTERN_NAMES
        if issubclass(kind, PatternOptimization)
        else frozenset(Rewrite.__annotations__)
    )


def pattern_class(
    base: type[Made],
    name: str,
    module: str,
    doc: str,
    metadata: Mapping[str, Any],
    members: Mapping[str, Any],
) -> type[Made]:
    """A class of a pattern or a pass, like one that is written in a module.

    Characters of ``name`` that are invalid in a class name are dropped. ``metadata`` are class
    attributes (see `metadata_of`), with the exactness ``rounding`` unless given, since equal bits
    are not guaranteed; ``members`` override them. Raises `TypeError` when a class attribute is
    unknown or has an invalid value.
    """
    attributes = {"exactness": "rounding", **checked(base, metadata)}
    name = re.sub(r"\W", "", name).removesuffix("Pattern") + "Pattern"
    return cast(
        "type[Made]",
        type(name, (base,), {**attributes, **members, "__module__": module, "__doc__": doc}),
    )


def checked(kind: type[Rewrite], metadata: Mapping[str, Any]) -> dict[str, Any]:
    """The class attributes of a pattern or a pass, checked, with lists as tuples.

    Raises `TypeError` for an unknown or invalid class attribute.
    """
    names = metadata_of(kind)
    attributes: dict[str, Any] = {}
    for key, value in metadata.items():
        if key not in names:
            noun = "pattern" if issubclass(kind, PatternOptimization) else "pass"
            raise TypeError(f"a {noun} has no {key!r}; it has {', '.join(sorted(names))}")
        error = fault(key, value)
        if error:
            raise TypeError(f"{key} {error}")
        is_list = (key in LISTS or key == "examples") and not isinstance(value, Mapping)
        attributes[key] = tuple(value) if is_list else value
    return attributes


@cache
def check_metadata(kind: type[Rewrite]) -> None:
    """Check the class attributes of a pattern or a pass.

    Raises `PatternError` for an invalid value.
    """
    for key in sorted(
        metadata_of(kind) | {"interior"} if hasattr(kind, "match_pattern") else metadata_of(kind)
    ):
        if error := fault(key, getattr(kind, key)):
            file, line = attribute_line(kind, key)
            place = f"{file}:{line}: " if file else ""  # a class made by a program has no source
            raise PatternError(f"{place}{kind.name()}: {key} {error}")


def fault(key: str, value: Any) -> str:
    """The error in the value of a class attribute, for a message that begins with its name.

    Empty when the value is valid.
    """
    if key in CHOICES:
        return (
            "" if value in CHOICES[key] else f"is one of {', '.join(CHOICES[key])}, not {value!r}"
        )
    if key in LISTS:
        if key in ORDERS and isinstance(value, Mapping):
            return "" if _are_words([*value, *value.values()]) else "is a reason for each name"
        if isinstance(value, str):
            return f"is a tuple: ({value!r},)"
        is_list = isinstance(value, (tuple, list)) and _are_words(value)
        return "" if is_list else f"is a list of words, not {value!r}"
    if key == "examples":
        is_list = isinstance(value, (tuple, list)) and all(
            isinstance(example, Example) for example in value
        )
        return "" if is_list else f"is a tuple of Example, not {value!r}"
    if key == "onnxruntime":
        is_valid = isinstance(value, str) and _VERSIONS.fullmatch(value)
        return "" if is_valid else f"is a list of versions such as '>=1.30,<1.33', not {value!r}"
    if key not in _PATTERN_NAMES or (key == "max_opset" and value is None):
        return ""
    return (
        ""
        if isinstance(value, int) and not isinstance(value, bool)
        else f"is a whole number, not {value!r}"
    )


def _are_words(values: Iterable[object]) -> bool:
    return all(isinstance(value, str) for value in values)


def camel_case(name: str) -> str:
    """``simplify_twice`` as ``SimplifyTwice``."""
    return "".join(word[:1].upper() + word[1:] for word in name.split("_"))


def is_copy(node: Node) -> bool:
    """Whether a node is a standard Identity: patterns skip it, as a replacement may have one so
    that a result keeps its name.
    """
    return node.op_type == "Identity" and not node.domain
