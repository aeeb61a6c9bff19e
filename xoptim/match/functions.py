"""Local functions that patterns define and call."""

from copy import deepcopy

import onnx

from xoptim.facts.errors import Declined
from xoptim.facts.protos import opset_versions, standard_domain
from xoptim.graph.edit import Edit
from xoptim.graph.graph import Graph
from xoptim.graph.load import load_function
from xoptim.graph.model import call_domain
from xoptim.graph.propagate import infer_graph

Key = tuple[str, str, str]
DOMAIN = "xoptim.local"
"""Domain of functions whose definition has none."""
_LEAST_IR_VERSION = 8


def define_function(edit: Edit, definition: onnx.FunctionProto | str) -> onnx.FunctionProto:
    """Add a local function to an edit, unless the model already has the same function.

    Returns the function as it is in the model. Its name differs from the one in the definition when that is taken.

    Args:
        edit: of the graph in which the function will be called.
        definition: the function, or its text in ONNX's syntax: ``<domain: "acme"> f <alpha> (x) => (y) { ... }``, where the
            header may be omitted. Operator sets that it does not import come from the graph.

    Raises:
        Declined: when the model's file format has no functions; when the graph is part of a function of the same domain (a
            pattern would otherwise match again inside the function that it made); or when a function would call itself.
        onnx.parser.ParseError: when the text is not a function.
    """
    model, graph = edit.model, edit.target
    if model.ir_version < _LEAST_IR_VERSION:
        raise Declined(f"local functions need version {_LEAST_IR_VERSION} of the file format")
    wanted = _complete(_parsed(definition), graph)
    taken = {function.key: function for function in (*model.functions, *edit.functions)}
    name, number = wanted.name, 0
    while (known := taken.get((call_domain(wanted.domain), wanted.name, wanted.overload))) is not None:
        if known.proto == wanted:
            _check_no_recursion(edit, known.key)
            return known.proto
        number += 1
        wanted.name = f"{name}_{number}"
    function = load_function(model, wanted)
    _check_no_recursion(edit, function.key, function.body)
    infer_graph(function.body)
    edit.functions.append(function)
    return wanted


def _parsed(definition: onnx.FunctionProto | str) -> onnx.FunctionProto:
    if isinstance(definition, onnx.FunctionProto):
        return deepcopy(definition)
    header = "" if definition.lstrip().startswith("<") else f'<domain: "{DOMAIN}", opset_import: []>'
    parsed: onnx.FunctionProto = onnx.parser.parse_function(header + definition)
    return parsed


def _complete(function: onnx.FunctionProto, graph: Graph) -> onnx.FunctionProto:
    """Import the operator sets of the nodes, in the versions of the graph."""
    function.domain = function.domain or DOMAIN
    imported = set(opset_versions(function.opset_import))
    for node in function.node:
        domain = standard_domain(node.domain)
        if not domain:
            node.ClearField("domain")  # the parser sets it, the exporter of constants does not: runs must not differ
        if domain not in imported:
            imported.add(domain)
            function.opset_import.append(onnx.helper.make_opsetid(domain, graph.opsets.get(domain, 1)))
    return function


def _check_no_recursion(edit: Edit, called: Key, body: Graph | None = None) -> None:
    """Check that a call in a graph does not lead back to the function that the graph is part of."""
    root = edit.target
    while root.parent is not None:
        root = root.parent
    bodies = {function.key: function.body for function in (*edit.model.functions, *edit.functions)}
    caller = next((key for key, found in bodies.items() if found is root), None)
    if caller is None:
        return
    if caller[0] == called[0]:
        raise Declined(f"functions of domain {caller[0]!r} may not call each other")
    if body is not None:
        bodies[called] = body
    pending, seen = [called], {called}
    while pending:
        key = pending.pop()
        if key == caller:
            raise Declined(f"function {caller[1]!r} would call itself")
        nodes = (node for graph in bodies[key].all_graphs() for node in graph.nodes)
        pending += {(node.domain, node.op_type, node.overload) for node in nodes} & bodies.keys() - seen
        seen.update(pending)
