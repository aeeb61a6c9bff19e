"""Infer the facts about results of nodes and graphs, compare new facts with old ones, and find
constants that a runtime refuses.
"""

import logging
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from copy import deepcopy
from typing import Any, Final

import numpy as np
import onnx

from xoptim.facts.attributes import is_given_by_caller
from xoptim.facts.dims import (
    ALL_SIZES,
    SIZES,
    Dim,
    SymbolicDim,
    before_wrapping,
    fresh,
    is_anonymous,
    lower_bound,
    upper_bound,
)
from xoptim.facts.dtypes import type_name
from xoptim.facts.errors import Declined, MissingWeightsError, RewriteError, XoptimError
from xoptim.facts.protos import with_headroom
from xoptim.facts.shapes import UNKNOWN, Info, Shape
from xoptim.graph.constants import EvaluationView
from xoptim.graph.graph import Graph
from xoptim.graph.node import Node
from xoptim.graph.tensors import Tensor
from xoptim.graph.walk import around, readers, reads
from xoptim.operators.inference.fallback import infer_with_onnx, is_refused
from xoptim.operators.inference.types import type_proto_to_info
from xoptim.operators.inference.values import INTEGERS
from xoptim.operators.registry import operator_of

_MAX_NODES: Final = 16  # nodes of subgraphs that `is_refused_with` checks
_MAX_ELEMENTS: Final = 1024  # elements of a constant that `is_refused_with` reads


def is_refused_with(graph: Graph, values: Mapping[str, Tensor]) -> bool:
    """Whether a runtime would refuse to load the model if nodes read ``values`` as constants in
    place of the results of these names.

    Nodes of the main graph get these values at run time anyway; only a Reshape and a Pad may accept
    them there and refuse them at load. Subgraphs may never run: all readers in them are checked.
    """
    if any(
        _is_unreadable(reader, name, value)
        for name, value in values.items()
        for reader in graph.consumers(name)
    ):
        return True
    pending = dict.fromkeys(_readers(graph, values))
    facts = {name: value.info() for name, value in values.items()} if pending else {}
    for _ in range(_MAX_NODES):
        node = min(pending, key=lambda reader: reader.label, default=None)
        if node is None:
            return False
        del pending[node]
        if node.graph is not None and not node.bodies:
            refused, results = _checked(node.graph, node, facts, values)
            if refused or _is_impossible_resize(node, values):
                return True
            facts |= {
                name: info
                for name, info in zip(node.output, results, strict=False)
                if name and info is not None
            }
            pending |= dict.fromkeys(_readers(node.graph, node.output))
    return False


def _readers(graph: Graph, names: Iterable[str]) -> Iterator[Node]:
    """The nodes of subgraphs that read some results of a graph."""
    for name in names:
        yield from graph.captures(name)
        yield from () if graph.parent is None else graph.consumers(name)


def _is_unreadable(node: Node, name: str, value: Tensor) -> bool:
    """Whether onnxruntime refuses to load a constant operand, but runs a computed one: the shape of
    a Reshape with ``allowzero`` that has both -1 and 0, and 32-bit axes of a Pad.
    """
    if node.op_type == "Pad" and not node.domain and name in node.input[3:]:
        return value.dtype == onnx.TensorProto.INT32
    is_exact_shape = (
        node.op_type == "Reshape"
        and not node.domain
        and node.input[1:] == (name,)  # before operator set 5, the shape is an attribute
        and node.attribute.get("allowzero", 0)
    )
    return bool(is_exact_shape) and {0, -1} <= set(value.numpy().ravel().tolist())


def _is_impossible_resize(node: Node, values: Mapping[str, Tensor]) -> bool:
    """Whether the kernel of a Resize refuses a stored scale or size when the model is loaded."""
    if node.op_type not in ("Resize", "Upsample") or node.domain:
        return False
    numbers = [
        values[name].numpy() for name in node.input[1:] if name in values and values[name].size
    ]
    return any(not (array > 0).all() for array in numbers[-1:])


def _checked(
    graph: Graph, node: Node, facts: Mapping[str, Info], values: Mapping[str, Tensor]
) -> tuple[bool, list[Info | None]]:
    """Whether onnx refuses a node, and the facts about its results."""

    def constant(index: int) -> np.ndarray[Any, Any] | None:
        name = node.input[index]
        tensor = values.get(name) or graph.tensor(name)
        return None if tensor is None or tensor.size > _MAX_ELEMENTS else tensor.numpy()

    inputs = [facts.get(name) or graph.info_of(name) if name else None for name in node.input]
    return is_refused(node.to_proto(), graph.opsets.get(node.domain, 0), inputs, constant)


def _numbers(tensor: Tensor) -> np.ndarray | None:
    """The numbers of a constant, ``None`` where their file is missing: shapes that depend on them
    are then unknown.
    """
    try:
        return tensor.numpy()
    except MissingWeightsError:
        return None


READ_LIMIT = 1 << 16
"""Constants of more bytes than this are not read to infer shapes."""

InferBody = Callable[[Graph, "Sequence[Info | None] | None"], "list[Info]"]


class GraphNodeContext(EvaluationView):
    """The context of a shape formula: `xoptim.operators.protocols.NodeContext` for one node."""

    __slots__ = ("_infer_body", "_names", "_seen_bodies", "graph", "inputs")

    def __init__(self, graph: Graph, node: Node, infer_body: InferBody) -> None:
        super().__init__(node, graph.opsets.get(node.domain, 0))
        self.graph = graph
        info_of = graph.info_of
        self.inputs: Sequence[Info | None] = [
            info_of(name) if name else None for name in node.input
        ]
        self._names = node.input
        self._infer_body = infer_body
        self._seen_bodies: set[str] | None = None

    def input(self, index: int) -> Info | None:
        return self.inputs[index] if index < len(self.inputs) else None

    def constant(self, index: int) -> np.ndarray | None:
        """Value of a constant input, ``None`` when it is not constant or too large to be read for
        its shape.
        """
        if index >= len(self._names) or not self._names[index]:
            return None
        tensor = self.graph.tensor(self._names[index])
        if tensor is None or tensor.nbytes > READ_LIMIT:
            return None
        return _numbers(tensor)

    def data(self, index: int) -> tuple[Dim, ...] | None:
        info = self.input(index)
        return None if info is None or info.dtype not in INTEGERS else info.data

    def ints(self, index: int) -> list[int] | None:
        data = self.data(index)
        if data is not None:
            numbers = [d for d in data if type(d) is int]
            return numbers if len(numbers) == len(data) else None
        value = self.constant(index)
        if value is None or value.dtype.kind not in "iu":
            return None
        return [int(v) for v in value.ravel()]

    def fresh(self, *, nonnegative: bool = True) -> SymbolicDim:
        return fresh(
            nonnegative=nonnegative, limits=SIZES if self.assumes("addressable") else ALL_SIZES
        )

    def assumes(self, word: str) -> bool:
        return self.graph.model.assumptions.has(word)

    def body(self, name: str, inputs: Sequence[Info | None] | None = None) -> list[Info]:
        """Facts about the outputs of a subgraph, empty when there is no such subgraph."""
        body = self.node.bodies.get(name)
        if body is None:
            return []
        if self._seen_bodies is None:
            self._seen_bodies = set()
        self._seen_bodies.add(name)
        return self._infer_body(body, inputs)

    def unseen_bodies(self) -> Mapping[str, Graph]:
        """Subgraphs that no formula has inferred."""
        seen = self._seen_bodies or ()
        return {name: body for name, body in self.node.bodies.items() if name not in seen}


logger = logging.getLogger("xoptim")
_STANDARD = ("", "ai.onnx.ml")


@contextmanager
def quietly() -> Iterator[None]:
    """Silence the warnings about a model that is only read: the optimization logs them once."""
    logger = logging.getLogger("xoptim")
    logger.addFilter(_reject)
    try:
        yield
    finally:
        logger.removeFilter(_reject)


def _reject(_: logging.LogRecord) -> bool:
    return False


def infer_graph(graph: Graph, declared: Mapping[str, onnx.ValueInfoProto] | None = None) -> None:
    """Infer the facts about every result of a graph and of its subgraphs, in order.

    ``declared`` are the model's declarations of results, by name. A declared shape is ignored if it
    may depend on the default of an initializer that a caller may override.
    """
    may_be_overridden = graph.sees_overridable()
    for node in graph.nodes:
        if may_be_overridden:
            graph.learn_dependence(node, reads(node))
        if node.op_type == "Constant" and not node.domain:
            tensor = graph.tensor(node.output[0])
            if tensor is not None:
                graph.learn(node.output[0], tensor.info())
                continue
        results = infer_node(graph, node)
        graph.learn_constness(node)
        for name, info in zip(node.output, results, strict=False):
            if name and declared and name in declared:
                proto = declared[name]
                if may_be_overridden and graph.depends_on_caller(name):
                    info = refine(info, Info(type_proto_to_info(proto.type).dtype))
                elif not contradicts(info, proto):
                    info = _with_declared(info, proto, graph.model.assumed_sizes)
                else:
                    # One stale declaration (a batch size that was made symbolic later) makes all
                    # declarations doubtful.
                    logger.warning(
                        "value_info of %r contradicts the operators; declared shapes are ignored",
                        name,
                    )
                    graph.refutes_declared = True
                    return infer_graph(graph)
            if name:
                graph.learn(name, info)


def declared_values(graph: Graph) -> dict[str, onnx.ValueInfoProto]:
    """The declarations of a model about results: its value infos and its typed outputs.

    Names of output dimensions are dropped: exporters copy whatever the user typed, so equal names
    do not imply equal sizes.
    """
    source = graph.source
    if source is None:
        return {}
    declared = {v.name: v for v in with_headroom(source.value_info)}
    declared.update(
        (v.name, _without_dimension_names(v))
        for v in source.output
        if v.type.WhichOneof("value") is not None
    )
    return declared


def _without_dimension_names(value: onnx.ValueInfoProto) -> onnx.ValueInfoProto:
    if not any(d.dim_param for d in value.type.tensor_type.shape.dim):
        return value
    nameless = deepcopy(value)
    for dim in nameless.type.tensor_type.shape.dim:
        dim.ClearField("dim_param")
    return nameless


def infer_node(graph: Graph, node: Node) -> list[Info]:
    """Facts about each output of a node, from the facts about its inputs; they are not stored."""
    context = GraphNodeContext(graph, node, _infer_body)
    formula = operator_of(node.domain, node.op_type).formula
    if formula is not None:
        try:
            results = formula(context)
        except (XoptimError, MemoryError):
            raise
        except Exception as error:  # a formula may raise anything for an invalid node
            logger.debug("no shape for %r: %s: %s", node, type(error).__name__, error)
            results = ()
    elif node.domain in _STANDARD and not node.bodies and not is_given_by_caller(node.attribute):
        results = infer_with_onnx(node.to_proto(), context.opset, context.inputs, context.constant)
    else:
        results = ()
    for body in context.unseen_bodies().values() if node.bodies else ():
        _infer_body(body, None)
    infos = [info or UNKNOWN for info in results]
    missing = len(node.output) - len(infos)
    return infos + [UNKNOWN] * missing if missing > 0 else infos


def _infer_body(body: Graph, inputs: Sequence[Info | None] | None) -> list[Info]:
    for index, name in enumerate(body.inputs):
        info = inputs[index] if inputs is not None and index < len(inputs) else None
        declared = body.declared_inputs.get(name, UNKNOWN)
        if info is not None and info.shape is not None:
            # A declared shape may be that of the first iteration, or of the first item.
            declared = Info(declared.dtype)
        body.learn(name, declared if info is None or info is UNKNOWN else refine(info, declared))
    infer_graph(body, declared_values(body))
    return [body.info_of(name) for name in body.outputs]


def spread_constness(graph: Graph, nodes: Iterable[Node]) -> None:
    """Record which of these nodes, and of their direct and indirect readers, now depend on
    constants only.
    """
    pending = deque(nodes)
    while pending:
        node = pending.popleft()
        if node.graph is graph and graph.learn_constness(node):
            pending.extend(reader for name in node.output for reader in graph.consumers(name))


def refresh(graph: Graph, nodes: Sequence[Node]) -> None:
    """Infer the facts about the results of nodes, and of their readers as long as new facts are
    found. A node whose subgraph reads a result is a reader: its subgraphs are inferred as well.
    """
    pending = deque(nodes)
    owners = OrderedDict[Node, None]()  # inferred after other nodes that their subgraphs read
    while pending or owners:
        node = pending.popleft() if pending else owners.popitem(last=False)[0]
        if node.graph is not graph:
            continue
        graph.learn_constness(node)
        for name, new in zip(node.output, infer_node(graph, node), strict=False):
            if not name:
                continue
            old = graph.info_of(name)
            info = refine(old, new)
            if info is not old:
                graph.learn(name, info)
                for reader in readers(graph, name):
                    if reader.bodies:
                        owners[reader] = None
                    else:
                        pending.append(reader)


def check_results(graph: Graph, names: Sequence[str], infos: Sequence[Info]) -> None:
    """Check that a replacement gives results of the same types and shapes.

    Raises `RewriteError` when an element type, a rank or a number in a shape differs, and
    `Declined` when two dimensions are different polynomials of the sizes of the model's inputs.
    """
    for name, new in zip(names, infos, strict=False):
        old = graph.known(name) if name else None
        if old is None or not old.is_tensor or not new.is_tensor:
            continue
        if old.dtype and new.dtype and old.dtype != new.dtype:
            raise RewriteError(
                f"result {name!r} would change its type from {type_name(old.dtype)} to "
                f"{type_name(new.dtype)}"
            )
        if old.shape is not None and new.shape is not None:
            _check_shape(graph, name, old.shape, new.shape)


def _check_shape(graph: Graph, name: str, old: Shape, new: Shape) -> None:
    differing = [(x, y) for x, y in zip(old, new, strict=False) if x is not y and x != y]
    if len(old) == len(new) and not differing:
        return
    message = f"result {name!r} would change its shape from {_text(old)} to {_text(new)}"
    if len(old) != len(new) or any(type(x) is int and type(y) is int for x, y in differing):
        raise RewriteError(message)
    sizes = _sizes(graph)
    if any(_is_known(x, sizes) and _is_known(y, sizes) for x, y in differing):
        raise Declined(message)  # correct if callers must pass equal sizes, which is not known


def _is_known(dim: Dim, sizes: Set[str]) -> bool:
    """Whether a dimension is a polynomial of sizes that a caller chooses.

    Minima and the like do not count: ``min(a, b)`` is ``a`` for all callers that must pass two
    inputs of the same size.
    """
    return isinstance(dim, int) or (dim.is_polynomial and dim.symbols <= sizes)


def _sizes(graph: Graph) -> Set[str]:
    """Names of the dimensions of the inputs of the main graph.

    Other declarations may name the same sizes differently.
    """
    *_, root = graph, *around(graph)
    dims = (dim for info in root.declared_inputs.values() for dim in info.shape or ())
    return {
        name
        for dim in dims
        if not isinstance(dim, int) and not dim.is_anonymous
        for name in dim.symbols
    }


def _text(shape: Shape) -> str:
    return "[" + ", ".join(map(str, shape)) + "]"


def refine(old: Info, new: Info) -> Info:
    """The facts in ``old`` and ``new`` together; ``old`` itself when ``new`` adds nothing."""
    if new is old or new is UNKNOWN:
        return old
    if old is UNKNOWN or not old.is_tensor or not new.is_tensor:
        return new if old is UNKNOWN else old
    shape = _refine_shape(old.shape, new.shape)
    data = _refine_shape(old.data, new.data)
    if shape is old.shape and data is old.data and (old.dtype or not new.dtype):
        return old
    return Info(old.dtype or new.dtype, shape, data)


def _refine_shape(old: Shape | None, new: Shape | None) -> Shape | None:
    if old is None or new is None or old is new or len(old) != len(new):
        return new if old is None else old
    merged = tuple(_refine_dim(a, b) for a, b in zip(old, new, strict=True))
    return old if all(a is b for a, b in zip(old, merged, strict=True)) else merged


def _refine_dim(old: Dim, new: Dim) -> Dim:
    if isinstance(old, int) or old is new:
        return old
    if isinstance(new, int):
        return new
    if old.is_anonymous and not new.is_anonymous:
        return new
    # Other operators show that the size does not wrap around: the exact value is more precise.
    if before_wrapping(old) is new:
        return new
    return new if _is_symbol_for(old, new) else old


def _is_symbol_for(old: SymbolicDim, new: SymbolicDim) -> bool:
    """Whether ``old`` is an anonymous symbol, and ``new`` expresses it by earlier symbols, such as
    symbols of an operand.

    Inferring the whole graph again would find this as well.
    """
    if not (old.is_symbol and old.is_anonymous and new.newest < old.newest):
        return False
    low, new_low = lower_bound(old), lower_bound(new)
    # ``old`` stays if it has a lower bound, such as 0, and ``new`` has none or a smaller one.
    return low is None or (new_low is not None and new_low >= low)


def _with_declared(inferred: Info, proto: onnx.ValueInfoProto, sizes: Mapping[str, Dim]) -> Info:
    """The inferred facts, completed by the declared ones."""
    if inferred.dtype and inferred.shape is not None and not any(map(is_anonymous, inferred.shape)):
        return inferred
    declared = type_proto_to_info(proto.type, sizes)
    if inferred is UNKNOWN:
        return declared
    if not inferred.is_tensor or not declared.is_tensor:
        return inferred
    if inferred.shape is not None and declared.shape is not None:
        pairs = zip(inferred.shape, declared.shape, strict=True)
        shape = tuple(i if isinstance(d, int) and not is_anonymous(i) else d for i, d in pairs)
        declared = Info(declared.dtype, shape, declared.data)
    return refine(inferred, declared)


def contradicts(inferred: Info, proto: onnx.ValueInfoProto) -> bool:
    """Whether a declaration differs from the inferred facts, or fixes a size that the inputs leave
    open.

    A dimension that is 1 at most, as in ``x[:1]``, may be declared as 1.
    """
    if not proto.type.HasField("tensor_type") or not inferred.is_tensor:
        return False
    tensor = proto.type.tensor_type
    if tensor.elem_type and inferred.dtype and tensor.elem_type != inferred.dtype:
        return True
    if not tensor.HasField("shape") or inferred.shape is None:
        return False
    if len(tensor.shape.dim) != len(inferred.shape):
        return True
    pairs = zip(tensor.shape.dim, inferred.shape, strict=True)
    sizes = ((d.dim_value, i) for d, i in pairs if d.dim_value > 0 and not is_anonymous(i))
    return not all(size == i or size == upper_bound(i) == 1 for size, i in sizes)
