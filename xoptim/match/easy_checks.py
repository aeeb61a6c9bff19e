"""Checks of the two functions that declare a pattern: mistakes that would stay silent."""

import dis
import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from types import CodeType
from typing import Any, Final

from xoptim.facts.errors import PatternError
from xoptim.facts.operators import mistake_in
from xoptim.facts.words import meant
from xoptim.match.trace import PatternNode, Trace, Variadic

_MANY: Final = 1 << 30
_DEPTH: Final = 4  # of calls that are followed to find what is derived
# f(**values); instructions have two bytes, the first is the operation
_CALL_WITH_MANY: Final = dis.opmap["CALL_FUNCTION_EX"]


def check_description(name: str, variants: Sequence[Trace]) -> None:
    """Check the nodes, parameters and captures of the variants of a traced pattern.

    Raises `PatternError` when an operator, attribute or number of operands does not exist, when a
    parameter is not read, a name is captured twice, or nothing is returned.
    """
    file = variants[0].file
    for found in variants:
        for node in found.nodes:
            mistake = mistake_in(
                node.op_type, node.domain, _attributes(node), _operands(node), _results(node)
            )
            if mistake is not None:
                raise PatternError(f"{file}:{node.line}: {name}: {mistake}")
        twice = _captured_twice(found)
        if twice is not None:
            raise PatternError(
                f"{file}: {name}: match_pattern uses the name {twice!r} for two things"
            )
        if any(symbol is None for symbol in found.outputs):
            line = max((node.line for node in found.nodes), default=0)
            place = f"{file}:{line}" if line else file
            raise PatternError(
                f"{place}: {name}: match_pattern returns None; return the results of the subgraph"
            )
    given = dict.fromkeys(
        s.name for found in variants for s in found.symbols if s.name and s.producer is None
    )
    read = {
        s.name for found in variants for node in found.nodes for s in node.inputs if s is not None
    }
    unread = next((each for each in given if each not in read), None)
    if unread is not None:
        raise PatternError(f"{file}: {name}: match_pattern does not read its parameter {unread!r}")


def check_replacement(
    name: str,
    owner: object,
    apply: Callable[..., Any],
    captured: Iterable[str],
    checks: Sequence[Callable[..., Any]],
) -> None:
    """Check the parameters of `apply_pattern`, and that it returns something.

    Each parameter must be captured by a variant, or derived by one of the ``checks``, bound methods
    of the owner. Otherwise, and when all returns are without a value, `PatternError` is raised.
    """
    code = getattr(apply, "__code__", None)
    if code is None:
        return
    place = f"{code.co_filename}:{code.co_firstlineno}: {name}: apply_pattern"
    known = set(captured)
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    parameters = [
        each
        for each in list(inspect.signature(apply).parameters.values())[1:]
        if each.kind in named
    ]
    unknown = [
        each.name for each in parameters if each.default is each.empty and each.name not in known
    ]
    # The search of the code takes long beside the rest, and most patterns derive nothing.
    derived = _derived(owner, checks) if unknown else set()
    for parameter in unknown:
        if derived is not None and parameter not in derived:
            raise PatternError(
                f"{place} has a parameter {parameter!r}, which nothing "
                f"captures{meant(parameter, known)}"
            )
    if not _returns_a_value(code):
        raise PatternError(
            f"{place} returns nothing; return the results that replace those of match_pattern"
        )


def _attributes(node: PatternNode) -> list[str]:
    """The attributes that a node must have.

    One that must be absent may be one of a later version.
    """
    return [name for name, value in node.attributes.items() if value is not None]


def _operands(node: PatternNode) -> range:
    """The numbers of operands that a node of a pattern matches."""
    count = len(node.inputs)
    if node.associative:  # a tree of nodes
        return range(2, 3)
    return range(count - 1, _MANY) if node.variadic >= 0 else range(count, count + 1)


def _results(node: PatternNode) -> int:
    return 0 if any(symbol.kind is Variadic for symbol in node.outputs) else len(node.outputs)


def _captured_twice(found: Trace) -> str | None:
    """A name that is used both for a result and for an attribute or an option."""
    results = {symbol.name for symbol in found.symbols if symbol.name}
    attributes = found.captured_attributes()
    twice = [name for name in (*found.options, *sorted(attributes)) if name in results]
    return next(iter([*twice, *(name for name in found.options if name in attributes)]), None)


def _derived(owner: object, functions: Iterable[Callable[..., Any]]) -> set[str] | None:
    """Texts among which are the names of all values that some functions derive.

    ``None`` when they cannot be known.

    The functions that these call are searched too, also in other modules and in base classes.
    """
    words: set[str] = set()
    pending, seen = [(function, 0) for function in functions], set()
    while pending:
        function, depth = pending.pop()
        plain = inspect.unwrap(getattr(function, "__func__", function))
        code = getattr(plain, "__code__", None)
        if code is None or code in seen:
            continue
        seen.add(code)
        for each in _codes(code):
            if "derive" in each.co_names and _CALL_WITH_MANY in each.co_code[::2]:
                return None  # m.derive(**values)
            constants = (
                value
                for item in each.co_consts
                for value in (item if isinstance(item, tuple) else (item,))
            )
            words.update(value for value in constants if isinstance(value, str))
        names = {name for each in _codes(code) for name in (*each.co_names, *each.co_freevars)}
        around = {**getattr(plain, "__globals__", {}), **_enclosed(plain)}
        methods = [
            vars(cls)[name] for cls in type(owner).__mro__ for name in names & vars(cls).keys()
        ]
        called = [
            *(around.get(name) for name in names),
            *(getattr(each, "__func__", each) for each in methods),
        ]
        if depth < _DEPTH:
            pending += [
                (each, depth + 1)
                for each in called
                if callable(each) and not isinstance(each, type)
            ]
    return words


def _enclosed(function: Callable[..., Any]) -> dict[str, Any]:
    """The variables of the functions around a function."""
    code, cells = getattr(function, "__code__", None), getattr(function, "__closure__", None) or ()
    found: dict[str, Any] = {}
    for name, cell in zip(code.co_freevars if code else (), cells, strict=False):
        with suppress(ValueError):  # not assigned yet
            found[name] = cell.cell_contents
    return found


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _returns_a_value(code: CodeType) -> bool:
    """Whether a function has a ``return`` with a value, or none that is reached."""
    found = False
    previous: dis.Instruction | None = None
    for instruction in dis.get_instructions(code):
        if instruction.opname in ("RETURN_VALUE", "RETURN_CONST"):
            found = True
            source = instruction if instruction.opname == "RETURN_CONST" else previous
            if source is None or not source.opname.endswith("_CONST") or source.argval is not None:
                return True
        previous = instruction
    return not found
