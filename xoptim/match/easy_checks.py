"""Checks of the two functions that declare a pattern.

They report mistakes that would otherwise stay silent, such as an operator that does not exist: the
pattern would never match.
"""

import inspect
from collections.abc import Callable, Collection, Sequence
from typing import Any, Final

from xoptim.facts.errors import PatternError
from xoptim.facts.operators import mistake_in
from xoptim.facts.words import meant
from xoptim.match.trace import PatternNode, Trace, Variadic

_NO_LIMIT: Final = 1 << 30


def check_description(name: str, variants: Sequence[Trace]) -> None:
    """Check the nodes, parameters and captures of the variants of a traced pattern.

    Raises `PatternError` when an operator, attribute or number of operands does not exist, when a
    parameter is not read, a name is captured twice, or nothing is returned.
    """
    file = variants[0].file
    for variant in variants:
        for node in variant.nodes:
            mistake = mistake_in(
                node.op_type, node.domain, _attributes(node), _operands(node), _results(node)
            )
            if mistake is not None:
                raise PatternError(f"{file}:{node.line}: {name}: {mistake}")
        duplicate = _captured_twice(variant)
        if duplicate is not None:
            raise PatternError(
                f"{file}: {name}: match_pattern uses the name {duplicate!r} for two things"
            )
        if any(symbol is None for symbol in variant.outputs):
            line = max((node.line for node in variant.nodes), default=0)
            place = f"{file}:{line}" if line else file
            raise PatternError(
                f"{place}: {name}: match_pattern returns None; return the results of the subgraph"
            )
    parameters = dict.fromkeys(
        s.name for variant in variants for s in variant.symbols if s.name and s.producer is None
    )
    operands = {
        s.name
        for variant in variants
        for node in variant.nodes
        for s in node.inputs
        if s is not None
    }
    unread = next((parameter for parameter in parameters if parameter not in operands), None)
    if unread is not None:
        raise PatternError(f"{file}: {name}: match_pattern does not read its parameter {unread!r}")


def check_replacement(name: str, apply: Callable[..., Any], names: Collection[str]) -> None:
    """Check the parameters of `apply_pattern`.

    Each must be among the ``names`` that a variant captures or that are derived. Raises
    `PatternError` for any other parameter.
    """
    code = getattr(apply, "__code__", None)
    if code is None:
        return
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    for parameter in list(inspect.signature(apply).parameters.values())[1:]:
        is_required = parameter.kind in kinds and parameter.default is parameter.empty
        if is_required and parameter.name not in names:
            place = f"{code.co_filename}:{code.co_firstlineno}: {name}: apply_pattern"
            raise PatternError(
                f"{place} has a parameter {parameter.name!r}, which nothing captures or "
                f"derives{meant(parameter.name, names)}"
            )


def _attributes(node: PatternNode) -> list[str]:
    """The attributes that a node must have.

    Attributes that must be absent are not checked: they may belong to a newer operator set than
    the installed onnx knows.
    """
    return [name for name, value in node.attributes.items() if value is not None]


def _operands(node: PatternNode) -> range:
    """The numbers of operands that a node of a pattern matches."""
    count = len(node.inputs)
    if node.associative:  # a tree of nodes
        return range(2, 3)
    return range(count - 1, _NO_LIMIT) if node.variadic >= 0 else range(count, count + 1)


def _results(node: PatternNode) -> int:
    return 0 if any(symbol.kind is Variadic for symbol in node.outputs) else len(node.outputs)


def _captured_twice(variant: Trace) -> str | None:
    """A name that is used both for a result and for an attribute or an option."""
    results = {symbol.name for symbol in variant.symbols if symbol.name}
    attributes = variant.captured_attributes()
    duplicates = [name for name in (*variant.options, *sorted(attributes)) if name in results]
    return next(
        iter([*duplicates, *(name for name in variant.options if name in attributes)]), None
    )
