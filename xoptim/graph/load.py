"""Read protobufs of models, and load them into a `Model`."""

import errno
import graphlib
from collections.abc import Sequence
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError

from xoptim.facts.assumptions import USUAL, Assumptions
from xoptim.facts.dims import substitute
from xoptim.facts.errors import AssumptionError, ModelError
from xoptim.facts.protos import (
    copy_fields,
    lack_of_memory,
    opset_versions,
    unreadable_names,
    unreadable_texts,
)
from xoptim.facts.schema import KNOWN_DOMAINS
from xoptim.graph.assumed import assumed_sizes, check_fit, dynamic_dims
from xoptim.graph.data_file import external_bytes
from xoptim.graph.equal_sizes import equal_sizes, with_sizes
from xoptim.graph.forms import kind_of, parse_text, text_form
from xoptim.graph.graph import Graph
from xoptim.graph.load_nodes import check_names, load_graph, load_nodes
from xoptim.graph.model import Function, Model
from xoptim.graph.names import repeated
from xoptim.graph.propagate import declared_values, infer_graph
from xoptim.operators.inference.types import type_proto_to_info
from xoptim.operators.registry import operator_of
from xoptim.system.collection import collection_paused
from xoptim.system.reading import read_file

LARGEST_FILE = (1 << 31) - 1
"""Bytes of the largest protobuf that can be read."""


def read_proto(path: Path) -> onnx.ModelProto:
    """Read a model file, a protobuf or one of the text forms of ONNX, without its external data.

    Raises `ModelError` when the file is missing, unreadable, or not a model.
    """
    try:
        raw = read_file(path, LARGEST_FILE)
    except (OSError, ValueError) as error:
        if isinstance(error, OSError) and error.errno == errno.EFBIG:
            raise ModelError(
                f"{str(path)!r} is not an ONNX model: a protobuf ends at 2 GiB; weights beyond "
                "that have to be external data"
            ) from error
        raise ModelError(
            f"cannot read {str(path)!r}: {getattr(error, 'strerror', None) or error}"
        ) from error
    form = text_form(raw)
    proto = (
        parse_text(raw, form, f"{str(path)!r} is")
        if form
        else parse_proto(raw, f"{str(path)!r} is")
    )
    if not proto.opset_import:
        raise ModelError(f"{str(path)!r} is not an ONNX model: it imports no operator set")
    return proto


def parse_proto(raw: bytes, label: str) -> onnx.ModelProto:
    """A model from its serialized form.

    ``label`` begins the message of the `ModelError` when it is not one: ``'a.onnx' is``.
    """
    proto = onnx.ModelProto()
    try:
        with lack_of_memory():
            proto.ParseFromString(raw)
    except DecodeError as error:
        kind = kind_of(raw)
        if "MaxDepth" in str(error):
            raise ModelError(
                f"{label} nested too deeply: a protobuf is read to a depth of 100 messages"
            ) from error
        raise ModelError(
            f"{label} not an ONNX model{f': {kind}' if kind else ', or it is truncated'}"
        ) from error
    if not proto.HasField("graph"):
        raise ModelError(f"{label} not an ONNX model: {kind_of(raw) or 'there is no graph'}")
    text = next(unreadable_names(proto), None)
    if text is not None:
        raise ModelError(f"the model is damaged: {text!r} is not UTF-8")
    return proto


def load_model(
    proto: onnx.ModelProto,
    base_dir: Path | None = None,
    *,
    infer: bool = True,
    assumptions: Assumptions | None = None,
) -> Model:
    """Wrap a model.

    The protobuf is kept by reference and never modified; external data is resolved against
    ``base_dir``.

    Without ``infer``, only the shapes and types that the model declares are known. Without
    ``assumptions``, the default set holds; assumptions in the metadata are ignored. Raises
    `ModelError` when names are undefined or defined twice, or nodes form a cycle, and
    `AssumptionError` when the assumptions do not fit the model.
    """
    if not proto.HasField("graph"):
        raise ModelError("the model has no graph")
    try:
        with collection_paused():
            return _load(proto, base_dir, infer, assumptions or USUAL)
    except AssumptionError:
        raise
    # protobuf returns text that is not UTF-8 as bytes
    except (AttributeError, TypeError, ValueError) as error:
        text = next(unreadable_texts(proto), None)
        if text is None:
            raise
        raise ModelError(f"the model is damaged: {text!r} is not UTF-8") from error


def _hides_operator(function: onnx.FunctionProto) -> bool:
    """Whether a local function is in a known domain, or redefines an operator."""
    definition = operator_of(function.domain, function.name).definition
    is_other = definition is not None and definition != function
    return function.domain in KNOWN_DOMAINS or is_other


def _load(
    proto: onnx.ModelProto, base_dir: Path | None, infer: bool, assumptions: Assumptions
) -> Model:
    model = Model(_opsets(proto.opset_import), proto.ir_version or onnx.IR_VERSION, base_dir)
    check_fit(assumptions, proto)
    model.assumptions, model.assumed_sizes = (
        assumptions,
        assumed_sizes(assumptions, dynamic_dims(proto)),
    )
    copy_fields(proto, model.shell, ("graph", "functions"))
    model.hidden_operators = {(f.domain, f.name) for f in proto.functions if _hides_operator(f)}
    for function in proto.functions:
        model.functions.append(load_function(model, function))
    _check_recursion(model)
    load_graph(model.graph, proto.graph)
    model.external_size = external_bytes(proto.graph)
    _distinguish_nodes(model)
    _pin_training(model.graph, proto)
    if infer:
        infer_model(model)
    else:
        for graph in model.graphs():
            for name, value in declared_values(graph).items():
                if graph.producer(name) is not None:
                    graph.learn(name, type_proto_to_info(value.type, model.assumed_sizes))
    return model


def _distinguish_nodes(model: Model) -> None:
    """Make the names of nodes unique: onnxruntime refuses equal names in a graph, and branches may
    be inlined.
    """
    roots = (model.graph, *(function.body for function in model.functions))
    nodes = [node for root in roots for graph in root.all_graphs() for node in graph.nodes]
    for index, name in repeated([node.name for node in nodes]).items():
        nodes[index].name = name


def infer_model(model: Model) -> None:
    """Infer shapes and types in all graphs of a model."""
    for function in model.functions:
        infer_graph(function.body)
    declared = declared_values(model.graph)
    infer_graph(model.graph, declared)
    if sizes := equal_sizes(model.graph):
        model.equal_sizes = {
            name: substitute(dim, sizes) for name, dim in model.equal_sizes.items()
        } | sizes
        for name, info in model.graph.declared_inputs.items():
            model.graph.learn(name, with_sizes(info, sizes))
        infer_graph(model.graph, declared)


def _opsets(imports: Sequence[onnx.OperatorSetIdProto]) -> dict[str, int]:
    entry = next((o for o in imports if not 0 <= o.version < 1 << 31), None)
    if entry is not None:
        raise ModelError(
            f"operator set {entry.domain or 'ai.onnx'!r} has no version {entry.version}"
        )
    return opset_versions(imports)


def _pin_training(graph: Graph, proto: onnx.ModelProto) -> None:
    for training in proto.training_info:
        for body in (training.initialization, training.algorithm):
            graph.pinned.update(
                name for node in body.node for name in (*node.input, *node.output) if name
            )
        for binding in (*training.initialization_binding, *training.update_binding):
            graph.pinned.update((binding.key, binding.value))


def load_function(model: Model, proto: onnx.FunctionProto) -> Function:
    """The body of a function as a graph.

    The function is not added to the model, and its results are not inferred yet.
    """
    graph = Graph(model, proto.name)
    graph.opsets = _opsets(proto.opset_import)
    for name in proto.input:
        if graph.is_input(name):
            raise ModelError(f"input {name!r} of local function {proto.name!r} is declared twice")
        graph.declare_input(name)
    load_nodes(graph, proto.node)
    for name in proto.output:
        graph.declare_output(name)
    check_names(graph)
    return Function(proto, graph)


def check_imports(model: Model) -> None:
    """Raise `ModelError` for standard operators without an imported version: each runtime would
    take the newest version that it knows.
    """
    for graph in model.graphs():
        ops = (
            [] if "" in graph.opsets else [op_type for domain, op_type in graph.types if not domain]
        )
        if ops:
            raise ModelError(
                f"the model has operators of ai.onnx, such as {ops[0]}, but imports no version of "
                "it: add the version that it was written for to opset_import"
            )


def _check_recursion(model: Model) -> None:
    keys = {f.key for f in model.functions}
    if len(keys) < len(model.functions):
        duplicate = next(
            f
            for index, f in enumerate(model.functions)
            if any(f.key == g.key for g in model.functions[:index])
        )
        raise ModelError(f"local function {duplicate.key[1]!r} is defined twice")
    calls = {
        f.key: {(n.domain, n.op_type, n.overload) for g in f.body.all_graphs() for n in g.nodes}
        for f in model.functions
    }
    try:
        graphlib.TopologicalSorter(
            {key: callees & keys for key, callees in calls.items()}
        ).prepare()
    except graphlib.CycleError as error:
        raise ModelError(f"local function {error.args[1][0][1]!r} calls itself") from error
