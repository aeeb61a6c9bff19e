"""Replace some nodes by others: everything is checked first, so that a rewrite is applied whole or not at all."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from onnx import GraphProto

from xoptim.facts.errors import Declined, RewriteError
from xoptim.facts.info import Info
from xoptim.facts.schema import GRAPH_OPERATORS
from xoptim.graph.graph import Graph
from xoptim.graph.load import free_names, load_bodies, owner_in
from xoptim.graph.node import Node
from xoptim.graph.propagate import check_results, infer_node, refine, refresh


def replace(graph: Graph, removed: Sequence[Node], added: Sequence[Node], insert_at: Node | None = None) -> None:
    """Take out ``removed`` and put in ``added``; a node in both stays as it is.

    Args:
        graph: where.
        removed: nodes of the graph.
        added: new nodes in an order in which they can run. They must produce what is still read of the removed ones.
        insert_at: where the new nodes go if possible; by default where the last removed node was.

    Raises:
        RewriteError: when a result would be missing, defined twice, of another type or shape, or nodes would form a cycle.
            The graph is then as it was.
    """
    gone = dict.fromkeys(node for node in removed if node not in added)
    new = [node for node in added if node.graph is None]
    if any(node.graph is not graph for node in removed):
        raise RewriteError("what is to be replaced is not a node of this graph")
    if any(node.graph is not None and node not in removed for node in added):
        raise RewriteError("a replacement contains a node of the graph that was not matched")
    produced = _check_names(graph, gone, new)
    infos = _infer(graph, new)
    place = _place(graph, gone, new, produced, insert_at)
    known = {name: graph.infos.get(name) for name in produced}
    undone: list[tuple[Node, Node | None]] = []
    try:
        for node in gone:
            undone.append((node, node.previous))
            graph.remove(node)
        for node in new:
            graph.insert(node, place)
            place = node
        graph.suspect(new)
        _store(graph, new, infos)
        for node in new:
            if _may_own_graphs(node):
                load_bodies(graph, node)
                refresh(graph, [node])
    except BaseException:
        _undo(graph, undone, new, known)
        raise


def _undo(graph: Graph, gone: Sequence[tuple[Node, Node | None]], new: Sequence[Node], known: dict[str, Info | None]) -> None:
    """Take out what is new, and put back what is gone, each node behind the one that it was behind."""
    for node in new:
        if node.graph is graph:
            graph.remove(node)
    for name, info in known.items():
        graph.infos.pop(name, None)
        if info is not None:
            graph.infos[name] = info
        else:
            graph.computed_constants.discard(name)
    back = [(node, previous) for node, previous in reversed(gone) if node.graph is None]
    for node, previous in back:
        graph.nodes.insert_after(previous, node)
        graph.link(node)
    for node, _ in back:  # only now is everything defined that they read
        graph.connect(node)
        for body in node.bodies.values():
            body.retain()
        for listener in graph.model.listeners:
            listener.inserted(node)


def _may_own_graphs(node: Node) -> bool:
    return bool(node.domain) or node.op_type in GRAPH_OPERATORS


def _reads(node: Node) -> Iterable[str]:
    """What a new node reads, by its subgraphs too."""
    if not _may_own_graphs(node):
        return node.input
    graphs = [value for value in node.attribute.values() if isinstance(value, GraphProto)]
    return (*node.input, *(name for graph in graphs for name in free_names(graph)))


def _is_visible(graph: Graph, name: str) -> bool:
    """Whether a name is defined here, or in an enclosing graph before the node that contains this one."""
    scope = graph.scope(name)
    if scope is None or scope is graph:
        return scope is graph
    producer = scope.producer(name)
    assert graph.owner is not None
    return producer is None or producer.label < owner_in(scope, graph.owner).label


def _check_names(graph: Graph, gone: dict[Node, None], new: Sequence[Node]) -> dict[str, Node]:
    """Make sure that every name that is read is defined, once; return what the new nodes produce."""
    freed = {name for node in gone for name in node.output if name}
    produced: dict[str, Node] = {}
    for node in new:
        for name in _reads(node):
            if name and name not in produced and (name in freed or not _is_visible(graph, name)):
                raise RewriteError(f"a new {node.op_type} reads {name!r}, which nothing defines before it")
        for name in node.output:
            if name:
                if name in produced or (name not in freed and graph.defines(name)):
                    raise RewriteError(f"a new {node.op_type} produces {name!r}, which is already defined")
                produced[name] = node
    for name in freed - produced.keys():
        if graph.is_output(name) or graph.is_captured(name) or any(n not in gone for n in graph.consumers(name)):
            raise RewriteError(f"result {name!r} would disappear although something reads it")
    return produced


def _infer(graph: Graph, new: Sequence[Node]) -> list[list[Info]]:
    """Facts about the results of nodes that are not in the graph yet."""
    infos = graph.infos
    found: list[list[Info]] = []
    provisional: list[str] = []
    try:
        for node in new:
            results = infer_node(graph, node)
            check_results(graph, node.output, results)
            found.append(results)
            for name, info in zip(node.output, results, strict=False):
                if name and name not in infos:
                    infos[name] = info
                    provisional.append(name)
    finally:
        for name in provisional:
            del infos[name]
    return found


def _store(graph: Graph, new: Sequence[Node], found: Sequence[Sequence[Info]]) -> None:
    infos = graph.infos
    learned: list[Node] = []
    for node, results in zip(new, found, strict=True):
        if graph.has_constant_inputs(node):
            graph.computed_constants.update(node.output)
        for name, info in zip(node.output, results, strict=False):
            if not name:
                continue
            old = infos.get(name)
            if old is None:
                infos[name] = info
            elif (better := refine(old, info)) is not old:
                infos[name] = better
                learned.extend(graph.consumers(name))
    if learned:
        refresh(graph, list(dict.fromkeys(learned)))


def _place(
    graph: Graph, gone: dict[Node, None], new: Sequence[Node], produced: dict[str, Node], insert_at: Node | None
) -> Node | None:
    """The node after which the new nodes go (``None``: at the beginning); reorders a few nodes when they must move."""
    before: Node | None = None
    for node in new:
        for name in _reads(node):
            producer = graph.producer(name) if name and name not in produced else None
            if producer is not None and (before is None or producer.label > before.label):
                before = producer
    readers = _readers(graph, gone, produced)
    limit = min((reader.label for reader in readers), default=None)
    preferred = insert_at if insert_at is not None and insert_at.graph is graph else None
    for candidate in (preferred, max(gone, key=lambda n: n.label, default=None)):
        if (
            candidate is not None
            and (before is None or before.label <= candidate.label)
            and (limit is None or candidate.label < limit or (candidate.label == limit and before is not candidate))
        ):
            place: Node | None = candidate
            if before is not candidate:
                place = candidate.previous
            while place is not None and place in gone:
                place = place.previous
            return place
    if before is not None and limit is not None and limit <= before.label:
        _move_after(graph, before, [reader for reader in readers if reader.label <= before.label], new)
    return before


def _readers(graph: Graph, gone: dict[Node, None], produced: dict[str, Node]) -> dict[Node, None]:
    """Nodes of this graph that will read what the new nodes produce, directly or in a subgraph of theirs."""
    readers: dict[Node, None] = {}
    for name in produced:
        for node in graph.consumers(name):
            if node not in gone:
                readers[node] = None
        for node in graph.captures(name):
            owner = owner_in(graph, node)
            if owner not in gone:
                readers[owner] = None
    return readers


def _move_after(graph: Graph, place: Node, readers: Sequence[Node], new: Sequence[Node]) -> None:
    """Move readers, and what reads them, behind ``place`` (the affected region of Pearce and Kelly's dynamic order)."""
    needed = {graph.producer(name) for node in new for name in _reads(node) if name}
    region: dict[Node, None] = dict.fromkeys(readers)
    pending = list(readers)
    while pending:
        node = pending.pop()
        if node in needed:
            raise Declined("the new nodes would form a cycle with the ones that stay")
        for name in node.output:
            owners = [owner_in(graph, n) for n in graph.captures(name)]
            for follower in (*graph.consumers(name), *owners):
                if follower.label <= place.label and follower not in region:
                    region[follower] = None
                    pending.append(follower)
    for node in sorted(region, key=lambda n: n.label):
        graph.nodes.unlink(node)
        graph.nodes.insert_after(place, node)
        place = node
