"""Expressions over the operators of ONNX, for the search of rewrites."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any, Final

import onnx

CONSTANTS: Final = (0.0, 1.0, -1.0, 2.0)


@dataclass(frozen=True, slots=True)
class CallParameters:
    """The parameters of a call of an operator: its attributes, and its last operands if they are
    constants such as axes or a shape.
    """

    attributes: tuple[tuple[str, Any], ...] = ()
    operands: tuple[tuple[int, ...] | int, ...] = ()


def _with_attribute(name: str, values: Iterable[Any]) -> tuple[CallParameters, ...]:
    """Parameters with each of these values of an attribute."""
    return tuple(CallParameters(((name, value),)) for value in values)


_PLAIN: Final = (CallParameters(),)
_AXES: Final = tuple(
    CallParameters((("keepdims", keep),), ((axis,),)) for axis in (-1, 1) for keep in (1, 0)
)
_UNARY: Final = (
    "Neg",
    "Abs",
    "Relu",
    "Exp",
    "Log",
    "Sqrt",
    "Reciprocal",
    "Sigmoid",
    "Tanh",
    "Floor",
    "Ceil",
    "Round",
    "Sign",
    "Erf",
    "Sin",
    "Cos",
    "Softplus",
    "Not",
    "IsNaN",
    "Gelu",
    "HardSwish",
    "Shape",
    "Size",
)
_BINARY: Final = (
    "Add",
    "Sub",
    "Mul",
    "Div",
    "Max",
    "Min",
    "Pow",
    "Equal",
    "Greater",
    "Less",
    "GreaterOrEqual",
    "LessOrEqual",
    "And",
    "Or",
    "Xor",
    "MatMul",
)
OPERATORS: Final[Mapping[str, tuple[int, tuple[CallParameters, ...]]]] = {
    **dict.fromkeys(_UNARY, (1, _PLAIN)),
    **dict.fromkeys(_BINARY, (2, _PLAIN)),
    "Where": (3, _PLAIN),
    "Cast": (
        1,
        _with_attribute(
            "to", (onnx.TensorProto.FLOAT, onnx.TensorProto.BOOL, onnx.TensorProto.INT64)
        ),
    ),
    "Transpose": (1, _with_attribute("perm", ((0, 2, 1), (1, 0, 2)))),
    "Softmax": (1, _with_attribute("axis", (-1,))),
    "Concat": (2, _with_attribute("axis", (-1, 0))),
    "Reshape": (
        1,
        (
            CallParameters((), ((-1,),)),
            CallParameters((), ((0, -1),)),
            CallParameters((), ((0, 0, -1, 2),)),
            CallParameters((), ((0, 0, -1),)),
        ),
    ),
    "Unsqueeze": (1, tuple(CallParameters((), ((axis,),)) for axis in (0, 1, -1))),
    "Squeeze": (1, tuple(CallParameters((), ((axis,),)) for axis in (0, 1, -1))),
    "Gather": (
        1,
        tuple(
            CallParameters((("axis", axis),), (index,)) for axis in (0, -1) for index in (0, (0,))
        ),
    ),
    "Slice": (1, (CallParameters((), ((0,), (1,), (-1,))), CallParameters((), ((1,), (9,), (1,))))),
    **dict.fromkeys(("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin"), (1, _AXES)),
    "CumSum": (1, (CallParameters((), (-1,)),)),
}
"""The operators of expressions: the number of variable operands, and the parameters to try."""


@dataclass(frozen=True, slots=True)
class Term:
    """An expression.

    Attributes:
        op_type: operator; empty for an input or a number.
        parameters: parameters of the call.
        parts: the operands.
        name: name of an input, or the text of a number; empty for a call.
    """

    op_type: str = ""
    parameters: CallParameters = CallParameters()
    parts: tuple[Term, ...] = ()
    name: str = ""

    @property
    def is_operand(self) -> bool:
        """Whether this is an input of the expression, not a number or a call."""
        return not self.op_type and self.name[0].isalpha()

    def nodes(self) -> frozenset[Term]:
        """The calls of the expression, each once."""
        return frozenset(term for term in ordered(self) if term.op_type)

    def __str__(self) -> str:
        if not self.op_type:
            return self.name
        settings = [
            str(list(operand) if isinstance(operand, tuple) else operand)
            for operand in self.parameters.operands
        ]
        settings += [f"{name}={value}" for name, value in self.parameters.attributes]
        return f"{self.op_type}({', '.join((*map(str, self.parts), *settings))})"


def parsed(form: str) -> ast.expr | None:
    """The syntax tree of a form of `mining`, with values that are read twice substituted.

    ``None`` if the form has several results, or is not an expression of Python.
    """
    try:
        *assignments, result = ast.parse(form.replace("::", "__")).body
    except SyntaxError:
        return None
    values: dict[str, ast.expr] = {}

    class Substitution(ast.NodeTransformer):
        def visit_Name(self, node: ast.Name) -> ast.expr:
            return values.get(node.id, node)

    for statement in assignments:
        if not (isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name)):
            return None
        values[statement.targets[0].id] = Substitution().visit(statement.value)
    return Substitution().visit(result.value) if isinstance(result, ast.Expr) else None


def terms(tree: ast.expr) -> Iterator[Term]:
    """The expressions of a syntax tree, for all parameters of its calls.

    Numbers other than `CONSTANTS` become inputs, such as ``k3``. There is no expression if an
    operator is not in `OPERATORS`.
    """
    if isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name) and tree.func.id in OPERATORS:
        count, choices = OPERATORS[tree.func.id]
        if len(tree.args) < count:
            return
        for parts in product(*(list(terms(part)) for part in tree.args[:count])):
            yield from (Term(tree.func.id, parameters, parts) for parameters in choices)
    elif isinstance(tree, ast.Name):
        yield Term(name=tree.id)
    elif isinstance(tree, (ast.Constant, ast.UnaryOp)):
        number = float(ast.literal_eval(tree))
        yield Term(name=f"{number:g}" if number in CONSTANTS else f"k{number:g}")


def renamed(term: Term) -> Term:
    """The same expression with its inputs named ``a``, ``b``, ... in order of their first use.

    Equal expressions are then equal terms, and expressions of as many inputs share a table of right
    sides.
    """
    names: dict[str, str] = {}

    def copied(node: Term) -> Term:
        if node.op_type:
            return Term(node.op_type, node.parameters, tuple(map(copied, node.parts)))
        return (
            Term(name=names.setdefault(node.name, chr(ord("a") + len(names))))
            if node.is_operand
            else node
        )

    return copied(term)


def ordered(term: Term) -> list[Term]:
    """An expression and its parts, operands first, each once."""
    parts: dict[Term, None] = {}
    for part in term.parts:
        parts.update(dict.fromkeys(ordered(part)))
    return [*parts, term]
