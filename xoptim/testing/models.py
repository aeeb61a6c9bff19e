"""Models from text, and the functions to inspect and optimize them that all checks share."""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import onnx
from onnx import ModelProto

from xoptim.api.optimizing import optimize
from xoptim.diagnose.report import OptimizationReport
from xoptim.engine.events import Event
from xoptim.engine.options import OptimizationOptions
from xoptim.facts.protos import inner_graphs, opset_versions, standard_domain
from xoptim.match.rewrite import Rewrite

_IR_VERSION = 10
_METADATA = re.compile(r"<(?=metadata_props)([^<>]*)>\s*")
INFERENCE_ERRORS = (onnx.checker.ValidationError, onnx.shape_inference.InferenceError, ValueError, RuntimeError)
"""Errors of the onnx package for wrong models; the latter two come from its C++ side."""


def parse(text: str, opset: int = 18, domains: Sequence[tuple[str, int]] = ()) -> ModelProto:
    """A model from the text of its graph, ``agraph (float[n] x) => (float[n] y) { y = Neg(x) }``, and of local functions.

    The text is in ONNX's syntax without the header, but for metadata, ``<metadata_props: ["key" : "value"]>``; otherwise
    `ValueError` is raised, and the message shows it.
    """
    metadata, text = (f", {found[1]}", text[found.end() :]) if (found := _METADATA.match(text)) else ("", text)
    imports = [onnx.helper.make_opsetid(domain, version) for domain, version in (("", opset), *domains)]
    version = max(_IR_VERSION, onnx.helper.find_min_ir_version_for(imports, ignore_unknown=True))
    listed = ", ".join(f'"{o.domain}" : {o.version}' for o in imports)
    try:
        return onnx.parser.parse_model(f"<ir_version: {version}, opset_import: [{listed}]{metadata}>\n{text}")
    except onnx.parser.ParseError as error:
        raise ValueError(f"this is not the text of an ONNX graph:\n{text}\n{error}") from error


def all_graphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    """A graph and its subgraphs at every depth."""
    yield graph
    yield from inner_graphs(graph.node)


def all_nodes(model: ModelProto) -> Iterator[onnx.NodeProto]:
    """The nodes of a model, in subgraphs and local functions too."""
    for nodes in (model.graph.node, *(function.node for function in model.functions)):
        yield from nodes
        for graph in inner_graphs(nodes):
            yield from graph.node


def opset_of(model: ModelProto, domain: str = "") -> int:
    """Version of an operator set that a model imports, 0 when it does not."""
    return opset_versions(model.opset_import).get(standard_domain(domain), 0)


def serialized(model: ModelProto) -> bytes:
    """Bytes that are equal for equal models."""
    return model.SerializeToString(deterministic=True)


class OptimizedAlone(NamedTuple):
    """The result of an optimization: how often the pattern was applied, and the operators of the new nodes, in order."""

    model: ModelProto
    applied: int
    created: tuple[str, ...]


def optimize_alone(pattern: type[Rewrite] | None, model: ModelProto) -> OptimizedAlone:
    """Optimize with one pattern (or none) and the default cleaning; errors in the pattern are fatal."""
    created: list[str] = []
    reports: list[OptimizationReport] = []

    def listen(event: Event) -> None:
        if event.kind == "applied":
            created.extend(node.op_type for node in event.added)

    options = OptimizationOptions(
        patterns=None if pattern is None else [pattern],
        provider=provider_of(pattern) if pattern is not None else "cpu",
        strict=True,
        on_event=listen,
    )
    result = optimize(model, options, report=reports.append)
    applied = 0 if pattern is None else reports[0].applied.get(pattern.name(), 0)
    return OptimizedAlone(result, applied, tuple(created))


def provider_of(pattern: type[Rewrite]) -> str:
    """The execution provider with which the pattern is used: the CPU if the pattern supports it."""
    return "cpu" if not pattern.providers or "cpu" in pattern.providers else pattern.providers[0]
