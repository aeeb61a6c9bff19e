"""The external data of a model: which tensors and files they are, how large, and whether they can be read."""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto

from xoptim.facts.errors import ModelError
from xoptim.facts.protos import is_external
from xoptim.graph.tensors import Tensor


def check_external_data(proto: ModelProto, base_dir: Path) -> None:
    """Raise `ModelError` for external data that is missing, too short, or outside the folder of the model."""
    for tensor in filter(is_external, stored_tensors(proto)):
        Tensor.from_proto(tensor, base_dir).place()


def external_files(proto: ModelProto, base_dir: Path) -> list[Path]:
    """The files that hold external data of a model, in order of their paths; those that cannot be read are left out."""
    found: set[Path] = set()
    for tensor in filter(is_external, stored_tensors(proto)):
        with suppress(ModelError):
            place = Tensor.from_proto(tensor, base_dir).place()
            found.update(() if place is None else place[:1])
    return sorted(found)


def external_locations(proto: ModelProto) -> list[str]:
    """The locations of the external data of a model as it states them, relative to its folder, in order."""
    tensors = filter(is_external, stored_tensors(proto))
    return sorted({entry.value for tensor in tensors for entry in tensor.external_data if entry.key == "location"})


def has_external_data(proto: ModelProto) -> bool:
    """Whether any weight is in a file of its own."""
    return any(map(is_external, stored_tensors(proto)))


def external_bytes(graph: GraphProto) -> int:
    """Bytes of the weights of a graph and of its subgraphs that are in files of their own."""
    return sum(Tensor.from_proto(tensor).nbytes for tensor in filter(is_external, _graph_tensors(graph)))


def stored_tensors(proto: ModelProto) -> Iterator[TensorProto]:
    """Initializers of all graphs; sparse ones and tensors of attributes only if they are external."""
    yield from _graph_tensors(proto.graph)
    for function in proto.functions:
        yield from _node_tensors(function.node)
    for training in proto.training_info:
        yield from _graph_tensors(training.initialization)
        yield from _graph_tensors(training.algorithm)


def _graph_tensors(graph: GraphProto) -> Iterator[TensorProto]:
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield from filter(is_external, (sparse.values, sparse.indices))
    yield from _node_tensors(graph.node)


def _node_tensors(nodes: Iterable[NodeProto]) -> Iterator[TensorProto]:
    for node in nodes:
        for attribute in node.attribute:
            kind = attribute.type
            if kind == AttributeProto.GRAPH:
                yield from _graph_tensors(attribute.g)
            elif kind == AttributeProto.TENSOR:
                yield from filter(is_external, (attribute.t,))
            elif kind == AttributeProto.SPARSE_TENSOR:
                yield from filter(is_external, (attribute.sparse_tensor.values, attribute.sparse_tensor.indices))
            elif kind == AttributeProto.TENSORS:
                yield from filter(is_external, attribute.tensors)
