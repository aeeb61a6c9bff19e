"""Write what a pattern matched and what it put in its place, for a look at it afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import onnx

from xoptim.facts.errors import XoptimError
from xoptim.graph.export import value_info
from xoptim.graph.graph import Graph
from xoptim.graph.node import Node

_LARGE = 1 << 20


def dump_application(folder: Path, graph: Graph, pattern: str, matched: Sequence[Node], given: Sequence[Node]) -> None:
    """Write ``NUMBER_PATTERN.before.onnx``, ``.after.onnx`` and ``.txt`` into a folder, which is made when missing.

    Constants of more than a mebibyte are inputs of the small models.

    Args:
        folder: where.
        graph: the graph after the rewrite.
        pattern: name of the pattern.
        matched: all nodes of the match, those that stay included, in order.
        given: what the pattern gave for them, nodes that stay included.

    Raises:
        XoptimError: when the folder cannot be written.
    """
    outputs = {name for node in given for name in node.output if name}
    results = [name for node in matched for name in node.output if name in outputs]
    before = _model(graph, matched, results)
    after = _model(graph, given, results)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        number = sum(1 for _ in folder.glob("*.txt"))
        stem = f"{number:05d}_{pattern}"
        (folder / f"{stem}.before.onnx").write_bytes(before.SerializeToString())
        (folder / f"{stem}.after.onnx").write_bytes(after.SerializeToString())
        lines = [pattern, "", "matched:", *map(repr, matched), "", "replacement:", *map(repr, given)]
        (folder / f"{stem}.txt").write_text("\n".join(lines) + "\n")
    except OSError as error:
        raise XoptimError(f"DUMPPATTERNS: cannot write into {str(folder)!r}: {error.strerror or error}") from error


def _model(graph: Graph, nodes: Sequence[Node], results: Sequence[str]) -> onnx.ModelProto:
    made = {name for node in nodes for name in node.output}
    proto = onnx.GraphProto(name="fragment")
    for node in sorted(nodes, key=lambda node: node.label):
        proto.node.append(node.to_proto())
    for name in dict.fromkeys(name for node in nodes for name in node.input if name and name not in made):
        tensor = graph.tensor(name)
        if tensor is not None and not tensor.is_external and tensor.nbytes <= _LARGE:
            proto.initializer.append(tensor.to_proto(name))
        else:
            proto.input.append(value_info(name, graph.info_of(name)))
    proto.output.extend(value_info(name, graph.info_of(name)) for name in results)
    imports = [onnx.helper.make_opsetid(domain, version) for domain, version in graph.opsets.items()]
    return onnx.helper.make_model(proto, opset_imports=imports, ir_version=max(graph.model.ir_version, 4))
