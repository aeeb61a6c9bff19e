"""Merge equal nodes, equal constants, and integer results that shapes show to be equal."""

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from typing import Any

from xoptim.facts.operators import lacks_copies
from xoptim.facts.shapes import Info
from xoptim.graph.graph import Graph
from xoptim.graph.node import Node
from xoptim.graph.parts import SAMPLES
from xoptim.graph.redirect import can_redirect, can_rename, redirect
from xoptim.graph.tensors import Tensor
from xoptim.graph.walk import around
from xoptim.operators.registry import is_commutative, is_deterministic
from xoptim.passes.cleanup import GraphPass

_SMALL = 64
"""Bytes up to which constants of subgraphs are compared with those around them."""
_STAYING = frozenset(("Identity", "QuantizeLinear", "DequantizeLinear"))
"""Copies, which runtimes want for the outputs of subgraphs; and quantization, which they fuse with
the node next to it.
"""
Seen = dict[object, list[Node]]
"""Nodes by operator and operands."""


class MergeInitializers(GraphPass):
    """Keeps one of several initializers with the same type, shape and bits.

    External ones are equal where their places are; they are read, once and in parts, only where
    samples are equal too.
    """

    title = "merge_initializers"

    def run_on(self, graph: Graph) -> int:
        """Merge the initializers of a graph; returns the number of initializers removed."""
        names = (name for name in graph.initializers if name not in graph.overridable)
        groups = _grouped(names, lambda t: (t.dtype, t.shape), graph)
        return sum(
            _merge_equal(graph, part) for alike in groups for part in _equal_samples(graph, alike)
        )


def _grouped(
    names: Iterable[str], key: Callable[[Tensor], object], graph: Graph
) -> list[list[str]]:
    """The initializers that have a key in common with another one, by this key."""
    groups: dict[object, list[str]] = {}
    for name in names:
        groups.setdefault(key(graph.initializers[name]), []).append(name)
    return [alike for alike in groups.values() if len(alike) > 1]


def _equal_samples(graph: Graph, names: list[str]) -> list[list[str]]:
    """Tensors of one type and shape in parts, each with equal samples: all bytes are compared only
    within a part.
    """
    parts = [names]
    for number in range(SAMPLES) if graph.initializers[names[0]].is_sampled else ():
        parts = [
            part
            for alike in parts
            for part in _grouped(alike, partial(Tensor.sample, number=number), graph)
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
        kept = first.setdefault(
            graph.initializers[name].digest() if is_hashed else keys[name], name
        )
        if kept != name and not graph.is_output(name) and can_rename(graph, name, kept):
            graph.rename(name, kept)
            graph.remove_initializer(name)
            count += 1
    return count


class MergeNodes(GraphPass):
    """Keeps the first of several equal nodes (common subexpressions).

    Operands of commutative operators may be in either order. Integer results whose elements are
    known to be equal expressions of the model's dimensions are equal, whichever operators compute
    them. Where both nodes give an output of the graph, the second one becomes a copy of the first,
    and what reads it reads the first. A node of a subgraph that is equal to a node before the
    subgraph gives way to it.
    """

    title = "merge_nodes"

    def run_on(self, graph: Graph) -> int:
        """Merge the nodes of a graph in one sweep, and remove unused ones.

        Returns the number of nodes merged and removed.
        """
        return self._merge(graph) + graph.sweep()

    def _merge(self, graph: Graph) -> int:
        seen: Seen = {}
        values: dict[object, str] = {}
        functions = graph.model.function_operators()
        former: dict[str, str] = {}
        """For outputs of the graph that an earlier node produces now: the name of the same result
        in ``seen``.
        """
        stored = (
            (name, graph.tensor(name)) for name in (graph.initializers if graph.owners() else ())
        )
        constants: dict[object, str] = {
            tensor.key(): name
            for name, tensor in stored
            if tensor is not None and tensor.nbytes <= _SMALL
        }
        count = 0
        for node in graph.nodes:
            if node.bodies:
                count += _merge_inside(graph, node, seen, former, constants)
            if not _is_pure(node, functions):
                continue
            info = graph.known(node.output[0]) if len(node.output) == 1 else None
            if (
                info is not None
                and info.data is not None
                and _merge_value(graph, node, info, values, former)
            ):
                count += 1
                continue
            key = _key(node, node.input, former)
            candidates = seen.get(key)
            if candidates is None:
                seen[key] = [node]
                continue
            twin = _twin(node, candidates)
            names = twin.output if twin is not None else ()
            if twin is not None and _absorb(graph, node, twin):
                pairs = zip(node.output, names, strict=False)
                former.update(
                    (old, former.get(new, new)) for old, new in pairs if graph.is_output(old)
                )
                count += 1
            elif twin is not None and _copy(graph, node, twin):
                count += 1
            else:
                candidates.append(node)
        return count


def _is_pure(node: Node, functions: Collection[tuple[str, str]]) -> bool:
    """Whether a node computes the same from the same operands.

    Calls of functions are excluded: their bodies may not.
    """
    if node.bodies or not node.input or not is_deterministic(node.op_type, node.domain):
        return False
    return not functions or (node.domain, node.op_type) not in functions


def _key(
    node: Node, inputs: tuple[str, ...], former: Mapping[str, str]
) -> tuple[str, str, tuple[str, ...]]:
    """The same for all nodes with the operator and the operands of a node."""
    if former:
        inputs = tuple(former.get(name, name) for name in inputs)
    while inputs and not inputs[-1]:  # an optional operand may be omitted, or be empty
        inputs = inputs[:-1]
    if len(inputs) == 2 and inputs[0] > inputs[1] and is_commutative(node.op_type, node.domain):
        inputs = (inputs[1], inputs[0])
    return node.op_type, node.domain, inputs


def _twin(node: Node, candidates: Iterable[Node]) -> Node | None:
    """The first node that computes the results of a node."""
    return next(
        (c for c in candidates if c.same_attributes(node) and len(c.output) >= len(node.output)),
        None,
    )


def _merge_inside(
    graph: Graph,
    owner: Node,
    seen: Seen,
    former: Mapping[str, str],
    constants: Mapping[object, str],
) -> int:
    """Make the subgraphs of a node read results of the graph in place of nodes that compute the
    same.

    ``owner`` is a node of the graph or of a subgraph; ``seen`` are the nodes of the graph before
    it, by operator and operands; ``constants`` are names of small constants of the graph, by value.
    Returns the number of nodes that are not computed any more.
    """
    count = 0
    functions = graph.model.function_operators()
    for body in owner.bodies.values():
        for node in body.nodes:
            count += _merge_inside(graph, node, seen, former, constants) if node.bodies else 0
            if not _is_pure(node, functions) or node.op_type in _STAYING:
                continue
            outside = [_name_outside(graph, body, name, constants) for name in node.input]
            inputs = tuple(name for name in outside if name is not None)
            twin = (
                _twin(node, seen.get(_key(node, inputs, former), ()))
                if len(inputs) == len(outside)
                else None
            )
            if twin is None or not graph.is_node_needed(twin):
                continue
            if all(body.scope(name) is graph for name in twin.output if name):
                count += _absorb(body, node, twin) or _copy(body, node, twin)
        body.sweep()
    return count


def _name_outside(
    graph: Graph, body: Graph, name: str, constants: Mapping[object, str]
) -> str | None:
    """The name in a graph, or around it, of an operand of a node of a subgraph.

    ``None`` for what the subgraph computes.
    """
    scope = body.scope(name) if name else graph
    if scope is graph or scope is None or scope in around(graph):
        return name
    tensor = scope.initializers.get(name)
    return constants.get(tensor.key()) if tensor is not None and tensor.nbytes <= _SMALL else None


def _merge_value(
    graph: Graph, node: Node, info: Info, values: dict[object, str], former: dict[str, str]
) -> bool:
    """Replace the result of a node, whose elements are known, by an earlier result with the same
    elements.
    """
    if info.shape is None:
        return False
    key: Any = (info.dtype, len(info.shape), info.data)
    kept = values.setdefault(key, node.output[0])
    if kept == node.output[0] or not graph.defines(kept):
        values[key] = node.output[0]
        return False
    if not _redirect(graph, node, ((node.output[0], kept),)):
        return False
    if not graph.defines(kept):
        values[key] = node.output[0]
        former[node.output[0]] = former.get(kept, kept)
    return True


def _absorb(graph: Graph, node: Node, twin: Node) -> bool:
    pairs = [(old, new) for old, new in zip(node.output, twin.output, strict=False) if old]
    if any(not new for old, new in pairs if graph.is_needed(old)):
        return False
    return _redirect(graph, node, tuple((old, new) for old, new in pairs if new))


def _copy(graph: Graph, node: Node, twin: Node) -> bool:
    """Replace a node by one Identity, where one of its results is an output that an equal node
    gives under another name.
    """
    pairs = [
        (old, new)
        for old, new in zip(node.output, twin.output, strict=False)
        if old and graph.is_needed(old)
    ]
    ends = [(old, new) for old, new in pairs if graph.is_output(old)]
    if (
        node.op_type == "Identity"
        or len(ends) != 1
        or not all(new and can_rename(graph, old, new) for old, new in pairs)
    ):
        return False
    ((old, new),) = ends
    info, place = graph.info_of(old), node.previous
    # older versions of Identity take tensors only
    if not info.is_tensor or lacks_copies(info.dtype, graph.opsets.get("", 0)):
        return False
    for former, name in pairs:
        graph.rename(former, name)
    graph.remove(node)
    copy = Node("Identity", [new], [old], name=node.name, doc_string=node.remark)
    copy.metadata = node.metadata_props()
    graph.insert(copy, place)
    graph.learn(old, info)
    graph.learn_constness(copy)
    return True


def _redirect(graph: Graph, node: Node, pairs: tuple[tuple[str, str], ...]) -> bool:
    """Redirect the readers of all results of a node, and remove the node."""
    if not all(can_redirect(graph, old, new) for old, new in pairs):
        return False
    for old, new in pairs:
        redirect(graph, old, new)
    if node.graph is graph:
        graph.remove(node)
    return True
