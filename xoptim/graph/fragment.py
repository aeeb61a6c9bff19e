"""Extract nodes of a graph, or both sides of a rewrite, as models that can run."""

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import onnx
from onnx import TensorProto

from xoptim.facts.dims import Dim, SymbolicDim, named, substitute
from xoptim.facts.protos import FUNCTIONS_SINCE, UNLISTED_SINCE
from xoptim.facts.shapes import UNKNOWN
from xoptim.graph.constants import constant_array
from xoptim.graph.export import export_function, export_node, value_info
from xoptim.graph.graph import Graph
from xoptim.graph.node import LOCAL, Node
from xoptim.graph.tensors import Tensor
from xoptim.graph.walk import all_nodes, around, is_read_beyond, reads
from xoptim.operators.inference.types import info_to_type_proto
from xoptim.operators.inference.values import INTEGERS

_MAX_BYTES = 1 << 20
NEW_SIZE: Final = "unk__"
"""First characters of the names that fragments give to dimensions."""
_ANONYMOUS: Final = re.compile(r"\?\d+")


def fragment(
    graph: Graph, nodes: Sequence[Node], results: Sequence[str], *, largest: int = _MAX_BYTES
) -> onnx.ModelProto:
    """A model of some nodes, in any order, that are or were in a graph; its outputs are
    ``results``.

    Results that the nodes read from elsewhere are inputs of the model, with their known types and
    shapes; constants of up to ``largest`` bytes are stored in it. Local functions that the nodes
    call are included.
    """
    ordered = sorted(nodes, key=lambda node: node.label)
    produced = {name for node in ordered for name in node.output}
    proto = onnx.GraphProto(name="fragment")
    proto.node.extend(map(export_node, ordered))
    for name in dict.fromkeys(
        name for node in ordered for name in reads(node) if name not in produced
    ):
        tensor = graph.tensor(name)
        if tensor is not None and tensor.nbytes <= largest and tensor.is_readable():
            proto.initializer.append(tensor_proto(name, tensor))
        else:
            proto.input.append(value_info(name, graph.info_of(name)))
    proto.output.extend(value_info(name, graph.info_of(name)) for name in results)
    return model_of(graph, proto, ordered)


def model_of(graph: Graph, proto: onnx.GraphProto, nodes: Sequence[Node]) -> onnx.ModelProto:
    """A model of a graph protobuf made of copies of ``nodes``, with the operator sets and local
    functions that they need.
    """
    model = graph.model
    opsets = {
        "": model.opsets.get("", 1),
        **graph.opsets,
        **{
            node.domain: 1
            for node in nodes
            if node.domain not in graph.opsets and not node.domain.endswith(LOCAL)
        },
    }
    imports = [onnx.helper.make_opsetid(domain, version) for domain, version in opsets.items()]
    functions = called_functions(graph, nodes)
    version = max(model.ir_version, FUNCTIONS_SINCE if functions else UNLISTED_SINCE)
    return onnx.helper.make_model(
        proto, opset_imports=imports, ir_version=version, functions=functions
    )


def called_functions(graph: Graph, nodes: Sequence[Node]) -> list[onnx.FunctionProto]:
    """Local functions that the nodes call, directly or through other functions."""
    functions = {function.key: function for function in graph.model.functions}
    if not functions:
        return []
    pending = list(all_nodes(nodes))
    called = {}
    while pending:
        node = pending.pop()
        function = functions.get((node.domain, node.op_type, node.overload))
        if function is not None and function.key not in called:
            called[function.key] = function
            pending += all_nodes(function.body.nodes)
    return [export_function(function) for key, function in functions.items() if key in called]


_MAX_STORED_BYTES = 1 << 20
"""Maximal number of bytes of a constant that is stored in the models.

A larger constant is an input of both models, if both read it.
"""
_MAX_CONTEXT = 100
"""Maximal number of nodes that are added around a match."""
_MAX_ONE_SIDED = 24
"""Maximal number of added nodes that compute what only one side reads."""


@dataclass(slots=True)
class _Fragment:
    """One of the two models under construction.

    ``nodes`` can run in their order once the fragment is complete; ``produced`` are their results,
    ``reads`` what they and their subgraphs read from outside, in order.
    """

    nodes: list[Node]
    produced: set[str] = field(default_factory=set)
    reads: dict[str, None] = field(default_factory=dict)

    def update(self) -> None:
        """Update ``produced`` and ``reads``."""
        self.produced = {name for node in self.nodes for name in node.output if name}
        self.reads = {
            name: None for node in self.nodes for name in reads(node) if name not in self.produced
        }

    def prepend(self, node: Node) -> None:
        """Add a node before all others, to a fragment that is up to date."""
        self.nodes.insert(0, node)
        self.produced.update(name for name in node.output if name)
        names = dict.fromkeys((*reads(node), *self.reads))
        self.reads = {name: None for name in names if name not in self.produced}


def side_by_side(
    graph: Graph,
    matched: Sequence[Node],
    replacement: Sequence[Node],
    *,
    declares_all: bool = True,
) -> tuple[onnx.ModelProto, onnx.ModelProto]:
    """The matched nodes of a rewrite and their replacement, as two models with the same inputs and
    outputs.

    Results that the nodes read are inputs, with their types and shapes, with two exceptions: small
    constants are stored, and for small integers that are computed from shapes, the nodes that
    compute them are added. Subgraphs and the local functions that are called are included.

    The graph is the one after the rewrite. Both ``matched`` and ``replacement`` are in order, and
    include nodes that stay. With ``declares_all``, the types of all results are written, not only
    those of inputs and outputs.
    """
    fragments = _Fragment(list(matched)), _Fragment(list(replacement))
    stored = _complete(graph, fragments)
    before, after = fragments
    constants = {name for name in (*before.reads, *after.reads) if name in stored}
    one_sided = (before.reads.keys() ^ after.reads.keys()) & constants
    # A constant that a pattern computed from others can be compared only if the others are stored.
    initializers = {
        name for name in constants if one_sided or stored[name].nbytes <= _MAX_STORED_BYTES
    }
    inputs = dict.fromkeys(
        name for name in (*before.reads, *after.reads) if name not in initializers
    )
    results = _shared_results(graph, matched, replacement)
    types = _Types(graph)
    models = []
    for fragment in fragments:
        body = onnx.GraphProto(name="fragment", node=map(export_node, fragment.nodes))
        body.initializer.extend(
            tensor_proto(name, stored[name]) for name in fragment.reads if name in initializers
        )
        body.input.extend(map(types.declare, inputs))
        body.output.extend(map(types.declare, results))
        body.value_info.extend(
            types.declare(name)
            for name in sorted(fragment.produced - set(results) if declares_all else ())
            if graph.info_of(name) != UNKNOWN
        )
        models.append(model_of(graph, body, fragment.nodes))
    return models[0], models[1]


def _shared_results(
    graph: Graph, matched: Sequence[Node], replacement: Sequence[Node]
) -> list[str]:
    """The results of both sides, except those of unknown type that nothing else reads."""
    produced = {name for node in replacement for name in node.output}
    names = [name for node in matched for name in node.output if name and name in produced]
    return [
        name
        for name in names
        if graph.info_of(name) != UNKNOWN or is_read_beyond(graph, name, replacement)
    ]


def _complete(graph: Graph, fragments: tuple[_Fragment, _Fragment]) -> dict[str, Tensor]:
    """Add producers to both fragments and sort their nodes; returns the constants that they read.

    Producers of two kinds of results are added: integers, and results that only one fragment reads,
    such as a Concat whose operand the replacement reads.
    """
    stored: dict[str, Tensor | None] = {}
    before, after = _update(graph, fragments, stored)
    # Results that only one side reads are computed: as separate inputs, they could contradict the
    # other side.
    one_sided = {name for name in before.keys() ^ after.keys() if stored[name] is None}
    two_sided = not one_sided <= before.keys() and not one_sided <= after.keys()
    joining_names, context = set(one_sided), _Fragment([])
    for _ in range(_MAX_CONTEXT):
        before, after = fragments[0].reads, fragments[1].reads
        # If each side reads results that the other does not, producers are added until the added
        # nodes produce or read all of them.
        is_joined = two_sided and one_sided <= context.produced | context.reads.keys()
        adds_between = not is_joined and len(context.nodes) < (
            _MAX_CONTEXT if two_sided else _MAX_ONE_SIDED
        )
        # Integers may be sizes or positions, for which random numbers would be invalid.
        open_names = [name for name in (*before, *after) if stored[name] is None]
        names = [
            name
            for name in open_names
            if (name in joining_names and adds_between) or graph.info_of(name).dtype in INTEGERS
        ]
        producers = [
            (place, node)
            for place, node in (_producer(graph, name) for name in names)
            if node is not None
        ]
        if not producers:
            break
        producer = max(producers, key=lambda pair: pair[0])[1]
        if not joining_names.isdisjoint(producer.output):
            joining_names.update(producer.input)
        for fragment in (*fragments, context):
            fragment.prepend(producer)
            _store(graph, fragment, stored)
    for fragment in fragments:
        fragment.nodes = _sorted(fragment.nodes)
    _update(graph, fragments, stored)
    return {name: tensor for name, tensor in stored.items() if tensor is not None}


def _update(
    graph: Graph, fragments: tuple[_Fragment, _Fragment], stored: dict[str, Tensor | None]
) -> tuple[dict[str, None], dict[str, None]]:
    """The results that each fragment reads; ``stored`` gets the constants among them."""
    for fragment in fragments:
        fragment.update()
        _store(graph, fragment, stored)
    return fragments[0].reads, fragments[1].reads


def _store(graph: Graph, fragment: _Fragment, stored: dict[str, Tensor | None]) -> None:
    """Add the results that a fragment reads to ``stored``: constants, and ``None`` for others."""
    stored.update((name, _constant(graph, name)) for name in fragment.reads if name not in stored)


def _producer(graph: Graph, name: str) -> tuple[tuple[int, int], Node | None]:
    """The sort key of a result's producer (inner graphs after outer ones), and the producer
    (``None`` if it has subgraphs).
    """
    scope = graph.scope(name)
    node = None if scope is None else scope.producer(name)
    depth = 0 if scope is None else 1 + len(list(around(scope)))
    return (depth, 0 if node is None else node.label), None if node is None or node.bodies else node


def _constant(graph: Graph, name: str) -> Tensor | None:
    tensor = graph.tensor(name)
    if tensor is not None:
        return tensor
    array = constant_array(graph, name)
    return None if array is None or array.nbytes > _MAX_STORED_BYTES else Tensor.from_array(array)


def _sorted(nodes: Sequence[Node]) -> list[Node]:
    """The nodes in an order in which they can run, close to the given order."""
    producers = {name: node for node in nodes for name in node.output if name}
    done: dict[Node, None] = {}
    for root in nodes:
        stack = [root]
        while stack:
            node = stack[-1]
            missing = [
                p
                for name in reads(node)
                if (p := producers.get(name)) is not None and p not in done and p is not node
            ]
            if missing and not any(p in stack for p in missing):
                stack += reversed(missing)
            else:
                done[stack.pop()] = None
    return list(done)


def tensor_proto(name: str, tensor: Tensor) -> TensorProto:
    """The protobuf of a constant with its data inside."""
    if not tensor.is_external:
        return tensor.to_proto(name)
    return TensorProto(
        name=name, data_type=tensor.dtype, dims=tensor.shape, raw_data=tensor.to_raw()
    )


class _Types:
    """Declares results; anonymous dimensions are named, so that equal ones stay equal."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._names: dict[str, SymbolicDim] = {}
        self._new: dict[str, str] = {}
        self._numbers = itertools.count()
        self._assumed = " ".join(graph.model.assumptions.texts)

    def declare(self, name: str) -> onnx.ValueInfoProto:
        """The declaration of a result."""
        proto = onnx.ValueInfoProto(name=name)
        info = self._graph.info_of(name)
        if info.shape is not None:
            info = replace(info, shape=tuple(map(self._unambiguous, info.shape)))
        proto.type.CopyFrom(info_to_type_proto(info, self._names))
        for dim in proto.type.tensor_type.shape.dim:
            if dim.dim_param:
                dim.dim_param = self._plain(dim.dim_param)
        return proto

    def _unambiguous(self, size: Dim) -> Dim:
        """A dimension without names that a dimension without a name may have as well."""
        if isinstance(size, int):
            return size
        names = [n for n in size.symbols if _is_ambiguous(n) and n not in self._assumed]
        return substitute(size, {name: named(self._fresh(name)) for name in sorted(names)})

    def _plain(self, text: str) -> str:
        """A dimension as a text that verification can evaluate: sums, products and quotients of
        named sizes.
        """
        if re.search(r"[%']|(max|min|broadcast)\(", text):
            return self._fresh(text)
        return _ANONYMOUS.sub(lambda match: self._fresh(match[0]), text)

    def _fresh(self, text: str) -> str:
        if text not in self._new:
            names = (f"{NEW_SIZE}{number}" for number in self._numbers)
            self._new[text] = next(name for name in names if name not in self._assumed)
        return self._new[text]


def _is_ambiguous(name: str) -> bool:
    """Whether a dimension without a name may be written like one of this name."""
    return name.startswith((NEW_SIZE, "?")) and not _ANONYMOUS.fullmatch(name)
