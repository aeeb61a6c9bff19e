"""Formulas, such as ``past + seq``, and numbers that exporters write as names of dimensions."""

import ast
import operator
import re
import warnings
from collections.abc import Callable, Collection
from functools import lru_cache
from typing import Any, Final

from xoptim.facts.symbolic import Dim, named

_CALCULATION: Final = re.compile(r"[+*]|//| - ")
_ALLOWED: Final = re.compile(r"[\w\s+*/()-]+")
_MAX_LENGTH: Final = 200
_SIZE_LIMIT: Final = 1 << 63
"""All sizes are smaller."""
_OPERATORS: Final[dict[type[ast.operator], Callable[[Any, Any], Any]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
}


@lru_cache(1024)
def formula_of(text: str) -> Dim | None:
    """The value of a formula of dimension names, ``None`` for other texts, such as a single name.

    A number is a formula: exporters write fixed sizes as the names "2" and "16". A number that is
    no size, such as -4 for "1 - 5", is not.
    """
    if len(text) > _MAX_LENGTH:
        return None
    if text.isascii() and text.isdecimal():
        return int(text) if 0 < int(text) < _SIZE_LIMIT else None
    if not _CALCULATION.search(text) or not _ALLOWED.fullmatch(text):
        return None
    try:
        with warnings.catch_warnings():  # Python's compiler warns about a text such as `1or 2`
            warnings.simplefilter("ignore")
            size = _computed(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError, ZeroDivisionError, RecursionError, MemoryError):
        return None
    return None if isinstance(size, int) and not 0 < size < _SIZE_LIMIT else size


def size_in(text: str, names: Collection[str]) -> Dim | None:
    """The value of a formula of these dimensions, ``None`` for any other text."""
    size = formula_of(text)
    return size if size is None or isinstance(size, int) or size.symbols <= {*names} else None


def _computed(tree: ast.expr) -> Dim:
    if isinstance(tree, ast.BinOp) and type(tree.op) in _OPERATORS:
        size: Dim = _OPERATORS[type(tree.op)](_computed(tree.left), _computed(tree.right))
        return size
    if isinstance(tree, ast.Name):
        return named(tree.id)
    if isinstance(tree, ast.Constant) and type(tree.value) is int and tree.value < _SIZE_LIMIT:
        return tree.value
    raise ValueError
