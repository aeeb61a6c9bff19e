"""Let the readers of one result read another one of the same value."""

from __future__ import annotations

from collections.abc import Iterator

from xoptim.facts.errors import RewriteError
from xoptim.graph.graph import Graph
from xoptim.graph.load import owner_in
from xoptim.graph.node import Node
from xoptim.graph.propagate import check_results, refine, refresh


def redirect(graph: Graph, old: str, new: str) -> None:
    """Make everything that reads ``old`` read ``new``. Whatever computed ``old`` stays, though nothing may need it any more.

    An output of the graph keeps its name: it becomes a copy of ``new``, made by an Identity. What computes ``new`` may stand
    behind the readers of ``old``; it is moved before them then.

    Args:
        graph: the graph that defines ``old``.
        old: a result.
        new: a result that is visible in the graph and does not depend on ``old``.

    Raises:
        RewriteError: when a name is not defined, the types or shapes contradict each other, nodes would form a cycle, or a
            name must stay as it is. The graph is then as it was.
    """
    if old == new:
        return
    scope = graph.scope(new)
    if scope is None or not graph.defines(old):
        raise RewriteError(f"{new if scope is None else old!r} is not defined here")
    check_results(graph, [old], [graph.info_of(new)])
    if not graph.can_rename(old, new):
        raise RewriteError(f"{old!r} cannot be replaced by {new!r}: something other than nodes refers to it, or hides {new!r}")
    maker = graph.producer(old)
    if graph.is_output(old) and maker is None:
        raise RewriteError(f"{old!r} is both given and an output of the graph: it stands for itself")
    if _is_computed_ahead(graph, old) and not _is_computed_ahead(graph, new):
        raise RewriteError(f"the constant {old!r} cannot be replaced by {new!r}, which is computed at run time")
    if scope is not graph:
        _check_visible(graph, scope, new)
    _move_before_readers(graph, old, new)
    known = refine(graph.info_of(new), graph.info_of(old))
    if known is not graph.info_of(new) and scope is graph:
        graph.infos[new] = known
    readers = graph.consumers(old)
    graph.rename(old, new)
    if graph.is_output(old) and maker is not None:
        graph.rename_output(maker, old, graph.model.names.fresh(f"{old}_before"))
        copy = Node("Identity", [new], [old], name=graph.model.fresh_node_name("Identity"))
        producer = graph.producer(new)
        graph.insert(copy, producer if producer is not None and producer.label > maker.label else maker)
        graph.suspect([maker])
        readers.append(copy)
    refresh(graph, readers)


def _is_computed_ahead(graph: Graph, name: str) -> bool:
    """Whether a result is stored, or depends on what is stored only."""
    scope = graph.scope(name)
    return graph.tensor(name) is not None or (scope is not None and name in scope.computed_constants)


def _check_visible(graph: Graph, scope: Graph, name: str) -> None:
    """Make sure that a result of an enclosing graph is computed before the node that contains this one."""
    producer = scope.producer(name)
    assert graph.owner is not None
    if producer is not None and producer.label >= owner_in(scope, graph.owner).label:
        raise RewriteError(f"{name!r} is computed behind the subgraph that would read it")


def _move_before_readers(graph: Graph, old: str, new: str) -> None:
    """Move what computes ``new``, and what that needs, before the first reader of ``old``."""
    producer = graph.producer(new)
    readers = {*graph.consumers(old), *(owner_in(graph, node) for node in graph.captures(old))}
    if producer is None or not readers:
        return
    first = min(readers, key=lambda node: node.label)
    if producer.label < first.label:
        return
    region: dict[Node, None] = {producer: None}
    pending = [producer]
    while pending:
        node = pending.pop()
        if node in readers:
            raise RewriteError(f"{new!r} depends on {old!r}, which it is to replace")
        for name in _reads(graph, node):
            before = graph.producer(name)
            if before is not None and before.label >= first.label and before not in region:
                region[before] = None
                pending.append(before)
    for node in sorted(region, key=lambda node: node.label):
        graph.nodes.unlink(node)
        graph.nodes.insert_after(first.previous, node)


def _reads(graph: Graph, node: Node) -> Iterator[str]:
    """What a node reads, in its subgraphs too."""
    yield from filter(None, node.input)
    for body in node.bodies.values():
        for inner in body.all_graphs():
            for name in (*inner.outputs, *(name for n in inner.nodes for name in n.input if name)):
                if inner.scope(name) is graph:
                    yield name
