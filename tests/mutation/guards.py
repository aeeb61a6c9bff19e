"""Conditions of patterns, and the patterns without one of them."""

import ast
import itertools
from collections.abc import Iterator
from copy import deepcopy
from types import ModuleType
from typing import Any, Final, NamedTuple

_DECLARED: Final = ("constant_operands", "operand_types", "operand_ranks")


class Guard(NamedTuple):
    """A condition of a pattern: its line, its text, and the module without it."""

    line: int
    text: str
    without: ast.Module


def guards(tree: ast.Module) -> Iterator[Guard]:
    """The conditions in the patterns and helpers of a module: tests before a refusal, terms of a result, declarations."""
    places = {id(node): place for place, node in enumerate(ast.walk(tree))}
    for statement in ast.walk(tree):
        for condition, held in _conditions(statement):
            copy = deepcopy(tree)
            target = next(itertools.islice(ast.walk(copy), places[id(condition)], None))
            without = ast.fix_missing_locations(_Without(target, held).visit(copy))
            yield Guard(condition.lineno, ast.unparse(condition), without)


def _conditions(statement: ast.AST) -> Iterator[tuple[ast.expr, bool | None]]:
    """The conditions of a statement, each with the value that it has where it allows a match, ``None`` for a declaration."""
    match statement:
        case ast.If(test=ast.BoolOp(op=ast.Or(), values=terms), body=[answer], orelse=[]) if _refuses(answer):
            yield from ((term, False) for term in terms)
        case ast.If(test=test, body=[answer], orelse=[]) if _refuses(answer):
            yield test, False
        case ast.Return(value=ast.BoolOp(op=ast.And(), values=terms)):
            yield from ((term, True) for term in terms)
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.Tuple(elts=terms)) if name in _DECLARED:
            yield from ((term, None) for term in terms)
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.Dict(keys=keys)) if name in _DECLARED:
            yield from ((key, None) for key in keys if key is not None)


def _refuses(statement: ast.stmt) -> bool:
    """Whether a statement returns None, False, or what ``self.none`` returns."""
    match statement:
        case ast.Return(value=None | ast.Constant(value=None | False) | ast.Call(func=ast.Attribute(attr="none"))):
            return True
    return False


class _Without(ast.NodeTransformer):
    """Lets a condition always hold, which is still evaluated, since it may assign names; or removes a declaration."""

    def __init__(self, target: ast.AST, held: bool | None) -> None:
        self.target, self.held = target, held

    def visit(self, node: ast.AST) -> Any:
        if isinstance(node, ast.Dict) and self.target in node.keys:
            place = node.keys.index(self.target)
            del node.keys[place], node.values[place]
        if node is not self.target or not isinstance(node, ast.expr):
            return self.generic_visit(node)
        if self.held is None:
            return None
        return ast.BoolOp(ast.Or() if self.held else ast.And(), [node, ast.Constant(self.held)])


def mutated(module: ModuleType, tree: ast.Module) -> ModuleType:
    """A module like another one, made from other statements."""
    made = ModuleType(module.__name__)
    made.__package__, made.__file__ = module.__package__, module.__file__
    exec(compile(tree, str(module.__file__), "exec"), made.__dict__)
    return made
