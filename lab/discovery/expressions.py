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
class Way:
    """A way to call an operator: its attributes, and the values of its last operands."""

    attributes: tuple[tuple[str, Any], ...] = ()
    operands: tuple[tuple[int, ...] | int, ...] = ()


def _ways(name: str, values: Iterable[Any], **others: Any) -> tuple[Way, ...]:
    return tuple(Way(((name, value), *others.items())) for value in values)


_PLAIN: Final = (Way(),)
_AXES: Final = tuple(Way((("keepdims", keep),), ((axis,),)) for axis in (-1, 1) for keep in (1, 0))
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
OPERATORS: Final[Mapping[str, tuple[int, tuple[Way, ...]]]] = {
    **dict.fromkeys(_UNARY, (1, _PLAIN)),
    **dict.fromkeys(_BINARY, (2, _PLAIN)),
    "Where": (3, _PLAIN),
    "Cast": (
        1,
        _ways("to", (onnx.TensorProto.FLOAT, onnx.TensorProto.BOOL, onnx.TensorProto.INT64)),
    ),
    "Transpose": (1, _ways("perm", ((0, 2, 1), (1, 0, 2)))),
    "Softmax": (1, _ways("axis", (-1,))),
    "Concat": (2, _ways("axis", (-1, 0))),
    "Reshape": (
        1,
        (Way((), ((-1,),)), Way((), ((0, -1),)), Way((), ((0, 0, -1, 2),)), Way((), ((0, 0, -1),))),
    ),
    "Unsqueeze": (1, tuple(Way((), ((axis,),)) for axis in (0, 1, -1))),
    "Squeeze": (1, tuple(Way((), ((axis,),)) for axis in (0, 1, -1))),
    "Gather": (
        1,
        tuple(Way((("axis", axis),), (index,)) for axis in (0, -1) for index in (0, (0,))),
    ),
    "Slice": (1, (Way((), ((0,), (1,), (-1,))), Way((), ((1,), (9,), (1,))))),
    **dict.fromkeys(("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin"), (1, _AXES)),
    "CumSum": (1, (Way((), (-1,)),)),
}
"""Operators of expressions: the number of computed operands, and the ways to call each."""


@dataclass(frozen=True, slots=True)
class Term:
    """An expression.

    Attributes:
        op_type: operator; empty for an operand or a number.
        way: how it is called.
        parts: the operands.
        name: of an operand from outside, or the text of a number.
    """

    op_type: str = ""
    way: Way = Way()
    parts: tuple[Term, ...] = ()
    name: str = ""

    @property
    def is_operand(self) -> bool:
        """Whether it is an operand from outside."""
        return not self.op_type and self.name[0].isalpha()

    def nodes(self) -> frozenset[Term]:
        """The calls inside, equal ones once."""
        return frozenset(each for each in ordered(self) if each.op_type)

    def __str__(self) -> str:
        if not self.op_type:
            return self.name
        settings = [
            str(list(each) if isinstance(each, tuple) else each) for each in self.way.operands
        ]
        settings += [f"{name}={value}" for name, value in self.way.attributes]
        return f"{self.op_type}({', '.join((*map(str, self.parts), *settings))})"


def parsed(form: str) -> ast.expr | None:
    """The expression of a form.

    ``None`` if it has several results, or operators of other domains.
    """
    try:
        *shared, last = ast.parse(form.replace("::", "__")).body
    except SyntaxError:
        return None
    known: dict[str, ast.expr] = {}

    class Put(ast.NodeTransformer):
        def visit_Name(self, node: ast.Name) -> ast.expr:
            return known.get(node.id, node)

    for each in shared:
        if not (isinstance(each, ast.Assign) and isinstance(each.targets[0], ast.Name)):
            return None
        known[each.targets[0].id] = Put().visit(each.value)
    return Put().visit(last.value) if isinstance(last, ast.Expr) else None


def terms(tree: ast.expr) -> Iterator[Term]:
    """The expressions of a form, for all ways to call its operators.

    Numbers other than `CONSTANTS` are operands.
    """
    if isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name) and tree.func.id in OPERATORS:
        count, ways = OPERATORS[tree.func.id]
        if len(tree.args) < count:
            return
        for parts in product(*(list(terms(part)) for part in tree.args[:count])):
            yield from (Term(tree.func.id, way, parts) for way in ways)
    elif isinstance(tree, ast.Name):
        yield Term(name=tree.id)
    elif isinstance(tree, (ast.Constant, ast.UnaryOp)):
        number = float(ast.literal_eval(tree))
        yield Term(name=f"{number:g}" if number in CONSTANTS else f"k{number:g}")


def renamed(term: Term) -> Term:
    """The same expression with its operands named ``a``, ``b``, ... in order, so that expressions
    share their right sides.
    """
    names: dict[str, str] = {}

    def copied(each: Term) -> Term:
        if each.op_type:
            return Term(each.op_type, each.way, tuple(map(copied, each.parts)))
        return (
            Term(name=names.setdefault(each.name, chr(ord("a") + len(names))))
            if each.is_operand
            else each
        )

    return copied(term)


def ordered(term: Term) -> list[Term]:
    """An expression and its parts, operands first, each once."""
    found: dict[Term, None] = {}
    for part in term.parts:
        found.update(dict.fromkeys(ordered(part)))
    return [*found, term]
