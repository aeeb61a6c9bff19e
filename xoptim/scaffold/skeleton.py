"""The statements that a generated pattern file may have: the second guard against a model whose
texts would run as code.
"""

import ast
import re
from typing import Final

_LAMBDA: Final = ast.dump(
    ast.parse("lambda t: numpy_helper.to_array(t).tolist() == 0", mode="eval").body
)
"""The condition on a tensor attribute, with 0 as its value."""
_OPERAND: Final = re.compile(r"[xc][0-9]+|_?[a-z]+_[0-9]+(_[0-9]+)?")
"""Names of parameters and results."""


def fault_in(text: str, template: str) -> str:
    """The reason why a file is not the template with other literals and calls; empty when it is.

    Args:
        text: the file.
        template: the same file without texts of a model, and with an empty ``match_pattern``.
    """
    try:
        trees = [ast.parse(source) for source in (text, template)]
        compile(text, "pattern", "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return f"it is not valid Python ({error})"
    try:
        bare, expected = (ast.dump(_Bare().visit(tree)) for tree in trees)
    except _UnexpectedError as error:
        return f"{error} is not allowed there"
    return "" if bare == expected else "it has other statements than the template"


class _UnexpectedError(Exception):
    """A part of a file that the template does not have."""


class _Bare(ast.NodeTransformer):
    """Removes literals and the calls of `match_pattern` from a file, and checks these calls."""

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        """All literals are the same."""
        return ast.Constant(0)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        """A method; names of its parameters are those of operands."""
        for argument in node.args.args:
            if argument.arg not in ("self", "g") and not _OPERAND.fullmatch(argument.arg):
                raise _UnexpectedError(repr(argument.arg))
        if node.name == "match_pattern":
            for statement in node.body:
                _check_statement(statement)
            node.body = [ast.Pass()]
        return self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        """A class attribute; element types are ``TensorProto.FLOAT`` and the like."""
        if ast.unparse(node.targets[0]) == "operand_types":
            _check_types(node.value)
            node.value = ast.Constant(0)
        return self.generic_visit(node)

    def visit_keyword(self, node: ast.keyword) -> ast.AST:
        """The versions of other domains."""
        if node.arg == "domains":
            _check_literal(node.value)
            node.value = ast.Constant(0)
        return self.generic_visit(node)


def _check_statement(node: ast.stmt) -> None:
    match node:
        case ast.Pass():
            pass
        case ast.Return(value=ast.expr() as results):
            _check_names(results)
        case ast.Assign(targets=[target], value=ast.Call(func=callee, args=args, keywords=words)):
            _check_names(target)
            _check_operator(callee)
            for operand in args:
                _check_operand(operand)
            for word in words:
                _check_keyword(word)
        case _:
            raise _UnexpectedError(repr(ast.unparse(node)))


def _check_names(node: ast.expr) -> None:
    """Results, or a tuple of them."""
    for result in node.elts if isinstance(node, ast.Tuple) else [node]:
        if not isinstance(result, ast.Name) or not _OPERAND.fullmatch(result.id):
            raise _UnexpectedError(repr(ast.unparse(node)))


def _check_operator(node: ast.expr) -> None:
    match node:
        case ast.Attribute(value=operators):
            is_operator = ast.unparse(operators) == "g.op" and not node.attr.startswith("_")
        case ast.Subscript(value=operators, slice=ast.Constant(value=str())):
            is_operator = ast.unparse(operators) == "g.op"
        case _:
            is_operator = False
    if not is_operator:
        raise _UnexpectedError(repr(ast.unparse(node)))


def _check_operand(node: ast.expr) -> None:
    match node:
        case ast.Constant(value=None):
            pass
        case ast.Call(func=callee, args=[array], keywords=[]) if ast.unparse(callee) == "np.array":
            _check_literal(array)
        case _:
            _check_names(node)


def _check_keyword(node: ast.keyword) -> None:
    """An attribute, or a dictionary of those whose names are no Python identifiers."""
    if node.arg is not None:
        _check_value(node.value)
        return
    if not isinstance(node.value, ast.Dict):
        raise _UnexpectedError(repr(ast.unparse(node.value)))
    for key, value in zip(node.value.keys, node.value.values, strict=True):
        if key is None:
            raise _UnexpectedError(repr(ast.unparse(node.value)))
        _check_literal(key)
        _check_value(value)


def _check_value(node: ast.expr) -> None:
    """An attribute: a literal, or the condition on a tensor."""
    match node:
        case ast.Lambda(body=ast.Compare(comparators=[value]) as condition):
            _check_literal(value)
            condition.comparators = [ast.Constant(0)]
            if ast.dump(node) != _LAMBDA:
                raise _UnexpectedError(repr(ast.unparse(node)))
        case _:
            _check_literal(node)


def _check_types(node: ast.expr) -> None:
    """The element types of the operands."""
    match node:
        case ast.Dict(keys=keys, values=values):
            types = [t for value in values if isinstance(value, ast.Tuple) for t in value.elts]
            names = all(re.fullmatch(r"TensorProto\.[A-Z0-9]+", ast.unparse(t)) for t in types)
            is_right = names and len(types) == len(values) and None not in keys
            for key in filter(None, keys):
                _check_literal(key)
        case _:
            is_right = False
    if not is_right:
        raise _UnexpectedError(repr(ast.unparse(node)))


def _check_literal(node: ast.expr) -> None:
    try:
        ast.literal_eval(node)
    except (ValueError, TypeError, RecursionError, MemoryError):
        raise _UnexpectedError(repr(ast.unparse(node))) from None
