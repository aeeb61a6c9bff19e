"""Conditions that rules in text form name: ``ok = filter.same_shape (a, b)``."""

import inspect
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, TypeAlias

from xoptim.facts.attributes import same_attribute
from xoptim.facts.dtypes import is_float, is_integer, type_name

if TYPE_CHECKING:
    from xoptim.match import GraphView, Match

Filter: TypeAlias = Callable[..., "bool | None"]
"""Called with the view of the graph, the match, the names of the results, and the attributes as
keywords.
"""
View: TypeAlias = "GraphView"
Bindings: TypeAlias = "Match"


def _for_all(holds: Callable[[View, str], bool]) -> Filter:

    def check(g: View, m: Bindings, x: str, *more: str) -> bool:
        return all(holds(g, name) for name in (x, *more))

    return check


def _same_fact(fact: Callable[[View, str], int | None]) -> Filter:

    def check(g: View, m: Bindings, a: str, b: str, *more: str) -> bool:
        facts = {fact(g, name) for name in (a, b, *more)}
        return len(facts) == 1 and None not in facts

    return check


def _has_shape(g: View, m: Bindings, x: str, shape: Sequence[int] | None = None) -> bool:
    actual = g.try_infer_shape(x)
    if actual is None or shape is None:
        return actual is not None
    return len(actual) == len(shape) and all(
        size in (-1, dim) for size, dim in zip(shape, actual, strict=True)
    )


BUILT_IN: dict[str, Filter] = {
    "is_constant": _for_all(lambda g, name: g.is_constant(name)),
    "is_variable": _for_all(lambda g, name: not g.is_constant(name)),
    "is_constant_scalar": lambda g, m, x, value=None: g.is_constant_scalar(x, value),
    "has_type": lambda g, m, x, types=(): (
        (dtype := g.try_infer_type(x)) != 0 and (not types or type_name(dtype) in types)
    ),
    "is_float": _for_all(lambda g, name: is_float(g.try_infer_type(name))),
    "is_integer": _for_all(lambda g, name: is_integer(g.try_infer_type(name))),
    "has_rank": lambda g, m, x, rank=None: (
        (actual := g.info(x).rank) is not None and rank in (None, actual)
    ),
    "has_shape": _has_shape,
    "static_shape": _for_all(lambda g, name: g.static_shape(name) is not None),
    "same_shape": lambda g, m, a, b, *more: all(g.same_shape(a, name) for name in (b, *more)),
    "same_rank": _same_fact(lambda g, name: g.info(name).rank),
    "same_type": _same_fact(lambda g, name: g.try_infer_type(name) or None),
    "is_exclusive": _for_all(lambda g, name: g.is_exclusive(name)),
    "is_output": _for_all(lambda g, name: g.is_output(name)),
    "is_no_output": _for_all(lambda g, name: not g.is_output(name)),
    "equal": lambda g, m, *, a, b: same_attribute(a, b),
    "differ": lambda g, m, *, a, b: not same_attribute(a, b),
}
"""The filters that need no registration; ``docs/rules.md`` describes each of them."""
_REGISTERED: dict[str, Filter] = {}


def register_filter(name: str, check: Filter) -> None:
    """Register a condition for rules in text form under a name.

    Registering a name again replaces its condition.

    Args:
        name: a word, used as ``ok = filter.NAME (a, b)``.
        check: called with the view of the graph, the match, the names of the results in the model,
            and the attributes of the filter as keywords.

    Raises:
        ValueError: when the name belongs to a built-in filter, or is not a word.
    """
    if name in BUILT_IN:
        raise ValueError(f"the filter {name!r} is built in; choose another name")
    if not name.isidentifier():
        raise ValueError(
            f"{name!r} cannot be the name of a filter; letters, digits and underscores can"
        )
    _REGISTERED[name] = check


def known_filters() -> dict[str, Filter]:
    """All filters by name."""
    return {**BUILT_IN, **_REGISTERED}


def misused(check: Filter, operands: Sequence[str], attributes: Sequence[str]) -> str:
    """The mistake in the number of operands or the attributes of a filter, empty when there is
    none.
    """
    try:
        with suppress(ValueError):  # a callable without signature
            inspect.signature(check).bind(None, None, *operands, **dict.fromkeys(attributes))
    except TypeError as error:
        return str(error)
    return ""
