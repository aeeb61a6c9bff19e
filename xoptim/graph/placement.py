"""Where the new nodes of a rewrite go in the order of a graph, and which nodes must move for them."""

from collections.abc import Collection, Sequence

from xoptim.facts.errors import Declined
from xoptim.graph.graph import Graph
from xoptim.graph.node import Node
from xoptim.graph.walk import readers, reads


def find_places(
    graph: Graph, gone: Collection[Node], new: Sequence[Node], insert_at: Node | None = None
) -> tuple[list[Node | None], list[Node]]:
    """For each new node the node after which it goes (``None``: at the beginning), and the nodes that must move first.

    New nodes, given in order, stay together if they can, at ``insert_at`` or else where the last removed node is. Otherwise
    each goes directly after its operands: a rewrite may change nodes on both sides of nodes that stay. The graph still
    contains the nodes that are ``gone``. Raises Declined when the nodes would form a cycle.
    """
    try:
        place, region = find_place(graph, gone, new, insert_at)
    except Declined:
        return _behind_operands(graph, gone, new), []
    return [place, *new][: len(new)], region


def _behind_operands(graph: Graph, gone: Collection[Node], new: Sequence[Node]) -> list[Node | None]:
    places: list[Node | None] = []
    follows: dict[str, Node | None] = {}
    """For each new result the node that stays and that its producer comes after."""
    last: dict[Node | None, Node] = {}
    for node in new:
        operands = [follows[name] if name in follows else graph.producer(name) for name in reads(node)]
        anchor = max(filter(None, operands), key=lambda n: n.label, default=None)
        staying = (reader for name in node.output if name for reader in readers(graph, name) if reader not in gone)
        if anchor is not None and any(reader.label <= anchor.label for reader in staying):
            raise Declined("the new nodes would form a cycle with the ones that stay")
        places.append(last.get(anchor, anchor))
        last[anchor] = node
        follows.update(dict.fromkeys(node.output, anchor))
    return places


def find_place(
    graph: Graph, gone: Collection[Node], new: Sequence[Node], insert_at: Node | None = None
) -> tuple[Node | None, list[Node]]:
    """As `find_places`, for new nodes that stay together; the first of the results is one place."""
    produced = dict.fromkeys(name for node in new for name in node.output if name)
    producers = (graph.producer(name) for node in new for name in reads(node) if name not in produced)
    before = max(filter(None, producers), key=lambda node: node.label, default=None)
    later = dict.fromkeys(node for name in produced for node in readers(graph, name) if node not in gone)
    limit = min((reader.label for reader in later), default=None)
    preferred = insert_at if insert_at is not None and insert_at.graph is graph else None
    for candidate in (preferred, max(gone, key=lambda n: n.label, default=None)):
        if (
            candidate is not None
            and (before is None or before.label <= candidate.label)
            and (limit is None or candidate.label < limit or (candidate.label == limit and before is not candidate))
        ):
            place = candidate if before is candidate else candidate.previous
            while place is not None and place in gone:
                place = place.previous
            return place, []
    if before is None or limit is None or limit > before.label:
        return before, []
    return before, _region(graph, before, [reader for reader in later if reader.label <= before.label], new)


def _region(graph: Graph, place: Node, first: Sequence[Node], new: Sequence[Node]) -> list[Node]:
    """The readers in ``first``, and the readers of their results, that precede ``place``.

    This is the affected region of Pearce and Kelly, *A Dynamic Topological Sort Algorithm for Directed Acyclic Graphs* (2006).
    """
    needed = {graph.producer(name) for node in new for name in reads(node)}
    region: dict[Node, None] = dict.fromkeys(first)
    pending = list(first)
    while pending:
        node = pending.pop()
        if node in needed:
            raise Declined("the new nodes would form a cycle with the ones that stay")
        for follower in (each for name in node.output for each in readers(graph, name)):
            if follower.label <= place.label and follower not in region:
                region[follower] = None
                pending.append(follower)
    return list(region)
