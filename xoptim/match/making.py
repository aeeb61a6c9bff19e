"""Make pattern classes from something shorter than a class."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, TypeVar, cast, get_args

from xoptim.facts.dtypes import Exactness
from xoptim.graph.node import Node
from xoptim.match.pattern import PHASES, PatternOptimization

Made = TypeVar("Made", bound=PatternOptimization)
_WORDS: dict[str, tuple[str, ...]] = {
    "phase": PHASES,
    "exactness": get_args(Exactness),
    "status": ("stable", "preview", "deprecated"),
}


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
    known = {*PatternOptimization.__annotations__, "examples"}
    given: dict[str, Any] = {}
    for key, value in metadata.items():
        if key not in known:
            raise TypeError(f"a pattern has no {key!r}; it has {', '.join(sorted(known))}")
        if key in _WORDS and value not in _WORDS[key]:
            raise TypeError(f"{key} is one of {', '.join(_WORDS[key])}, not {value!r}")
        if isinstance(getattr(PatternOptimization, key, None), tuple):
            if isinstance(value, str):
                raise TypeError(f"{key} is a tuple: ({value!r},)")
            value = tuple(value)
        given[key] = value
    return given


def camel_case(name: str) -> str:
    """``simplify_twice`` as ``SimplifyTwice``."""
    return "".join(word[:1].upper() + word[1:] for word in name.split("_"))


def is_copy(node: Node) -> bool:
    """Whether a node is an Identity, which stands for its operand already where a result must keep its name."""
    return node.op_type == "Identity" and not node.domain
