"""Make nodes from the arguments of patterns and builders."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from xoptim.facts.dtypes import is_float, is_integer, numpy_dtype, type_name
from xoptim.facts.schema import float_attributes, schema
from xoptim.graph.constants import store
from xoptim.graph.edit import Edit
from xoptim.graph.graph import Graph
from xoptim.graph.node import Node
from xoptim.match.moved import adapted

if TYPE_CHECKING:
    from xoptim.match.ops import BuilderOps
else:
    BuilderOps = object

Formal = tuple[str, frozenset[str]]


def make_node(
    graph: Graph,
    op_type: str,
    inputs: Sequence[str] | str,
    outputs: Sequence[str] | str | int = 1,
    *,
    domain: str = "",
    name: str = "",
    attributes: Mapping[str, Any],
    adapt: bool = False,
) -> Node:
    """Make a node for a graph without adding it; its names are unique in the model of the graph.

    ``outputs`` are names, or how many new names to make. Attributes that are ``None`` are omitted. With ``adapt``, attributes
    become inputs where the operator set of the graph has inputs in their place.
    """
    given = [inputs] if isinstance(inputs, str) else list(inputs)
    if isinstance(outputs, int):
        results = [graph.names.fresh(f"{op_type.lower()}_out") for _ in range(outputs)]
    else:
        results = [outputs] if isinstance(outputs, str) else list(outputs)
    floats = float_attributes(op_type, domain, graph.opsets.get(domain, 0))
    written = {key: _as_written(value, key in floats) for key, value in attributes.items() if value is not None}
    if adapt:
        given, written = adapted(graph, op_type, given, written)
    while given and not given[-1]:
        given.pop()
    return Node(op_type, given, results, written, domain=domain, name=graph.node_names.fresh(name or op_type))


def _as_written(value: Any, is_float: bool) -> Any:
    """An attribute as ONNX stores it: integers for Booleans, and floats where the operator has floats."""
    if isinstance(value, (bool, np.bool_)):
        value = int(value)
    if is_float and isinstance(value, int):
        return float(value)
    if is_float and isinstance(value, (list, tuple)):
        return [float(item) if isinstance(item, int) else item for item in value]
    return value


class OpBuilder(BuilderOps):
    """``op.Add(x, y)``: makes a node, collects it, and returns its result name (a tuple when ``outputs`` is more than one).

    Operands are result names, ``None`` or ``""`` for an omitted optional one, or numbers, lists and arrays, which become
    initializers. A bare number, or a list of numbers, takes the type of the operands whose type parameter is the same, else
    the first numeric type of an operand that is allowed there, else int64 or float.

    ``edit`` returns the edit to which a new node, and the initializers that it reads, belong; ``done`` is called with both.
    """

    __slots__ = ("_done", "_edit")

    def __init__(self, edit: Callable[[], Edit], done: Callable[[Edit, Node], None]) -> None:
        self._edit = edit
        self._done = done

    def __getattr__(self, op_type: str) -> Callable[..., Any]:
        if op_type.startswith("__"):
            raise AttributeError(op_type)

        def call(*operands: Any, outputs: int | Sequence[str] = 1, domain: str = "", name: str = "", **attributes: Any) -> Any:
            edit = self._edit()
            formal = _formal_inputs(op_type, domain, edit.opsets.get(domain, 0), len(operands))
            inputs = [_operand(edit, operands, place, formal) for place in range(len(operands))]
            node = make_node(edit, op_type, inputs, outputs, domain=domain, name=name, attributes=attributes, adapt=not domain)
            self._done(edit, node)
            return node.output[0] if len(node.output) == 1 else node.output

        return call


def _operand(edit: Edit, operands: Sequence[Any], place: int, formal: Sequence[Formal]) -> str:
    operand = operands[place]
    if operand is None or isinstance(operand, str):
        return operand or ""
    array = np.asarray(operand)
    if isinstance(operand, (bool, int, float, list, tuple)) and array.dtype.kind in "biuf":
        return store(edit, "literal", array.astype(_literal_type(edit, operands, place, formal, array.dtype.kind)))
    return store(edit, "constant", array)


def _literal_type(edit: Edit, operands: Sequence[Any], place: int, formal: Sequence[Formal], kind: str) -> Any:
    """Element type for a number, or a list of numbers, without a type; ``kind`` is the ``dtype.kind`` that numpy gives it."""
    if kind == "b":
        return np.bool_
    symbol, allowed = formal[place]
    known = [edit.info_of(operand).dtype if isinstance(operand, str) else 0 for operand in operands]
    same = [dtype for dtype, (other, _) in zip(known, formal, strict=True) if dtype and other == symbol]
    numbers = [d for d in known if is_float(d) or (is_integer(d) and kind in "iu")]
    for dtype in (*same, *numbers):
        if not allowed or f"tensor({type_name(dtype)})" in allowed:
            return numpy_dtype(dtype)
    return np.int64 if kind in "iu" else np.float32


@cache
def _formal_inputs(op_type: str, domain: str, opset: int, count: int) -> tuple[Formal, ...]:
    """Type parameter and allowed types of each operand; one parameter and no types for an operator without schema."""
    found = schema(op_type, domain, opset)
    if found is None or not found.inputs:
        return (("", frozenset()),) * count
    places = [found.inputs[min(place, len(found.inputs) - 1)] for place in range(count)]
    return tuple((place.type_str, frozenset(place.types)) for place in places)
