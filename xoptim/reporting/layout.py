"""The layout of boxes: the layers and positions of everything inside each scope, by igraph's
Sugiyama layout.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from xoptim.facts.lazy import lazy_module
from xoptim.reporting.drawing import Drawing, Scope

if TYPE_CHECKING:
    import igraph
else:
    igraph = lazy_module("igraph")

Item: TypeAlias = tuple[int, int]
"""One of the kinds below, and the number of a node, a scope, a value that enters the scope, or one
that leaves it.
"""
NODE: Final = 0
SCOPE: Final = 1
ENTRY: Final = 2
EXIT: Final = 3

_MAX_SPAN: Final = 24
"""Layers that a routed edge may span; of longer edges, only the ends are drawn."""
_SWEEPS: Final = 24
"""Iterations of the search for an order with few crossings."""


@dataclass(slots=True)
class ScopeBox:
    """The inside of a scope."""

    # kind and number of each thing inside, such as ``(0, 17)`` for node 17
    items: list[Item] = field(default_factory=list)
    # indices of both ends in ``items``, with the numbers of the values of the edge
    edges: dict[tuple[int, int], list[int]] = field(default_factory=dict)
    rows: list[int] = field(default_factory=list)  # layer of each item
    # position of each item within its layer, in units of a box
    columns: list[float] = field(default_factory=list)
    # for each edge, the layers between its ends, each followed by the position there; lines between
    # them are straight
    bends: list[list[float]] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Everything as the page's script reads it: items and edges are arrays, to save space."""
        items = [
            (kind, number, row, round(column, 2))
            for (kind, number), row, column in zip(self.items, self.rows, self.columns, strict=True)
        ]
        edges = [
            (*ends, values, bends)
            for (ends, values), bends in zip(self.edges.items(), self.bends, strict=True)
        ]
        return {"items": items, "edges": edges}


def arrange(drawing: Drawing, scopes: Sequence[Scope]) -> list[ScopeBox]:
    """The insides of the scopes, one for each."""
    boxes = _filled(drawing, scopes)
    for box in boxes:
        _place(box)
    return boxes


def _filled(drawing: Drawing, scopes: Sequence[Scope]) -> list[ScopeBox]:
    """The items of each scope in the order of their first nodes, and the edges between them."""
    homes = {node: number for number, scope in enumerate(scopes) for node in scope.nodes}
    chains = [_chain(scopes, number) for number in range(len(scopes))]
    first: dict[Item, int] = {}
    for node in range(len(drawing.nodes)):
        if node in homes:
            first[NODE, node] = node
            for ancestor in chains[homes[node]]:
                first.setdefault((SCOPE, ancestor), node)
    members: list[list[Item]] = [[] for _ in scopes]
    for number, scope in enumerate(scopes):
        inside: list[Item] = [
            *((NODE, node) for node in scope.nodes),
            *((SCOPE, child) for child in scope.scopes),
        ]
        members[number] = sorted(inside, key=lambda item: first[item])
    wires = _wires(drawing, homes, chains)
    boxes = []
    for number, inside in enumerate(members):
        entries = sorted({end for ends in wires[number] for end in ends[:1] if end[0] == ENTRY})
        exits = sorted({end for ends in wires[number] for end in ends[1:2] if end[0] == EXIT})
        items: list[Item] = [*entries, *inside, *exits]
        places = {item: place for place, item in enumerate(items)}
        box = ScopeBox(items)
        for start, end, value in wires[number]:
            box.edges.setdefault((places[start], places[end]), []).append(value)
        boxes.append(box)
    return boxes


def _chain(scopes: Sequence[Scope], number: int) -> list[int]:
    """A scope and its ancestors, the whole model first."""
    chain: list[int] = []
    while number >= 0:
        chain.append(number)
        number = scopes[number].parent
    return chain[::-1]


Wire: TypeAlias = tuple[Item, Item, int]


def _wires(
    drawing: Drawing, homes: dict[int, int], chains: Sequence[Sequence[int]]
) -> list[dict[Wire, None]]:
    """For each scope, the ends and the value of each edge inside it."""
    wires: list[dict[Wire, None]] = [{} for _ in chains]
    producers = drawing.producers()
    inputs, outputs = set(drawing.inputs), set(drawing.outputs)
    for node, home in homes.items():
        for value in drawing.nodes[node].inputs:
            maker = producers.get(value)
            if maker in homes:
                _connect(
                    wires, chains[homes[maker]], (NODE, maker), chains[home], (NODE, node), value
                )
            elif value in inputs:
                _connect(wires, [0], (ENTRY, value), chains[home], (NODE, node), value)
        for value in outputs.intersection(drawing.nodes[node].outputs):
            _connect(wires, chains[home], (NODE, node), [0], (EXIT, value), value)
    return wires


def _connect(
    wires: list[dict[Wire, None]],
    start: Sequence[int],
    maker: Item,
    end: Sequence[int],
    reader: Item,
    value: int,
) -> None:
    """Draw an edge through the borders of the scopes between two nodes."""
    depth = 0
    while depth < min(len(start), len(end)) and start[depth] == end[depth]:
        depth += 1
    for level in range(depth, len(start)):
        inner = (SCOPE, start[level + 1]) if level + 1 < len(start) else maker
        wires[start[level]][inner, (EXIT, value), value] = None
    for level in range(depth, len(end)):
        inner = (SCOPE, end[level + 1]) if level + 1 < len(end) else reader
        wires[end[level]][(ENTRY, value), inner, value] = None
    common = start[depth - 1]
    left = (SCOPE, start[depth]) if depth < len(start) else maker
    right = (SCOPE, end[depth]) if depth < len(end) else reader
    wires[common][left, right, value] = None


def _place(box: ScopeBox) -> None:
    """Give each item its layer and its position.

    Edges against the order (scopes may depend on each other) go upwards.

    Each connected part is laid out on its own, to the right of the preceding ones. With several
    parts, igraph 1.0 mixes up the bends of their edges, and reads beyond them.
    """
    box.rows = _layers(box)
    edges = [(min(ends), max(ends)) for ends in box.edges]
    routed = [
        place for place, (a, b) in enumerate(edges) if 0 < box.rows[b] - box.rows[a] <= _MAX_SPAN
    ]
    graph = igraph.Graph(len(box.items), [edges[place] for place in routed], directed=True)
    box.columns, box.bends = [0.0] * len(box.items), [[] for _ in edges]
    parts = graph.connected_components(mode="weak")
    lines: dict[int, list[int]] = {}
    for place in routed:
        lines.setdefault(parts.membership[edges[place][0]], []).append(place)
    right: dict[int, float] = {}
    for part, items in enumerate(parts):
        _place_part(box, items, {place: edges[place] for place in lines.get(part, ())}, right)


def _place_part(
    box: ScopeBox, items: Sequence[int], edges: dict[int, tuple[int, int]], right: dict[int, float]
) -> None:
    """Lay out a connected part, to the right of those before it.

    ``right`` is the first free position of each layer.
    """
    numbers = {item: number for number, item in enumerate(items)}
    graph = igraph.Graph(
        len(items), [(numbers[a], numbers[b]) for a, b in edges.values()], directed=True
    )
    layout = graph.layout_sugiyama(layers=[box.rows[item] for item in items], maxiter=_SWEEPS)
    points = [*layout.coords, *(point for bends in layout.edge_routing for point in bends)]
    shift = max((right.get(int(y), 0.0) - x for x, y in points), default=0.0)
    for x, y in points:
        right[int(y)] = max(right.get(int(y), 0.0), x + shift + 1)
    for item, (x, _) in zip(items, layout.coords, strict=True):
        box.columns[item] = x + shift
    for place, bends in zip(edges, layout.edge_routing, strict=True):
        points = [(int(y), round(x + shift, 2)) for x, y in bends]
        box.bends[place] = [value for point in _without_straight(points) for value in point]


def _without_straight(points: Sequence[tuple[int, float]]) -> list[tuple[int, float]]:
    """The points of a line, without those on the vertical line between two others."""
    last = len(points) - 1
    return [
        point
        for place, point in enumerate(points)
        if place in (0, last) or not points[place - 1][1] == point[1] == points[place + 1][1]
    ]


def _layers(box: ScopeBox) -> list[int]:
    """The layer of each item: below its sources; with more readers than sources, as low as the
    readers allow; exits last.
    """
    count = len(box.items)
    sources: list[list[int]] = [[] for _ in range(count)]
    readers: list[list[int]] = [[] for _ in range(count)]
    for start, end in box.edges:
        low, high = min(start, end), max(start, end)
        sources[high].append(low)
        readers[low].append(high)
    rows = [0] * count
    for item in range(count):
        rows[item] = max((rows[source] + 1 for source in sources[item]), default=0)
    last = max(rows, default=0)
    for item in reversed(range(count)):
        kind = box.items[item][0]
        if kind == EXIT:
            rows[item] = last
        elif kind != ENTRY and readers[item] and len(readers[item]) > len(sources[item]):
            rows[item] = min(rows[reader] for reader in readers[item]) - 1
    return rows
