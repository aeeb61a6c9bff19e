"""Conditions of patterns that can be switched off, one at a time, while they run.

The modules of the catalogue are compiled with a call around each condition that allows a match or
causes a refusal. The call records the conditions that refuse. It lets a match pass the condition
that is switched off.
"""

import ast
import importlib.abc
import importlib.machinery
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import Any, Final

from xoptim.match.rewrite import Rewrite

_DECLARED: Final = ("constant_operands", "operand_types", "operand_ranks")
_OPTIONS: Final = ("outputs", "domain", "associative", "any_order", "attributes", "name", None)
"""Keywords of ``g.op.NAME(...)`` that are not attributes; `None` is the keyword of ``**others``."""
_GUARD, _LOOSE = "__guard__", "__loose__"


class Switch:
    """Switches one condition off, and records the conditions that refuse a match.

    The key of a condition is its place: file, line, column, and its text.

    Attributes:
        off: key of the condition that is switched off, or "".
        refused: keys of the conditions that have refused since the set was cleared.
        described: keys of the constants in descriptions that were read since the set was cleared.
    """

    def __init__(self) -> None:
        self.off = ""
        self.refused: set[str] = set()
        self.described: set[str] = set()

    def guard(self, key: str, held: bool, value: Any) -> Any:
        """The value of a condition, or ``held`` if the condition is switched off.

        ``held`` is the truth value with which the condition allows a match.
        """
        if key == self.off:
            return held
        try:
            refuses = bool(value) is not held
        except ValueError:  # an array is not a condition
            return value
        if refuses:
            self.refused.add(key)
        return value

    def loose(self, key: str, value: Any, anything: Any) -> Any:
        """The value that a description requires of an attribute or operand.

        If the requirement is switched off, it is ``anything``: ``ANY`` for an attribute, a new
        symbol for an operand.
        """
        self.described.add(key)
        if key != self.off:
            return value
        return anything() if callable(anything) else anything

    @contextmanager
    def without(self, key: str) -> Iterator[None]:
        """Run without one condition."""
        self.off = key
        try:
            yield
        finally:
            self.off = ""


SWITCH: Final = Switch()


def instrumented(source: str | bytes, place: str) -> ast.Module:
    """The syntax tree of a module with switchable conditions, whose keys begin with ``place``."""
    tree = _Instrumenter(place).visit(ast.parse(source))
    return ast.fix_missing_locations(tree)  # type: ignore[no-any-return]


class _Instrumenter(ast.NodeTransformer):
    """Puts a call around each condition."""

    def __init__(self, place: str) -> None:
        self._place = place
        self._builder = ""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        outer = self._builder
        builders = (
            a.arg
            for a in node.args.args
            if isinstance(a.annotation, ast.Name) and a.annotation.id == "PatternBuilder"
        )
        self._builder = next(builders, "")
        self.generic_visit(node)
        self._builder = outer
        return node

    def visit_If(self, node: ast.If) -> ast.AST:
        self.generic_visit(node)
        if len(node.body) == 1 and _refuses(node.body[0]):
            node.test = self._terms(node.test, False)
        return node

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        self.generic_visit(node)
        if _is_nothing(node.orelse):
            node.test = self._terms(node.test, True)
        elif _is_nothing(node.body):
            node.test = self._terms(node.test, False)
        return node

    def visit_match_case(self, node: ast.match_case) -> ast.AST:
        self.generic_visit(node)
        node.guard = node.guard and self._terms(node.guard, True)
        return node

    def visit_comprehension(self, node: ast.comprehension) -> ast.AST:
        self.generic_visit(node)
        node.ifs = [self._terms(test, True) for test in node.ifs]
        return node

    def visit_Return(self, node: ast.Return) -> ast.AST:
        self.generic_visit(node)
        node.value = node.value and self._if_condition(node.value)
        return node

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        self.generic_visit(node)
        node.value = self._if_condition(node.value)
        return node

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        self.generic_visit(node)
        node.body = self._if_condition(node.body)
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        match node:
            case ast.Call(
                func=ast.Name(id="all" | "any" as name), args=[ast.GeneratorExp() as generator]
            ):
                generator.elt = self._terms(generator.elt, name == "all")
            case ast.Call(func=ast.Attribute(value=ast.Attribute(attr="op"))) if self._builder:
                node.args = [self._loosened(argument, "symbol") for argument in node.args]
                for keyword in node.keywords:
                    if keyword.arg not in _OPTIONS:
                        keyword.value = self._loosened(keyword.value, "ANY")
        return node

    def _if_condition(self, value: ast.expr) -> ast.expr:
        """Make the terms of a Boolean expression switchable; other expressions are unchanged."""
        match value:
            case ast.BoolOp() | ast.Compare() | ast.UnaryOp(op=ast.Not()):
                return self._terms(value, True)
        return value

    def _terms(self, test: ast.expr, held: bool) -> ast.expr:
        """Make the terms of a condition switchable.

        The condition allows a match when its value is ``held``.
        """
        match test:
            case ast.BoolOp(op=op, values=terms) if isinstance(op, ast.And if held else ast.Or):
                return ast.copy_location(
                    ast.BoolOp(op, [self._terms(term, held) for term in terms]), test
                )
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return ast.copy_location(
                    ast.UnaryOp(ast.Not(), self._terms(operand, not held)), test
                )
            case ast.Call(func=ast.Name(id=name), args=[ast.GeneratorExp()]) if name == (
                "all" if held else "any"
            ):
                return test  # its element is a condition
        return self._call(_GUARD, test, ast.Constant(held), test)

    def _loosened(self, value: ast.expr, anything: str) -> ast.expr:
        """Make a constant in a description switchable; ``None`` and strings are unchanged."""
        match value:
            case ast.Constant(value=None | str()):
                return value
            case (
                ast.Constant()
                | ast.List()
                | ast.UnaryOp()
                | ast.Call(func=ast.Attribute(attr="any_of"))
            ):
                return self._call(
                    _LOOSE, value, value, ast.parse(f"{self._builder}.{anything}", mode="eval").body
                )
        return value

    def _call(self, name: str, at: ast.expr, *values: ast.expr) -> ast.expr:
        key = f"{self._place}:{at.lineno}:{at.col_offset} `{_plain(ast.unparse(at))}`"
        return ast.copy_location(
            ast.Call(ast.Name(name, ast.Load()), [ast.Constant(key), *values], []), at
        )


def _plain(text: str) -> str:
    """The text of a condition without the calls around its parts."""
    return re.sub(rf"{_GUARD}\('(?:[^'\\]|\\.)*', (?:True|False), ", "(", text)[:90]


def _refuses(statement: ast.stmt) -> bool:
    """Whether a statement refuses a match: ``return self.none(...)``, ``return`` of an empty value,
    ``raise`` or ``continue``.
    """
    match statement:
        case (
            ast.Return(value=None | ast.Call(func=ast.Attribute(attr="none")))
            | ast.Raise()
            | ast.Continue()
        ):
            return True
        case ast.Return(value=value):
            return value is not None and _is_nothing(value)
    return False


def _is_nothing(value: ast.expr) -> bool:
    match value:
        case ast.Constant(value=None | False | "") | ast.Tuple(elts=[]) | ast.List(elts=[]):
            return True
    return False


class _Loader(importlib.machinery.SourceFileLoader):
    """Loads a module with switchable conditions, and ignores cached bytecode."""

    def get_code(self, fullname: str) -> Any:
        path = self.get_filename(fullname)
        return compile(
            instrumented(self.get_data(path), "/".join(path.rsplit("/", 2)[1:])), path, "exec"
        )

    def exec_module(self, module: ModuleType) -> None:
        vars(module).update({_GUARD: SWITCH.guard, _LOOSE: SWITCH.loose})
        super().exec_module(module)


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, names: str) -> None:
        self._names = names

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> Any:
        spec = (
            importlib.machinery.PathFinder.find_spec(name, path)
            if re.match(self._names, name)
            else None
        )
        if spec is not None and isinstance(spec.loader, importlib.machinery.SourceFileLoader):
            spec.loader = _Loader(spec.loader.name, spec.loader.path)
            return spec
        return None


def switchable(names: str) -> None:
    """Make the conditions of all modules switchable that are imported from now on, and whose names
    match a regular expression.
    """
    sys.meta_path.insert(0, _Finder(names))


def undeclared(pattern: type[Rewrite]) -> Iterator[tuple[str, type[Rewrite]]]:
    """Copies of a pattern that each lack the declared condition on one operand, with a label."""
    for name in _DECLARED:
        conditions = getattr(pattern, name, ())
        for operand in conditions:
            operands = [key for key in conditions if key != operand]
            fewer_conditions = (
                {key: conditions[key] for key in operands}
                if isinstance(conditions, dict)
                else tuple(operands)
            )
            label = f"{pattern.__name__}.{name} without `{operand}`"
            yield label, derived(pattern, {name: fewer_conditions})


def derived(pattern: type[Rewrite], changes: dict[str, Any]) -> type[Rewrite]:
    """A subclass of a pattern with other values of some attributes, which is traced again."""
    return type(
        pattern.__name__,
        (pattern,),
        {"__module__": pattern.__module__, "__doc__": pattern.__doc__, **changes},
    )
