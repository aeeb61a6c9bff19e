"""Make nodes from the arguments of patterns and builders, and local functions that patterns define
and call.
"""

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
from onnx import AttributeProto

from xoptim.facts.attributes import AttributeReference, Moved, moved
from xoptim.facts.dtypes import is_float, is_integer, numpy_dtype, type_name
from xoptim.facts.errors import Declined
from xoptim.facts.protos import FUNCTIONS_SINCE, opset_versions, standard_domain
from xoptim.facts.schema import float_attributes, schema
from xoptim.graph.constants import constant_array, store
from xoptim.graph.edit import Edit
from xoptim.graph.graph import Graph
from xoptim.graph.load import load_function
from xoptim.graph.model import call_domain
from xoptim.graph.node import Node
from xoptim.graph.propagate import infer_graph
from xoptim.match.named import OperatorsByName

AT_RUN_TIME = AttributeReference("", AttributeProto.UNDEFINED)
"""Marks a value that is present but only known when the model runs."""


def read_moved(graph: Graph, node: Node, name: str) -> Any:
    """Value of an attribute that may have become an input: a list, a number, ``None`` when absent,
    or `AT_RUN_TIME`.
    """
    operand = moved(node.op_type, name, node.opset) if not node.domain else None
    if operand is None:
        return node.get_attribute(name)
    if len(node.input) <= operand.place or not node.input[operand.place]:
        return None
    array = constant_array(graph, node.input[operand.place])
    if array is None or (operand.is_single and array.size != 1):
        return AT_RUN_TIME
    if operand.is_single:
        return array.reshape(-1)[0].item()
    return [int(v) for v in array.ravel()]


def adapted(
    graph: Graph, op_type: str, inputs: list[str], attributes: dict[str, Any]
) -> tuple[list[str], dict[str, Any]]:
    """Inputs and attributes of a new node in the form that the operator set of the graph
    requires.
    """
    opset = graph.opsets.get("", 0)
    remaining: dict[str, Any] = {}
    inputs = list(inputs)
    for name, value in attributes.items():
        operand = moved(op_type, name, opset)
        if operand is None:
            remaining[name] = value
            continue
        inputs += [""] * (operand.place + 1 - len(inputs))
        is_name = isinstance(value, str)
        inputs[operand.place] = (
            value if is_name else store(graph, name, _array(graph, inputs[0], value, operand))
        )
    return inputs, remaining


def _array(graph: Graph, first: str, value: Any, operand: Moved) -> np.ndarray:
    if operand.holds != "number":
        return np.atleast_1d(np.asarray(value, dtype=np.int64))
    dtype = graph.info_of(first).dtype
    return np.asarray(value, dtype=numpy_dtype(dtype) if dtype else np.float32)


Key = tuple[str, str, str]
DOMAIN = "xoptim.local"
"""Domain of functions whose definition has none."""


def define_function(edit: Edit, definition: onnx.FunctionProto | str) -> onnx.FunctionProto:
    """Add a local function to an edit, unless the model already has the same function.

    Returns the function as it is in the model. Its name differs from the one in the definition when
    another function has that name.

    Args:
        edit: of the graph in which the function will be called.
        definition: the function, or its text in ONNX's syntax: ``<domain: "acme"> f <alpha> (x) =>
            (y) { ... }``, where the header may be omitted. Operator sets that it does not import
            are imported in the versions of the graph.

    Raises:
        Declined: when the model's file format has no functions; when the graph is part of a
            function of the same domain (a pattern would otherwise match again inside the function
            that it made); or when a function would call itself.
        onnx.parser.ParseError: when the text is not a function.
    """
    model, graph = edit.model, edit.target
    if model.ir_version < FUNCTIONS_SINCE:
        raise Declined(f"local functions need version {FUNCTIONS_SINCE} of the file format")
    proto = _complete(_parsed(definition), graph)
    functions = {function.key: function for function in (*model.functions, *edit.functions)}
    name, number = proto.name, 0
    while (
        existing := functions.get((call_domain(proto.domain), proto.name, proto.overload))
    ) is not None:
        if existing.proto == proto:
            _check_no_recursion(edit, existing.key)
            return existing.proto
        number += 1
        proto.name = f"{name}_{number}"
    function = load_function(model, proto)
    _check_no_recursion(edit, function.key, function.body)
    infer_graph(function.body)
    edit.functions.append(function)
    return proto


def _parsed(definition: onnx.FunctionProto | str) -> onnx.FunctionProto:
    if isinstance(definition, onnx.FunctionProto):
        return deepcopy(definition)
    header = (
        "" if definition.lstrip().startswith("<") else f'<domain: "{DOMAIN}", opset_import: []>'
    )
    parsed: onnx.FunctionProto = onnx.parser.parse_function(header + definition)
    return parsed


def _complete(function: onnx.FunctionProto, graph: Graph) -> onnx.FunctionProto:
    """Import the operator sets of the nodes, in the versions of the graph."""
    function.domain = function.domain or DOMAIN
    domains = set(opset_versions(function.opset_import))
    for node in function.node:
        domain = standard_domain(node.domain)
        if not domain:
            # The parser sets an empty domain, a written model has none: equal functions would
            # differ in the next run.
            node.ClearField("domain")
        if domain not in domains:
            domains.add(domain)
            function.opset_import.append(
                onnx.helper.make_opsetid(domain, graph.opsets.get(domain, 1))
            )
    return function


def _check_no_recursion(edit: Edit, callee: Key, body: Graph | None = None) -> None:
    """Raise `Declined` if ``callee`` calls (even indirectly) the function of the edited graph, or
    has its domain.
    """
    root = edit.target
    while root.parent is not None:
        root = root.parent
    bodies = {function.key: function.body for function in (*edit.model.functions, *edit.functions)}
    caller = next((key for key, graph in bodies.items() if graph is root), None)
    if caller is None:
        return
    if caller[0] == callee[0]:
        raise Declined(f"functions of domain {caller[0]!r} may not call each other")
    if body is not None:
        bodies[callee] = body
    pending, seen = [callee], {callee}
    while pending:
        key = pending.pop()
        if key == caller:
            raise Declined(f"function {caller[1]!r} would call itself")
        nodes = (node for graph in bodies[key].all_graphs() for node in graph.nodes)
        pending += {
            (node.domain, node.op_type, node.overload) for node in nodes
        } & bodies.keys() - seen
        seen.update(pending)


if TYPE_CHECKING:
    from xoptim.match.ops import BuilderOps
else:
    BuilderOps = object

Formal = tuple[str, frozenset[str]]
"""The type parameter of an operand, and its allowed types."""


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

    ``outputs`` are names, or how many new names to make. Attributes that are ``None`` are omitted.
    With ``adapt``, attributes become inputs where the operator set of the graph has inputs in their
    place.
    """
    operands = [inputs] if isinstance(inputs, str) else list(inputs)
    if isinstance(outputs, int):
        results = [graph.names.fresh(f"{op_type.lower()}_out") for _ in range(outputs)]
    else:
        results = [outputs] if isinstance(outputs, str) else list(outputs)
    floats = float_attributes(op_type, domain, graph.opsets.get(domain, 0))
    encoded = {
        key: _as_written(value, key in floats)
        for key, value in attributes.items()
        if value is not None
    }
    if adapt:
        operands, encoded = adapted(graph, op_type, operands, encoded)
    while operands and not operands[-1]:
        operands.pop()
    return Node(
        op_type,
        operands,
        results,
        encoded,
        domain=domain,
        name=graph.node_names.fresh(name or op_type),
    )


def _as_written(value: Any, is_float: bool) -> Any:
    """An attribute as ONNX stores it: integers for Booleans, and floats where the operator has
    floats.
    """
    if isinstance(value, (bool, np.bool_)):
        value = int(value)
    if is_float and isinstance(value, int):
        return float(value)
    if is_float and isinstance(value, (list, tuple)):
        return [float(item) if isinstance(item, int) else item for item in value]
    return value


class OpBuilder(OperatorsByName, BuilderOps):
    """``op.Add(x, y)``: makes a node, collects it, and returns its result name (a tuple when
    ``outputs`` is more than one).

    Operands are result names, ``None`` or ``""`` for an omitted optional one, or numbers, lists and
    arrays, which become initializers. A bare number, or a list of numbers, takes the type of the
    operands that have the same type parameter. Without such operands, it takes the first numeric
    type of an operand that is allowed there, else int64 or float.

    ``edit`` returns the edit to which a new node, and the initializers that it reads, belong;
    ``done`` is called with the edit and the node.
    """

    __slots__ = ("_done", "_edit")

    def __init__(self, edit: Callable[[], Edit], done: Callable[[Edit, Node], None]) -> None:
        self._edit = edit
        self._done = done

    def __getitem__(self, op_type: str) -> Callable[..., Any]:
        def call(
            *operands: Any,
            outputs: int | Sequence[str] = 1,
            domain: str = "",
            name: str = "",
            **attributes: Any,
        ) -> Any:
            edit = self._edit()
            formal = _formal_inputs(op_type, domain, edit.opsets.get(domain, 0), len(operands))
            inputs = [_operand(edit, operands, place, formal) for place in range(len(operands))]
            node = make_node(
                edit,
                op_type,
                inputs,
                outputs,
                domain=domain,
                name=name,
                attributes=attributes,
                adapt=not domain,
            )
            self._done(edit, node)
            return node.output[0] if len(node.output) == 1 else node.output

        return call


def _operand(edit: Edit, operands: Sequence[Any], place: int, formal: Sequence[Formal]) -> str:
    operand = operands[place]
    if operand is None or isinstance(operand, str):
        return operand or ""
    array = np.asarray(operand)
    if isinstance(operand, (bool, int, float, list, tuple)) and array.dtype.kind in "biuf":
        return store(
            edit,
            "literal",
            array.astype(_literal_type(edit, operands, place, formal, array.dtype.kind)),
        )
    return store(edit, "constant", array)


def _literal_type(
    edit: Edit, operands: Sequence[Any], place: int, formal: Sequence[Formal], kind: str
) -> Any:
    """Element type for a number, or a list of numbers, without a type.

    ``kind`` is the ``dtype.kind`` that numpy gives it.
    """
    if kind == "b":
        return np.bool_
    symbol, types = formal[place]
    dtypes = [
        edit.info_of(operand).dtype if isinstance(operand, str) else 0 for operand in operands
    ]
    siblings = [
        dtype
        for dtype, (parameter, _) in zip(dtypes, formal, strict=True)
        if dtype and parameter == symbol
    ]
    numbers = [d for d in dtypes if is_float(d) or (is_integer(d) and kind in "iu")]
    for dtype in (*siblings, *numbers):
        if not types or f"tensor({type_name(dtype)})" in types:
            return numpy_dtype(dtype)
    return np.int64 if kind in "iu" else np.float32


@cache
def _formal_inputs(op_type: str, domain: str, opset: int, count: int) -> tuple[Formal, ...]:
    """Type parameter and allowed types of each operand; both empty for an unknown operator."""
    definition = schema(op_type, domain, opset)
    if definition is None or not definition.inputs:
        return (("", frozenset()),) * count
    places = [definition.inputs[min(place, len(definition.inputs) - 1)] for place in range(count)]
    return tuple((place.type_str, frozenset(place.types)) for place in places)
