"""The factors that elements are made of, and the replacement of factors by elements."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import Any, TypeAlias

from xoptim.proof.elements import LAWS, Element, Factor, added, expanded, factor, opened
from xoptim.proof.kinds import SUM, WHOLE

Change: TypeAlias = Callable[[Factor], Element | None]
"""Takes a factor, returns what is to be in its place, or ``None``."""


def factors_of(value: Element) -> Iterator[Factor]:
    """All factors of an element, also those in the arguments of functions.

    Arguments of functions of complete tensors are not included.
    """
    for _, powers in value.terms:
        for base, _ in powers:
            yield base
            if base.key[0] != WHOLE:
                for arg in base.args:
                    if isinstance(arg, Element):
                        yield from factors_of(arg)


def rewritten(value: Element, change: Change) -> Element:
    """An element with ``change`` applied to its factors, also in the arguments of functions.

    Arguments of functions of complete tensors are not changed.
    """
    parts: list[Element] = []
    for term, number in value.terms.items():
        bounds, powers = opened(term)
        images = [(_changed(base, change), power) for base, power in powers]
        parts.append(expanded(bounds, images, number))
    return added(parts)


def _changed(base: Factor, change: Change) -> Factor | Element:
    image = change(base)
    if image is not None:
        return image.single or image
    if base.key[0] == WHOLE or not any(isinstance(arg, Element) for arg in base.args):
        return base
    args = [rewritten(arg, change) if isinstance(arg, Element) else arg for arg in base.args]
    if all(new is old for new, old in zip(args, base.args, strict=True)):
        return base
    return _applied(base.key, args)


def _applied(key: tuple[Hashable, ...], args: list[Any]) -> Factor | Element:
    """A function of new arguments; the content of a sum is the sum."""
    if key[0] == SUM:
        return args[0]  # type: ignore[no-any-return]
    law = LAWS.get(str(key[0]))
    image = factor(*key, args=args) if law is None else law(key, args)
    single = None if isinstance(image, Factor) else image.single
    return image if single is None else single
