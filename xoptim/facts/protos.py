"""Helpers for protobufs that several packages need."""

import contextlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, Final, TypeVar

import onnx
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError, Message as AnyMessage

from xoptim.system.machine import require_memory

Message = TypeVar("Message", onnx.ModelProto, onnx.GraphProto)
Element = TypeVar("Element")

UNLISTED_SINCE: Final = 4
"""IR version since which initializers need not be inputs; if they are, callers may override them.
"""
FUNCTIONS_SINCE: Final = 8
"""IR version since which a model may have local functions."""
_UNKNOWN_TO_ONNX: Final = "com.microsoft"
_CHECK_INTERVAL: Final = 1024
_HEADROOM: Final = 4 << 20  # bytes; 1024 nodes with their wrappers take a third of it


def with_headroom(elements: Iterable[Element]) -> Iterator[Element]:
    """Iterate over many protobufs, and raise MemoryError before memory is exhausted.

    Protobuf does not check whether it got memory for the Python object of a message: the process
    crashes when it did not.
    """
    for index, element in enumerate(elements):
        if index % _CHECK_INTERVAL == 0:
            require_memory(_HEADROOM)
        yield element


@contextlib.contextmanager
def lack_of_memory() -> Iterator[None]:
    """Raise MemoryError where protobuf raises an error of decoding because it was granted no
    memory.
    """
    try:
        yield
    except DecodeError as error:
        if "alloc failed" in str(error):
            raise MemoryError from error
        raise


def copy_fields(source: Message, target: Message, but: Collection[str]) -> None:
    """Copy the fields that are set in a protobuf, except those named in ``but``, into an empty one
    of the same type.
    """
    for field, value in source.ListFields():
        if field.name in but:
            continue
        if hasattr(value, "MergeFrom"):
            getattr(target, field.name).MergeFrom(value)
        elif isinstance(value, bytes) and field.type == FieldDescriptor.TYPE_STRING:
            # protobuf returns a text that is not UTF-8 as bytes, which a field does not accept
            setattr(target, field.name, value.decode(errors="replace"))
        else:
            setattr(target, field.name, value)


def replace_items(field: Any, items: Iterable[Any]) -> None:
    """Replace the elements of a repeated field by ``items``, which may include old elements."""
    elements = list(items)
    del field[:]
    field.extend(elements)


def is_external(tensor: onnx.TensorProto) -> bool:
    """Whether the data of a tensor is outside the protobuf."""
    return tensor.data_location == onnx.TensorProto.EXTERNAL


def standard_domain(domain: str) -> str:
    """The domain, but an empty text for ``ai.onnx``: the standard domain has these two names."""
    return "" if domain == "ai.onnx" else domain


def opset_versions(imports: Iterable[onnx.OperatorSetIdProto]) -> dict[str, int]:
    """The versions of imported operator sets by domain."""
    return {standard_domain(entry.domain): entry.version for entry in imports}


def own_graphs(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    """The subgraphs of a node."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def inner_graphs(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.GraphProto]:
    """The subgraphs of some nodes at every depth, the outer ones first."""
    for node in nodes:
        for graph in own_graphs(node):
            yield graph
            yield from inner_graphs(graph.node)


def every_node(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """Some nodes, each followed by the nodes of its subgraphs."""
    for node in nodes:
        yield node
        for graph in own_graphs(node):
            yield from every_node(graph.node)


def hide_from_onnx(model: onnx.ModelProto, op_types: Collection[str]) -> None:
    """Move nodes of some standard operators, subgraphs and functions included, to a domain whose
    operators onnx does not know.
    """
    parts = [
        (model.opset_import, model.graph.node),
        *((function.opset_import, function.node) for function in model.functions),
    ]
    for imports, nodes in parts:
        targets = [
            node
            for node in every_node(nodes)
            if node.op_type in op_types and not standard_domain(node.domain)
        ]
        for node in targets:
            node.domain = _UNKNOWN_TO_ONNX
        if targets and _UNKNOWN_TO_ONNX not in opset_versions(imports):
            imports.append(onnx.helper.make_opsetid(_UNKNOWN_TO_ONNX, 1))


def proto_reads(node: onnx.NodeProto) -> Iterator[str]:
    """Names that a node reads, the values that its subgraphs take from outside included.

    A name may be empty or repeat.
    """
    yield from node.input
    for body in own_graphs(node):
        body_names = own_names(body)
        for inner in body.node:
            yield from (name for name in proto_reads(inner) if name not in body_names)
        yield from (value.name for value in body.output if value.name not in body_names)


def own_names(graph: onnx.GraphProto) -> set[str]:
    """Names that a graph defines, its subgraphs not included."""
    names = {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer}
    names.update(tensor.values.name for tensor in graph.sparse_initializer)
    return names.union(*(node.output for node in graph.node))


def fed_inputs(model: onnx.ModelProto) -> list[onnx.ValueInfoProto]:
    """The inputs that must be fed: before IR version 4, initializers were listed as inputs."""
    initialized = {t.name for t in model.graph.initializer} | {
        t.values.name for t in model.graph.sparse_initializer
    }
    return [value for value in model.graph.input if value.name not in initialized]


def unreadable_names(model: onnx.ModelProto) -> Iterator[bytes]:
    """Texts that a rewrite may copy and that are not in UTF-8.

    Names of nodes and results are checked as they are loaded.
    """
    for message in (
        *model.graph.input,
        *model.graph.output,
        *model.opset_import,
        *model.metadata_props,
    ):
        yield from unreadable_texts(message)
    yield from _undecoded([model.producer_name, model.producer_version])
    for nodes in (model.graph.node, *(function.node for function in model.functions)):
        for node in every_node(nodes):
            yield from _undecoded([node.doc_string, *[text.name for text in node.attribute]])
            if len(node.metadata_props):
                yield from _undecoded(
                    [text for entry in node.metadata_props for text in (entry.key, entry.value)]
                )


def _undecoded(texts: Sequence[str | bytes]) -> Sequence[bytes]:
    """The texts that protobuf returned as bytes: they are not in UTF-8."""
    return [text for text in texts if isinstance(text, bytes)]


def unreadable_texts(message: AnyMessage) -> Iterator[bytes]:
    """Texts anywhere in a protobuf that are not in UTF-8; protobuf returns them as bytes."""
    for field, value in message.ListFields():
        values = (
            value
            if isinstance(value, Collection) and not isinstance(value, (str, bytes))
            else (value,)
        )
        if field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE:
            for inner in values:
                yield from unreadable_texts(inner)
        elif field.type == FieldDescriptor.TYPE_STRING:
            yield from (text for text in values if isinstance(text, bytes))
