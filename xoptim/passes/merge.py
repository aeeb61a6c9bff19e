"""Merge equal nodes, equal constants, and integer results whose inferred elements are equal."""

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from typing import Any

from xoptim.facts.operators import lacks_identity_kernel
from xoptim.facts.schema import has_variadic_results
from xoptim.facts.shapes import Info
from xoptim.graph.graph import Graph
from xoptim.graph.node import Node
from xoptim.graph.parts import SAMPLES
from xoptim.graph.propagate import refresh
from xoptim.graph.redirect import can_redirect, can_rename, outdated_consumers, redirect
from xoptim.graph.tensors import Tensor
from xoptim.graph.walk import around
from xoptim.operators.registry import Trait, is_commutative, is_deterministic, operators_with
from xoptim.passes.cleanup import GraphPass

_MAX_CONSTANT_BYTES = 64
"""Constants of subgraphs up to this size are compared with those of outer graphs."""
_UNMERGED_OPERATORS = frozenset(("Identity", "QuantizeLinear", "DequantizeLinear"))
"""Not merged with nodes of outer graphs: runtimes want copies for the outputs of subgraphs, and
fuse quantization with adjacent nodes.
"""
_TRAINING = frozenset(("BatchNormalization",))
"""Operators that train if they have more results: the first result is another one then."""
_RANDOM = operators_with(Trait.RANDOM)
NodeIndex = dict[object, list[Node]]
"""Nodes by operator and operands."""


class MergeInitializers(GraphPass):
    """Keeps one of several initializers with the same type, shape and bits.

    External initializers are equal if their files and offsets are equal. Otherwise, they are read,
    once and in chunks, only if samples are equal.
    """

    title = "merge_initializers"

    def run_on(self, graph: Graph) -> int:
        """Merge the initializers of a graph; returns the number of initializers removed."""
        names = (name for name in graph.initializers if name not in graph.overridable)
        groups = _grouped(names, lambda t: (t.dtype, t.shape), graph)
        return sum(
            _merge_equal(graph, part) for group in groups for part in _equal_samples(graph, group)
        )


def _grouped(
    names: Iterable[str], key: Callable[[Tensor], object], graph: Graph
) -> list[list[str]]:
    groups: dict[object, list[str]] = {}
    for name in names:
        groups.setdefault(key(graph.initializers[name]), []).append(name)
    return [group for group in groups.values() if len(group) > 1]


def _equal_samples(graph: Graph, names: list[str]) -> list[list[str]]:
    """Split tensors of one type and shape into groups with equal samples."""
    parts = [names]
    for number in range(SAMPLES) if graph.initializers[names[0]].is_sampled else ():
        parts = [
            part
            for group in parts
            for part in _grouped(group, partial(Tensor.sample, number=number), graph)
        ]
    return parts


def _merge_equal(graph: Graph, names: list[str]) -> int:
    """Merge tensors of one type, shape and sample."""
    count = 0
    first: dict[object, str] = {}
    tensors = [graph.initializers[name] for name in names]
    keys = {name: tensor.key() for name, tensor in zip(names, tensors, strict=True)}
    is_hashed = (
        len(set(keys.values())) > 1
        and any(t.is_external for t in tensors)
        and all(t.is_readable() for t in tensors)
    )
    for name in names:
        target = first.setdefault(
            graph.initializers[name].digest() if is_hashed else keys[name], name
        )
        if target != name and not graph.is_output(name) and can_rename(graph, name, target):
            graph.rename(name, target)
            graph.remove_initializer(name)
            count += 1
    return count


class MergeNodes(GraphPass):
    """Keeps the first of several equal nodes (common subexpressions).

    Operands of commutative operators may be in either order. Nodes that draw random numbers are
    equal if they have equal seeds. Integer results are also equal if their elements are equal
    expressions of the model's dimensions. If both nodes produce graph outputs, the second one
    becomes an Identity of the first, and its consumers read the first. A node of a subgraph is
    replaced by an equal node that precedes the subgraph.
    """

    title = "merge_nodes"

    def run_on(self, graph: Graph) -> int:
        """Merge the nodes of a graph in one sweep, and remove unused ones.

        Returns the number of nodes merged and removed.
        """
        return self._merge(graph) + graph.sweep()

    def _merge(self, graph: Graph) -> int:
        index: NodeIndex = {}
        values: dict[object, str] = {}
        functions = graph.model.function_operators()
        aliases: dict[str, str] = {}
        """For outputs of the graph that an earlier node produces now: the name of the same result
        in ``index``.
        """
        stored = (
            (name, graph.tensor(name)) for name in (graph.initializers if graph.owners() else ())
        )
        constants: dict[object, str] = {
            tensor.key(): name
            for name, tensor in stored
            if tensor is not None and tensor.nbytes <= _MAX_CONSTANT_BYTES
        }
        count = 0
        for node in graph.nodes:
            if node.bodies:
                count += _merge_inside(graph, node, index, aliases, constants)
            if not _is_pure(node, functions) and not _is_seeded(node):
                continue
            info = graph.known(node.output[0]) if len(node.output) == 1 else None
            if (
                info is not None
                and info.data is not None
                and _merge_value(graph, node, info, values, aliases)
            ):
                count += 1
                continue
            key = _key(node, node.input, aliases)
            candidates = index.get(key)
            if candidates is None:
                index[key] = [node]
                continue
            twin = _twin(node, candidates)
            names = twin.output if twin is not None else ()
            if twin is not None and _absorb(graph, node, twin):
                pairs = zip(node.output, names, strict=False)
                aliases.update(
                    (old, aliases.get(new, new)) for old, new in pairs if graph.is_output(old)
                )
                count += 1
            elif twin is not None and _copy(graph, node, twin):
                count += 1
            else:
                candidates.append(node)
        return count


def _is_pure(node: Node, functions: Collection[tuple[str, str]]) -> bool:
    """Whether a node is deterministic; False for calls of functions, whose bodies may differ."""
    if node.bodies or not node.input or not is_deterministic(node.op_type, node.domain):
        return False
    return not functions or (node.domain, node.op_type) not in functions


def _is_seeded(node: Node) -> bool:
    """Whether a node draws random numbers from a seed of its own.

    Nodes of one graph run equally often, so equal seeds give equal numbers in each run.
    """
    return node.op_type in _RANDOM and not node.domain and node.attribute.get("seed") is not None


def _key(
    node: Node, inputs: tuple[str, ...], aliases: Mapping[str, str]
) -> tuple[str, str, tuple[str, ...]]:
    """The operator and the operands of a node, in a canonical form."""
    if aliases:
        inputs = tuple(aliases.get(name, name) for name in inputs)
    while inputs and not inputs[-1]:  # an optional operand may be omitted, or be empty
        inputs = inputs[:-1]
    if len(inputs) == 2 and inputs[0] > inputs[1] and is_commutative(node.op_type, node.domain):
        inputs = (inputs[1], inputs[0])
    return node.op_type, node.domain, inputs


def _twin(node: Node, candidates: Iterable[Node]) -> Node | None:
    """The first node that computes the results of a node."""
    return next((c for c in candidates if c.same_attributes(node) and _has_results(c, node)), None)


def _has_results(candidate: Node, node: Node) -> bool:
    """Whether an equal node has as many results as a node, or more that do not change the others.

    Before operator set 18, Split cuts an axis into as many parts as it has results.
    """
    if len(candidate.output) == len(node.output):
        return True
    depends_on_count = node.op_type in _TRAINING or has_variadic_results(node.op_type, node.domain)
    return len(candidate.output) > len(node.output) and not depends_on_count


def _merge_inside(
    graph: Graph,
    owner: Node,
    index: NodeIndex,
    aliases: Mapping[str, str],
    constants: Mapping[object, str],
) -> int:
    """Replace nodes in the subgraphs of a node by equal nodes of the graph; returns how many.

    ``owner`` is a node of the graph or of a subgraph, ``index`` has the nodes of the graph that
    precede it, and ``constants`` the names of small constants of the graph by value.
    """
    count = 0
    functions = graph.model.function_operators()
    for body in owner.bodies.values():
        for node in body.nodes:
            count += _merge_inside(graph, node, index, aliases, constants) if node.bodies else 0
            if not _is_pure(node, functions) or node.op_type in _UNMERGED_OPERATORS:
                continue
            names = [_outer_name(graph, body, name, constants) for name in node.input]
            inputs = tuple(name for name in names if name is not None)
            twin = (
                _twin(node, index.get(_key(node, inputs, aliases), ()))
                if len(inputs) == len(names)
                else None
            )
            if twin is None or not graph.is_node_needed(twin):
                continue
            if all(body.scope(name) is graph for name in twin.output if name):
                count += _absorb(body, node, twin) or _copy(body, node, twin)
        body.sweep()
    return count


def _outer_name(
    graph: Graph, body: Graph, name: str, constants: Mapping[object, str]
) -> str | None:
    """The name of a subgraph's operand in a graph or an outer graph, ``None`` if the subgraph
    computes it.
    """
    scope = body.scope(name) if name else graph
    if scope is graph or scope is None or scope in around(graph):
        return name
    tensor = scope.initializers.get(name)
    return (
        constants.get(tensor.key())
        if tensor is not None and tensor.nbytes <= _MAX_CONSTANT_BYTES
        else None
    )


def _merge_value(
    graph: Graph, node: Node, info: Info, values: dict[object, str], aliases: dict[str, str]
) -> bool:
    """Replace a result whose elements are known by an earlier result with equal elements."""
    if info.shape is None:
        return False
    key: Any = (info.dtype, len(info.shape), info.data)
    source = values.setdefault(key, node.output[0])
    if source == node.output[0] or not graph.defines(source):
        values[key] = node.output[0]
        return False
    if not _redirect(graph, node, ((node.output[0], source),)):
        return False
    if not graph.defines(source):
        values[key] = node.output[0]
        aliases[node.output[0]] = aliases.get(source, source)
    return True


def _absorb(graph: Graph, node: Node, twin: Node) -> bool:
    pairs = [(old, new) for old, new in zip(node.output, twin.output, strict=False) if old]
    if any(not new for old, new in pairs if graph.is_needed(old)):
        return False
    return _redirect(graph, node, tuple((old, new) for old, new in pairs if new))


def _copy(graph: Graph, node: Node, twin: Node) -> bool:
    """Replace a node by an Identity of its twin if exactly one needed result is a graph output."""
    pairs = [
        (old, new)
        for old, new in zip(node.output, twin.output, strict=False)
        if old and graph.is_needed(old)
    ]
    outputs = [(old, new) for old, new in pairs if graph.is_output(old)]
    if (
        node.op_type == "Identity"
        or len(outputs) != 1
        or not all(new and can_rename(graph, old, new) for old, new in pairs)
    ):
        return False
    ((old, new),) = outputs
    info, previous = graph.info_of(old), node.previous
    # older versions of Identity take tensors only
    if not info.is_tensor or lacks_identity_kernel(info.dtype, graph.opsets.get("", 0)):
        return False
    consumers = [reader for pair in pairs for reader in outdated_consumers(graph, *pair)]
    for old_name, new_name in pairs:
        graph.rename(old_name, new_name)
    graph.remove(node)
    copy = Node("Identity", [new], [old], name=node.name, doc_string=node.remark)
    copy.metadata = node.metadata_props()
    graph.insert(copy, previous)
    graph.learn(old, info)
    graph.learn_constness(copy)
    refresh(graph, consumers)
    return True


def _redirect(graph: Graph, node: Node, pairs: tuple[tuple[str, str], ...]) -> bool:
    """Redirect the consumers of all results of a node, and remove the node."""
    if not all(can_redirect(graph, old, new) for old, new in pairs):
        return False
    for old, new in pairs:
        redirect(graph, old, new)
    if node.graph is graph:
        graph.remove(node)
    return True
