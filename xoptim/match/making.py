"""Make pattern classes from something shorter than a class."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, TypeVar, cast

from xoptim.facts.dtypes import GRADES
from xoptim.graph.node import Node
from xoptim.match.pattern import PHASES, STATUSES, PatternOptimization

Made = TypeVar("Made", bound=PatternOptimization)
METADATA: Final = frozenset(PatternOptimization.__annotations__)
"""The class attributes by which a pattern says what it is."""
LISTS: Final = frozenset(name for name in METADATA if isinstance(getattr(PatternOptimization, name), tuple))
"""Those that are tuples of words."""
CHOICES: Final[dict[str, tuple[str, ...]]] = {
    "phase": PHASES,
    "exactness": GRADES,
    "status": STATUSES,
    "interior": ("refuse", "keep"),
}
"""Those that are one of some words; what is declared node by node has an ``interior`` too."""


def pattern_class(
    base: type[Made], name: str, module: str, doc: str, metadata: Mapping[str, Any], members: Mapping[str, Any]
) -> type[Made]:
    """A pattern class, as if it had been written out in a module.

    Args:
        base: class to derive it from.
        name: of the class, with or without the suffix ``Pattern``; letters that no class name can have are dropped.
        module: where it is to be found.
        doc: docstring.
        metadata: class attributes of `PatternOptimization`, and ``examples``, a sequence of `Example`. The exactness is
            ``rounding`` unless given: equal bits are not promised.
        members: further attributes of the class; they override ``metadata``.

    Raises:
        TypeError: when a class attribute is unknown, or has a value that it cannot have.
    """
    given = {"exactness": "rounding", **checked(metadata)}
    if "examples" in given:
        examples = tuple(given["examples"])
        given["examples"] = classmethod(lambda cls: examples)
    name = re.sub(r"\W", "", name).removesuffix("Pattern") + "Pattern"
    return cast("type[Made]", type(name, (base,), {**given, **members, "__module__": module, "__doc__": doc}))


def checked(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """The same class attributes, lists as tuples.

    Raises:
        TypeError: when one is unknown, or has a value that it cannot have.
    """
    known = METADATA | {"examples"}
    given: dict[str, Any] = {}
    for key, value in metadata.items():
        if key not in known:
            raise TypeError(f"a pattern has no {key!r}; it has {', '.join(sorted(known))}")
        wrong = fault(key, value)
        if wrong:
            raise TypeError(f"{key} {wrong}")
        given[key] = tuple(value) if key in LISTS else value
    return given


def fault(key: str, value: Any) -> str:
    """What is wrong with the value of a class attribute, for a message that begins with its name; empty when it can be that."""
    if key in CHOICES:
        return "" if value in CHOICES[key] else f"is one of {', '.join(CHOICES[key])}, not {value!r}"
    if key in LISTS:
        if isinstance(value, str):
            return f"is a tuple: ({value!r},)"
        is_list = isinstance(value, (tuple, list)) and all(isinstance(word, str) for word in value)
        return "" if is_list else f"is a list of words, not {value!r}"
    if key not in METADATA or (key == "max_opset" and value is None):
        return ""
    return "" if isinstance(value, int) and not isinstance(value, bool) else f"is a whole number, not {value!r}"


def camel_case(name: str) -> str:
    """``simplify_twice`` as ``SimplifyTwice``."""
    return "".join(word[:1].upper() + word[1:] for word in name.split("_"))


def is_copy(node: Node) -> bool:
    """Whether a node is an Identity, which stands for its operand already where a result must keep its name."""
    return node.op_type == "Identity" and not node.domain
