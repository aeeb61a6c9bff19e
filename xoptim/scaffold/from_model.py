"""Start a pattern from selected nodes of a model: they become the pattern, its example and a local function."""

import textwrap
from collections.abc import Iterable, Sequence
from importlib import resources
from typing import Any

import onnx
from onnx import TensorProto

from xoptim.diagnose.explanation import locate
from xoptim.facts.attributes import AttributeReference
from xoptim.facts.dtypes import is_float
from xoptim.facts.errors import ModelError
from xoptim.facts.schema import since_version
from xoptim.graph.graph import Graph
from xoptim.graph.load import load_model
from xoptim.graph.node import Node
from xoptim.graph.sources import Source
from xoptim.match.functions import DOMAIN
from xoptim.scaffold.calls import Calls, imports, quoted, signature, wrapped
from xoptim.scaffold.local_function import LocalFunction


def filled(template: str, **texts: object) -> str:
    """A text of this folder with other texts in its gaps."""
    return (resources.files("xoptim.scaffold") / f"{template}.txt").read_text(encoding="utf-8").format(**texts)


def pattern_from_model(class_name: str, model: Any, nodes: Sequence[str]) -> str:
    """The text of a pattern file that finds some nodes of a model wherever they occur.

    Operands that come from outside become parameters, numbers literals, larger constants parameters that must be constant.
    Results that other nodes read are returned. The replacement is a call of a local function with the same body. Raises
    `ModelError` when a node is unknown or not in the main graph, or has subgraphs; the nodes are not connected, or another node
    lies between them.

    Args:
        class_name: of the pattern.
        model: a path, or the model.
        nodes: each by its name, the name of one of its results, or ``#17`` for its position.
    """
    source = Source(model)
    graph = load_model(source.proto, source.base_dir).graph
    found = {node for word in nodes for node in locate(graph.model, word)}
    stray = next((node for node in found if node.graph is not graph), None)
    if stray is not None:
        raise ModelError(f"node {_called(stray)} is not in the main graph")
    chosen = [node for node in graph.nodes if node in found and node.op_type != "Constant"]
    _check(graph, chosen)
    return _text(class_name, Calls(graph, chosen))


def _called(node: Node) -> str:
    return repr(node.name or node.output[0])


def _check(graph: Graph, chosen: Sequence[Node]) -> None:
    """Raise unless the nodes can be a pattern."""
    if not chosen:
        raise ModelError("no node is selected that computes anything; name some with --nodes A,B,C")
    for node in chosen:
        if node.bodies or any(isinstance(v, AttributeReference) for v in node.attribute.values()):
            raise ModelError(f"node {_called(node)} has subgraphs, which a pattern cannot describe")
    links: dict[str, set[Node]] = {}
    for node in chosen:
        for name in (*node.input, *node.output):
            if name and graph.tensor(name) is None:
                links.setdefault(name, set()).add(node)
    joined = {chosen[0]}
    while more := {n for group in links.values() if not group.isdisjoint(joined) for n in group} - joined:
        joined |= more
    apart = next((node for node in chosen if node not in joined), None)
    if apart is not None:
        raise ModelError(f"the nodes are not connected: {_called(apart)} shares no result with {_called(chosen[0])}")
    _check_nothing_between(graph, chosen)


def _check_nothing_between(graph: Graph, chosen: Sequence[Node]) -> None:
    inside, seen = set(chosen), set(chosen)
    last = max(node.label for node in chosen)
    pending = list(chosen)
    while pending:
        node = pending.pop()
        for reader in {r for name in node.output if name for r in graph.consumers(name)} - seen:
            if reader.label < last:
                seen.add(reader)
                pending.append(reader)
    for node in sorted(seen - inside, key=lambda n: n.label):
        if any(reader in inside for name in node.output if name for reader in graph.consumers(name)):
            raise ModelError(f"node {_called(node)} lies between the nodes; select it too")


def _text(class_name: str, calls: Calls) -> str:
    """The file."""
    graph, nodes = calls.graph, calls.nodes
    short = class_name.removesuffix("Pattern")
    types = calls.types
    function = LocalFunction(short, calls)
    kinds = {name: "Constant" if constant else "Symbol" for name, constant in calls.parameters.items()}
    body = "\n".join((*calls.lines, f"        return {', '.join(calls.results)}"))
    operators = ", ".join(dict.fromkeys(node.op_type for node in nodes))
    domains = {domain: graph.opsets.get(domain, 1) for domain in dict.fromkeys(node.domain for node in nodes) if domain}
    return filled(
        "from_model",
        title=textwrap.shorten(operators, 80, placeholder=" ..."),
        imports=imports(body, kinds.values(), types.values()),
        function="\n".join(function.lines),
        types=wrapped("TYPES = {", [f"{quoted(n)}: TensorProto.{TensorProto.DataType.Name(t)}" for n, t in types.items()], "}"),
        name=class_name,
        arrow=textwrap.shorten(f"{operators} → {short}", 100, placeholder=" ..."),
        settings=_settings(graph, nodes, (graph.info_of(result).dtype for result in calls.variables)),
        match=signature("match_pattern", "PatternBuilder", kinds, "Symbol", len(calls.results)),
        pattern=body,
        apply=signature("apply_pattern", "PatternRewriter", dict.fromkeys(calls.parameters, "str"), "Any", 1),
        arguments=", ".join(calls.parameters),
        before=function.before,
        after=function.after,
        opset=graph.opsets.get("", 0),
        domains=repr((*domains.items(), (DOMAIN, 1))).replace("'", '"'),
    )


def _settings(graph: Graph, nodes: Sequence[Node], types: Iterable[int]) -> str:
    """Class attributes: the exactness, and the operator sets with the same versions of the operators as this one."""
    opset = graph.opsets.get("", 0)
    operators = {node.op_type for node in nodes if not node.domain}
    since = {op: since_version(op, "", opset) for op in operators}
    newest = onnx.defs.onnx_opset_version()
    last = next((v for v in range(opset, newest) if any(since_version(op, "", v + 1) != since[op] for op in operators)), 0)
    lines = ['    exactness = "rounding"'] if any(map(is_float, types)) else []
    lines += [f"    min_opset = {max(version or 1 for version in since.values())}"] if since else []
    lines += [f"    max_opset = {last}"] if last else []
    return "\n".join(("", *lines, "")) if lines else ""
