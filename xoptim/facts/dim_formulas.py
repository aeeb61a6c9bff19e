"""Formulas that exporters write in place of the name of a dimension, such as ``past + seq``, and
numbers.
"""

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
_LONGEST: Final = 200
_LARGEST: Final = 1 << 63
"""A size is less."""
_OPERATORS: Final[dict[type[ast.operator], Callable[[Any, Any], Any]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
}


@lru_cache(1024)
def formula_of(text: str) -> Dim | None:
    """The size that a formula gives, by the names in it; ``None`` for the name of a dimension.

    A number is one as well: exporters write fixed sizes as the names "2" and "16".
    """
    if len(text) > _LONGEST:
        return None
    if text.isascii() and text.isdecimal():
        return int(text) if 0 < int(text) < _LARGEST else None
    if not _CALCULATION.search(text) or not _ALLOWED.fullmatch(text):
        return None
    try:
        with warnings.catch_warnings():  # the compiler of Python has advice about `1or 2`
            warnings.simplefilter("ignore")
            size = _computed(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError, ZeroDivisionError, RecursionError, MemoryError):
        return None
    return None if isinstance(size, int) and abs(size) >= _LARGEST else size


def size_in(text: str, names: Collection[str]) -> Dim | None:
    """The size that a formula of some dimensions gives, ``None`` for a text that is not one."""
    size = formula_of(text)
    return size if size is None or isinstance(size, int) or size.symbols <= {*names} else None


def _computed(tree: ast.expr) -> Dim:
    if isinstance(tree, ast.BinOp) and type(tree.op) in _OPERATORS:
        size: Dim = _OPERATORS[type(tree.op)](_computed(tree.left), _computed(tree.right))
        return size
    if isinstance(tree, ast.Name):
        return named(tree.id)
    if isinstance(tree, ast.Constant) and type(tree.value) is int and tree.value < _LARGEST:
        return tree.value
    raise ValueError
