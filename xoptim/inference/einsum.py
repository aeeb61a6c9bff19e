"""Einsum."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Final

from xoptim.facts.dims import Dim, broadcast
from xoptim.facts.info import Info, Shape
from xoptim.facts.shapes import broadcast_shapes
from xoptim.inference.arguments import dtype_of, shape_of, text
from xoptim.inference.registry import NodeContext, Results, infers

_TERM: Final = re.compile(r"[A-Za-z]*(\.\.\.)?[A-Za-z]*")


@infers("Einsum")
def einsum(ctx: NodeContext) -> Results:
    """One term of letters per operand, an ellipsis for axes that broadcast; the result term may be left out."""
    equation = (text(ctx, "equation", "") or "").replace(" ", "")
    operands, arrow, result = equation.partition("->")
    terms = operands.split(",")
    dtype = next((dtype_of(info) for info in ctx.inputs if dtype_of(info)), 0)
    if len(terms) != len(ctx.inputs) or not all(_TERM.fullmatch(term) for term in (*terms, result)):
        return (Info(dtype),)
    if not arrow:
        letters = Counter(operands.replace(",", "").replace(".", ""))
        result = "..." * ("..." in operands) + "".join(sorted(c for c, count in letters.items() if count == 1))
    return (Info(dtype, _contracted(ctx, terms, [shape_of(info) for info in ctx.inputs], result)),)


def _contracted(ctx: NodeContext, terms: Sequence[str], shapes: Sequence[Shape | None], result: str) -> Shape | None:
    """Shape of the result; ``None`` where an ellipsis stands for an unknown number of axes."""
    sizes: dict[str, Dim] = {}
    hidden: Shape | None = ()
    for term, shape in zip(terms, shapes, strict=True):
        head, dots, tail = term.partition("...")
        named = len(head) + len(tail)
        if shape is None:
            hidden = None if dots else hidden
            continue
        if len(shape) < named or (len(shape) > named and not dots):
            return None
        stop = len(shape) - len(tail)
        for letter, dim in zip(head + tail, shape[: len(head)] + shape[stop:], strict=True):
            sizes[letter] = broadcast(sizes[letter], dim) if letter in sizes else dim
        if dots:
            hidden = broadcast_shapes(hidden, shape[len(head) : stop])
    before, dots, after = result.partition("...")
    if dots and hidden is None:
        return None
    letters = [[sizes[c] if c in sizes else ctx.fresh() for c in part] for part in (before, after)]
    return (*letters[0], *((hidden or ()) if dots else ()), *letters[1])
