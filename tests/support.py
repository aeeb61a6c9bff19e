"""Helpers of several tests: models from text, runs, and a check of all bookkeeping of a graph
against the nodes.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import ModelProto, external_data_helper, numpy_helper

from xoptim.graph.edit import Edit
from xoptim.graph.export import export_model
from xoptim.graph.graph import Graph
from xoptim.graph.load import load_model
from xoptim.graph.model import Model
from xoptim.graph.node import Node
from xoptim.graph.references import Uses
from xoptim.graph.walk import owner_in

_VALUES = re.compile(
    r"(?<![\w-])(--?[a-z][\w-]*|'[^']*'|`[^`]*`|(?:u?int|b?float)\d+|[+-]?\d(?:[\w.]|(?<=e)[+-])*%?)"
)


def values_in(message: str) -> list[str]:
    """Options, quoted names, data types and numbers in a message, in order: all but its words."""
    return [value.strip("'`").rstrip(".") for value in _VALUES.findall(message)]


def in_parts(name: str, count: int) -> pytest.MarkDecorator:
    """Parametrizes a battery of similar cases by the number of a part of them, from 0.

    All parts but the first are slow.
    """
    return pytest.mark.parametrize(
        name, [0, *(pytest.param(part, marks=pytest.mark.slow) for part in range(1, count))]
    )


def parse(
    text: str, opset: int = 18, *, ir_version: int = 10, domains: Mapping[str, int] | None = None
) -> onnx.ModelProto:
    """A model from ONNX text, without its header; functions may follow the graph."""
    imports = ", ".join(
        f'"{domain}" : {version}' for domain, version in {"": opset, **(domains or {})}.items()
    )
    return onnx.parser.parse_model(f"<ir_version: {ir_version}, opset_import: [{imports}]> {text}")


def tensor_proto(**fields: Any) -> onnx.TensorProto:
    """A tensor with these fields, valid or not."""
    tensor = onnx.TensorProto(name="w")
    for field, value in fields.items():
        if isinstance(value, list):
            getattr(tensor, field).extend(value)
        else:
            setattr(tensor, field, value)
    return tensor


def load(text: str, opset: int = 18, **options: Any) -> Model:
    """The same, wrapped."""
    return load_model(parse(text, opset, **options))


def types(graph: Graph | Model | onnx.ModelProto | onnx.GraphProto) -> list[str]:
    """Operators of a graph in order, those of its subgraphs not included."""
    if isinstance(graph, Model):
        graph = graph.graph
    if isinstance(graph, onnx.ModelProto):
        graph = graph.graph
    return [
        node.op_type for node in (graph.node if isinstance(graph, onnx.GraphProto) else graph.nodes)
    ]


def node_of(graph: Graph | Model, op_type: str, index: int = 0) -> Node:
    """One of the nodes with an operator."""
    graph = graph.graph if isinstance(graph, Model) else graph
    return [node for node in graph.nodes if node.op_type == op_type][index]


def replace(
    graph: Graph, removed: Sequence[Node], added: Sequence[Node], insert_at: Node | None = None
) -> None:
    """Take some nodes out of a graph and put others in, in one edit."""
    Edit(graph).commit(removed, added, insert_at)


def run(
    model: onnx.ModelProto,
    feeds: Mapping[str, Any],
    base: str | None = None,
    *,
    optimized: bool = False,
) -> list[Any]:
    """Outputs on onnxruntime's CPU provider, without its own optimizations unless asked for."""
    options = onnxruntime.SessionOptions()
    levels = onnxruntime.GraphOptimizationLevel
    options.graph_optimization_level = (
        levels.ORT_ENABLE_ALL if optimized else levels.ORT_DISABLE_ALL
    )
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    source: Any = model.SerializeToString() if base is None else base
    session = onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
    return list(session.run(None, dict(feeds)))


def same_results(before: onnx.ModelProto, after: onnx.ModelProto, feeds: Mapping[str, Any]) -> None:
    """Both models are valid and compute the same."""
    onnx.checker.check_model(after)
    for expected, got in zip(run(before, feeds), run(after, feeds), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)


def text_of(model: Model) -> bytes:
    """Everything about a model that ends up in a file."""
    return export_model(model).SerializeToString(deterministic=True)


def verify(model: Model) -> None:
    """Compare the tables of every graph with what its nodes say, and the order with what they
    read.
    """
    captures: dict[int, dict[str, Counter[Node]]] = {}
    graphs = list(model.graphs())
    for graph in graphs:
        for node in graph.nodes:
            for name in filter(None, node.input):
                scope = graph.scope(name)
                assert scope is not None, f"{name} is not defined"
                if scope is not graph:
                    captures.setdefault(id(scope), {}).setdefault(name, Counter())[node] += 1
        for name in graph.outputs:
            scope = graph.scope(name)
            assert scope is not None, f"output {name} is not defined"
            if scope is not graph:
                assert graph.owner is not None
                captures.setdefault(id(scope), {}).setdefault(name, Counter())[graph.owner] += 1
    for graph in graphs:
        _verify_order(graph)
        nodes = list(graph.nodes)
        defined = {
            *graph.inputs,
            *graph.declared_inputs,
            *graph.initializers,
            *(n for node in nodes for n in node.output if n),
        }
        described = {name for name, _ in graph.all_known()}
        assert described == defined, (
            f"facts describe the values that exist and nothing else, not {described ^ defined}"
        )
        assert graph.definitions._producers == {
            name: node for node in nodes for name in node.output if name
        }
        uses: dict[str, Counter[Node]] = {}
        for node in nodes:
            for name in filter(None, node.input):
                if graph.scope(name) is graph:
                    uses.setdefault(name, Counter())[node] += 1
        assert _counts(graph.references._uses) == uses
        assert _counts(graph.references._captures) == captures.get(id(graph), {})
        by_type: dict[tuple[str, str], list[Node]] = {}
        for node in nodes:
            by_type.setdefault((node.domain, node.op_type), []).append(node)
        assert {key: sorted(map(id, table)) for key, table in graph.types.items() if table} == {
            key: sorted(map(id, table)) for key, table in by_type.items()
        }


def _counts(uses: Uses) -> dict[str, dict[Node, int]]:
    """All readers and how often they read, by result."""
    return {
        name: {found: 1} if isinstance(found, Node) else dict(found)
        for name, found in uses._table.items()
    }


def _verify_order(graph: Graph) -> None:
    nodes = list(graph.nodes)
    assert len(nodes) == len(graph.nodes)
    assert nodes == list(reversed(graph.nodes))[::-1]
    assert all(a.label < b.label for a, b in pairwise(nodes)), "labels are not increasing"
    for node in nodes:
        assert node.graph is graph
        for body in node.bodies.values():
            assert body.owner is node
    for name, producer in graph.definitions._producers.items():
        readers: Sequence[Node] = [
            *graph.consumers(name),
            *(owner_in(graph, n) for n in graph.captures(name)),
        ]
        for reader in readers:
            assert producer.label < reader.label, f"{reader!r} comes before {producer!r}"


def with_external_data(model: ModelProto, folder: Path) -> Path:
    """A file of a model, all constants of which are in another file."""
    for tensor in model.graph.initializer:
        if tensor.data_type != onnx.TensorProto.STRING:
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor), tensor.name))
    external_data_helper.convert_model_to_external_data(model, size_threshold=0, location="data")
    path = folder / "model.onnx"
    onnx.save(model, path)
    return path
