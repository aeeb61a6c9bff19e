"""Load protobufs into a `Model`.

Exporters name the axes of each input, and the model tells which must be equal.
"""

import gc
import graphlib
import heapq
import logging
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError
from onnx import AttributeProto, GraphProto

from xoptim.facts.assumptions import USUAL, Assumptions
from xoptim.facts.dim_formulas import size_in
from xoptim.facts.dims import Dim, substitute
from xoptim.facts.errors import AssumptionError, ModelError
from xoptim.facts.protos import (
    copy_fields,
    lack_of_memory,
    opset_versions,
    unreadable_names,
    unreadable_texts,
    with_headroom,
)
from xoptim.facts.schema import KNOWN_DOMAINS, may_own_graphs
from xoptim.facts.shapes import Info
from xoptim.facts.symbolic import SymbolicDim, bounds, is_nonnegative, named
from xoptim.graph.assumed import assumed_info, assumed_sizes, check_fit, open_sizes
from xoptim.graph.forms import kind_of, parse_text, text_form
from xoptim.graph.graph import Graph
from xoptim.graph.model import Function, Model, call_domain
from xoptim.graph.names import repeated
from xoptim.graph.node import Node
from xoptim.graph.propagate import declared_values, infer_graph
from xoptim.graph.tensors import Tensor
from xoptim.graph.walk import around, owner_in, readers, reads
from xoptim.inference.types import type_proto_to_info


def equal_sizes(graph: Graph) -> dict[str, Dim]:
    """The names of sizes of a main graph that can only be equal to others, or to a number, with
    these.
    """
    order = {name: place for place, name in enumerate(_declared(graph))}
    found: dict[str, Dim] = {}
    differing = [
        (node, pair)
        for node in graph.nodes
        for pair in _pairs(graph, node)
        if pair[0] is not pair[1]
    ]
    needed = _needed(graph) if differing else ()
    for node, pair in differing:
        first, second = (substitute(dim, found) for dim in pair) if found else pair
        solved = _solved(first - second, order) if node in needed else None
        if solved is not None:
            known = _known(*solved)
            found = {each: substitute(dim, known) for each, dim in found.items()} | known
    return found


def _known(symbol: SymbolicDim, size: Dim) -> dict[str, Dim]:
    """A size in place of a symbol.

    The limits of both hold for either, where the size is a symbol too.
    """
    if not isinstance(size, SymbolicDim) or not size.is_symbol:
        return {str(symbol): size}
    (least, most), (low, high) = bounds(symbol), bounds(size)
    limits = (
        [each for each in (least, low) if each is not None],
        [each for each in (most, high) if each is not None],
    )
    met = (max(limits[0]), min(limits[1]))
    if met == (low, high) or met[0] > met[1]:
        return {str(symbol): size}
    both = named(str(size), met)
    return {str(symbol): both, str(size): both}


def with_sizes(info: Info, sizes: Mapping[str, Dim]) -> Info:
    """The facts with sizes in place of names."""
    if not info.is_tensor or info.shape is None:
        return info
    return Info(info.dtype, tuple(substitute(dim, sizes) for dim in info.shape), info.data)


def _declared(graph: Graph) -> dict[str, None]:
    """The names of the sizes of the inputs, in order."""
    dims = (
        dim for info in graph.declared_inputs.values() if info.is_tensor for dim in info.shape or ()
    )
    return {
        str(dim): None
        for dim in dims
        if isinstance(dim, SymbolicDim) and dim.is_symbol and not dim.is_anonymous
    }


def _pairs(graph: Graph, node: Node) -> Iterator[tuple[Dim, Dim]]:
    """The inner sizes of the factors of a product."""
    if node.domain or node.op_type not in ("MatMul", "Gemm") or len(node.input) < 2:
        return
    a, b = (graph.info_of(name).shape for name in node.input[:2])
    if not a or not b:
        return
    if node.op_type == "MatMul":
        yield a[-1], b[-2] if len(b) > 1 else b[0]
    elif len(a) == len(b) == 2:
        yield (
            a[0 if node.get_attribute("transA", 0) else 1],
            b[1 if node.get_attribute("transB", 0) else 0],
        )


def _solved(difference: Dim, order: Mapping[str, int]) -> tuple[SymbolicDim, Dim] | None:
    """A symbol and the size for which a difference is 0: the last of the names of inputs for which
    there is one.
    """
    names = difference.symbols & order.keys() if isinstance(difference, SymbolicDim) else ()
    # another size is computed from values
    if isinstance(difference, int) or len(names) != len(difference.symbols):
        return None
    for name in sorted(names, key=lambda each: -order[each]):
        symbol = difference.symbol(name)
        for size in () if symbol is None else (symbol - difference, symbol + difference):
            if (
                symbol is not None
                and is_nonnegative(size)
                and (isinstance(size, int) or name not in size.symbols)
            ):
                return symbol, size
    return None


def _needed(graph: Graph) -> set[Node]:
    """The nodes on which outputs depend: others may be left out by the runtime."""
    names, needed = set(graph.outputs), set[Node]()
    for node in reversed(list(graph.nodes)):
        if not names.isdisjoint(node.output):
            needed.add(node)
            names.update(reads(node))
    return needed


logger = logging.getLogger("xoptim")

LARGEST_FILE = (1 << 31) - 1
"""Bytes of the largest protobuf that can be read."""
DEEPEST = 31
"""Levels of subgraphs that a protobuf can hold: it is read to a depth of 100 messages, and each
level takes three.
"""


@contextmanager
def collection_paused() -> Iterator[None]:
    """Switch the cyclic garbage collector off: it would traverse millions of small objects that
    stay alive again and again.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def read_proto(path: Path) -> onnx.ModelProto:
    """Read a model file, a protobuf or one of the text forms of ONNX, without its external data.

    Raises `ModelError` when the file is missing, unreadable, or not a model.
    """
    try:
        status = path.stat()
        if not (
            stat.S_ISREG(status.st_mode)
            or stat.S_ISFIFO(status.st_mode)
            or stat.S_ISDIR(status.st_mode)
        ):
            raise ModelError(f"cannot read {str(path)!r}: it is a device, not a file")
        if status.st_size > LARGEST_FILE:
            raise ModelError(
                f"{str(path)!r} is not an ONNX model: a protobuf ends at 2 GiB; weights beyond "
                "that have to be external data"
            )
        raw = path.read_bytes()
    except (OSError, ValueError) as error:
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
    wrong = next(unreadable_names(proto), None)
    if wrong is not None:
        raise ModelError(f"the model is damaged: {wrong!r} is not UTF-8")
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

    Without ``infer``, only the shapes and types that the model declares are known. Unless
    ``assumptions`` are given, the default set holds; the metadata are not read for them. Raises
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
        wrong = next(unreadable_texts(proto), None)
        if wrong is None:
            raise
        raise ModelError(f"the model is damaged: {wrong!r} is not UTF-8") from error


def _load(
    proto: onnx.ModelProto, base_dir: Path | None, infer: bool, assumptions: Assumptions
) -> Model:
    model = Model(_opsets(proto.opset_import), proto.ir_version or onnx.IR_VERSION, base_dir)
    check_fit(assumptions, proto)
    model.assumptions, model.assumed_sizes = (
        assumptions,
        assumed_sizes(assumptions, open_sizes(proto)),
    )
    copy_fields(proto, model.shell, ("graph", "functions"))
    model.hidden_operators = {
        (f.domain, f.name) for f in proto.functions if f.domain in KNOWN_DOMAINS
    }
    for function in proto.functions:
        model.functions.append(load_function(model, function))
    _check_recursion(model)
    load_graph(model.graph, proto.graph)
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
    wrong = next((o for o in imports if not 0 <= o.version < 1 << 31), None)
    if wrong is not None:
        raise ModelError(
            f"operator set {wrong.domain or 'ai.onnx'!r} has no version {wrong.version}"
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
    _load_nodes(graph, proto.node)
    for name in proto.output:
        graph.declare_output(name)
    _check_names(graph)
    return Function(proto, graph)


def check_imports(model: Model) -> None:
    """Raise `ModelError` for standard operators of no version: each runtime takes its own newest
    one.
    """
    for graph in model.graphs():
        used = (
            [] if "" in graph.opsets else [op_type for domain, op_type in graph.types if not domain]
        )
        if used:
            raise ModelError(
                f"the model has operators of ai.onnx, such as {used[0]}, but imports no version of "
                "it: add the version that it was written for to opset_import"
            )


def _check_recursion(model: Model) -> None:
    keys = {f.key for f in model.functions}
    if len(keys) < len(model.functions):
        twice = next(
            f
            for index, f in enumerate(model.functions)
            if any(f.key == g.key for g in model.functions[:index])
        )
        raise ModelError(f"local function {twice.key[1]!r} is defined twice")
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


def _load_initializers(graph: Graph, proto: onnx.GraphProto) -> None:
    base_dir = graph.model.base_dir
    for tensor in with_headroom(proto.initializer):
        handle = Tensor.from_proto(tensor, base_dir)
        if tensor.name in graph.initializers:
            raise ModelError(f"initializer {tensor.name!r} is defined twice")
        if graph.is_input(tensor.name) and not graph.model.lists_initializers:
            graph.overridable.add(tensor.name)
        handle.check_count()
        graph.add_initializer(tensor.name, handle)


def load_graph(graph: Graph, proto: onnx.GraphProto) -> None:
    """Fill an empty graph from its protobuf; raises `ModelError` as `load_model`."""
    graph.source = proto
    graph.name = proto.name
    _check_text(
        (
            graph.name,
            *(v.name for v in (*proto.input, *proto.output)),
            *(t.name for t in proto.initializer),
        )
    )
    names = {
        dim.dim_param: None
        for value in proto.input
        for dim in value.type.tensor_type.shape.dim
        if dim.dim_param
    }
    assumed = graph.model.assumed_sizes
    formulas = {
        text: substitute(size, assumed)
        for text in names
        if (size := size_in(text, names)) is not None
    }
    for value in proto.input:
        if graph.is_input(value.name):
            raise ModelError(f"graph input {value.name!r} is declared twice")
        info = type_proto_to_info(value.type, {**assumed, **formulas})
        graph.declare_input(
            value.name,
            info if graph.parent is not None else assumed_info(value.name, info, assumed),
        )
    _load_initializers(graph, proto)
    for sparse in proto.sparse_initializer:
        # Only its name, type and shape are known: it is never folded, and is written back
        # unchanged.
        info = Info(sparse.values.data_type, tuple(sparse.dims), container="sparse")
        graph.declare_input(sparse.values.name, info, listed=False)
    for annotation in proto.quantization_annotation:
        graph.annotations[annotation.tensor_name] = annotation
        graph.pinned.update(entry.value for entry in annotation.quant_parameter_tensor_names)
    _load_nodes(graph, proto.node)
    for value in proto.output:
        graph.declare_output(value.name)
    _check_names(graph)


def _check_text(texts: Iterable[object]) -> None:
    """Refuse texts that protobuf returns as bytes because they are not UTF-8: they could not be
    written back.
    """
    for text in texts:
        if type(text) is not str:
            raise ModelError(f"the model is damaged: the name {text!r} is not UTF-8")


def _load_nodes(graph: Graph, protos: Iterable[onnx.NodeProto]) -> None:
    nodes = _wrap(graph, protos)
    _check_results(graph, nodes)
    graph.nodes.extend(nodes)
    graph.link(nodes)
    is_sorted = _connect(graph)
    for node in nodes:
        load_bodies(graph, node)
    if not is_sorted or _captures_later(graph):
        _sort(graph)
        logger.warning("the nodes of graph %r are not in order; they were sorted", graph.name)


def _wrap(graph: Graph, protos: Iterable[onnx.NodeProto]) -> list[Node]:
    wrap, hidden = Node.from_proto, graph.model.hidden_operators
    nodes: list[Node] = []
    for proto in with_headroom(protos):
        try:
            node = wrap(proto)
        except TypeError:
            _check_text((*proto.input, *proto.output, proto.op_type, proto.domain, proto.overload))
            raise
        if hidden and (node.domain, node.op_type) in hidden:
            node.domain = call_domain(node.domain)
        nodes.append(node)
    _check_text(node.name for node in nodes)
    return nodes


def _check_results(graph: Graph, nodes: Iterable[Node]) -> None:
    seen: dict[str, None] = {}
    for node in nodes:
        for name in node.output:
            if name in seen:
                raise ModelError(f"result {name!r} is produced twice")
            if name:
                seen[name] = None
    clash = next(
        (name for name in seen if name in graph.declared_inputs or name in graph.initializers), None
    )
    if clash is not None:
        raise ModelError(
            f"result {clash!r} is produced by a node and is an input or an initializer too"
        )


def _connect(graph: Graph) -> bool:
    """Record the uses of all nodes.

    Return whether each node comes after the producers of its operands.
    """
    producer_of, connect = graph.producer, graph.connect
    is_sorted = True
    for node in graph.nodes:
        connect(node)
        for name in node.input:
            producer = producer_of(name)
            if producer is not None and producer.label >= node.label:
                is_sorted = False
    return is_sorted


def load_bodies(graph: Graph, node: Node) -> None:
    """Wrap the subgraphs among the attributes of a node of a graph.

    Raises `ModelError` as `load_model`.
    """
    if not may_own_graphs(node.domain, node.op_type):
        return
    proto = node.untouched_proto
    if proto is not None:
        found = {a.name: a.g for a in proto.attribute if a.type == AttributeProto.GRAPH}
    else:
        found = {
            name: value for name, value in node.attribute.items() if isinstance(value, GraphProto)
        }
    if found:
        if len(list(around(graph))) >= DEEPEST:
            raise ModelError(
                f"its subgraphs are nested more than {DEEPEST} deep, which no protobuf can hold"
            )
        # before they are loaded: captures of one must be released even if the next is invalid
        node.bodies = bodies = {}
        for name, source in found.items():
            bodies[name] = Graph(graph.model, parent=graph, owner=node)
            load_graph(bodies[name], source)


def _captures_later(graph: Graph) -> bool:
    for name in graph.captured():
        producer = graph.producer(name)
        if producer is not None and any(
            owner_in(graph, reader).label <= producer.label for reader in graph.captures(name)
        ):
            return True
    return False


def _sort(graph: Graph) -> None:
    """Sort the nodes so that each comes after what it reads.

    Otherwise keep the given order (Kahn's algorithm).
    """
    nodes = list(graph.nodes)
    position = {node: index for index, node in enumerate(nodes)}
    sorter = graphlib.TopologicalSorter[int]()
    for index, producer in enumerate(nodes):
        sorter.add(index)
        for reader in (
            reader for name in producer.output if name for reader in readers(graph, name)
        ):
            sorter.add(position[reader], index)
    try:
        sorter.prepare()
    except graphlib.CycleError as error:
        stuck = nodes[min(error.args[1])]
        raise ModelError(
            f"the nodes form a cycle through {stuck.name or stuck.op_type!r}"
        ) from error
    for node in nodes:
        graph.nodes.unlink(node)
    ready: list[int] = []
    while sorter.is_active():
        for index in sorter.get_ready():
            heapq.heappush(ready, index)
        sorter.done(first := heapq.heappop(ready))
        graph.nodes.append(nodes[first])


def _check_names(graph: Graph) -> None:
    for name in graph.undefined():
        reader = graph.consumers(name)[0]
        raise ModelError(
            f"node {reader.name or reader.op_type!r} reads {name!r}, which nothing defines"
        )
    for name in graph.outputs:
        if graph.scope(name) is None:
            raise ModelError(f"graph output {name!r} is not produced by any node")
