"""Make nodes from the arguments that patterns and builders give."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from xoptim.facts.dtypes import is_float, is_integer, numpy_dtype, type_name
from xoptim.facts.schema import float_attributes, schema
from xoptim.graph.constants import store
from xoptim.graph.graph import Graph
from xoptim.graph.node import Node
from xoptim.graph.propagate import infer_node
from xoptim.match.moved import adapted

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
    """Make a node for a graph without adding it.

    Args:
        graph: where it will go; names are made unique in its model.
        op_type: operator.
        inputs: names of what it reads.
        outputs: names of its results, or how many new names to make.
        domain: of the operator.
        name: of the node; made when empty.
        attributes: those that are ``None`` are left out.
        adapt: move attributes to inputs where the operator set in force wants that.
    """
    model = graph.model
    given = [inputs] if isinstance(inputs, str) else list(inputs)
    if isinstance(outputs, int):
        results = [model.names.fresh(f"{op_type.lower()}_out") for _ in range(outputs)]
    else:
        results = [outputs] if isinstance(outputs, str) else list(outputs)
    floats = float_attributes(op_type, domain, graph.opsets.get(domain, 0))
    written = {
        key: float(value) if key in floats and isinstance(value, int) else value
        for key, value in attributes.items()
        if value is not None
    }
    if adapt:
        given, written = adapted(graph, op_type, given, written)
    while given and not given[-1]:
        given.pop()
    return Node(op_type, given, results, written, domain=domain, name=model.fresh_node_name(name or op_type))


class OpBuilder:
    """``op.Add(x, y)``: makes a node, collects it, and returns its result name (a tuple when ``outputs`` is more than one).

    Operands are result names, ``None`` or ``""`` for an optional one that is left out, or numbers and arrays, which become
    initializers. A bare number takes the type of the operands that must have the same type as it, else the type of the first
    operand if that may stand there, else int64 or float.
    """

    __slots__ = ("_created", "_graph", "_insert")

    def __init__(self, graph: Graph, created: list[Node], insert: Callable[[Node], None] | None = None) -> None:
        self._graph = graph
        self._created = created
        self._insert = insert

    def __getattr__(self, op_type: str) -> Callable[..., Any]:
        if op_type.startswith("__"):
            raise AttributeError(op_type)

        def call(*operands: Any, outputs: int | Sequence[str] = 1, domain: str = "", name: str = "", **attributes: Any) -> Any:
            formal = _formal_inputs(op_type, domain, self._graph.opsets.get(domain, 0), len(operands))
            inputs = [self._operand(operands, place, formal) for place in range(len(operands))]
            node = make_node(
                self._graph, op_type, inputs, outputs, domain=domain, name=name, attributes=attributes, adapt=not domain
            )
            self._created.append(node)
            if self._insert is not None:
                self._insert(node)
            else:  # the types of results in between decide those of literals that follow
                self._graph.infos.update(zip(node.output, infer_node(self._graph, node), strict=False))
            return node.output[0] if len(node.output) == 1 else node.output

        return call

    def _operand(self, operands: Sequence[Any], place: int, formal: Sequence[Formal]) -> str:
        operand = operands[place]
        if operand is None or isinstance(operand, str):
            return operand or ""
        if isinstance(operand, (bool, int, float)):
            return store(self._graph, "literal", np.asarray(operand, dtype=self._literal_type(operands, place, formal)))
        return store(self._graph, "constant", np.asarray(operand))

    def _literal_type(self, operands: Sequence[Any], place: int, formal: Sequence[Formal]) -> Any:
        literal = operands[place]
        if isinstance(literal, bool):
            return np.bool_
        symbol, allowed = formal[place]
        known = [self._graph.info_of(operand).dtype if isinstance(operand, str) else 0 for operand in operands]
        same = [dtype for dtype, (other, _) in zip(known, formal, strict=True) if dtype and other == symbol]
        numbers = [d for d in known if is_float(d) or (is_integer(d) and isinstance(literal, int))]
        for dtype in (*same, *numbers):
            if not allowed or f"tensor({type_name(dtype)})" in allowed:
                return numpy_dtype(dtype)
        return np.int64 if isinstance(literal, int) else np.float32


@cache
def _formal_inputs(op_type: str, domain: str, opset: int, count: int) -> tuple[Formal, ...]:
    """Type parameter and allowed types of each operand; one parameter and no types for an operator without schema."""
    found = schema(op_type, domain, opset)
    if found is None or not found.inputs:
        return (("", frozenset()),) * count
    places = [found.inputs[min(place, len(found.inputs) - 1)] for place in range(count)]
    return tuple((place.type_str, frozenset(place.types)) for place in places)
