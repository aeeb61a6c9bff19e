"""Regions of nodes that can compute their results in another form, such as a slice of an axis or
another rank.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple

from xoptim.graph.node import Node
from xoptim.match.axes import rewritten
from xoptim.match.view import GraphView, PatternRewriter

Form = Any
"""The form of a value, such as the axis along which it is cut.

Equal forms of one value are one tensor.
"""


class Carried(NamedTuple):
    """The changes with which a node computes its results in another form."""

    # the forms of the operands that must have another form, by index; other operands stay
    operands: Mapping[int, Form]
    changed: Mapping[str | int, Any]  # parameters that change (`xoptim.match.axes.parameters`)

    def unchanged(self, node: Node) -> set[str]:
        """The operands that stay as they are."""
        return {name for place, name in enumerate(node.input) if place not in self.operands}


@dataclass
class AxisRegion:
    """Connected nodes that can compute their results in another form."""

    # the values that the nodes read or write in another form, in the order of the search
    forms: dict[str, Form]
    nodes: dict[Node, Carried] = field(default_factory=dict)  # in the order of the search
    stopped: Node | None = None  # the first neighbor that cannot compute in another form

    @property
    def sources(self) -> dict[str, Form]:
        """The values from outside that are needed in another form."""
        produced = {name for node in self.nodes for name in node.output}
        return {name: form for name, form in self.forms.items() if name not in produced}

    @property
    def unchanged(self) -> set[str]:
        """The values that nodes read as they are."""
        return {name for node, carried in self.nodes.items() for name in carried.unchanged(node)}

    def first(self, count: int) -> AxisRegion:
        """The region as it was when it had ``count`` nodes."""
        nodes = dict(islice(self.nodes.items(), count))
        names = {
            next(iter(self.forms)),
            *(node.input[place] for node, carried in nodes.items() for place in carried.operands),
        }
        return AxisRegion({name: form for name, form in self.forms.items() if name in names}, nodes)

    def written(
        self, g: PatternRewriter, names: dict[str, str], outputs: Mapping[str, Sequence[str]]
    ) -> list[Node]:
        """The nodes in the other form, in the order of the graph.

        ``names`` maps the sources to values in the other form; results are added to it.
        ``outputs`` has the names for results of some nodes, by their first old result.
        """
        nodes: list[Node] = []
        for node in sorted(self.nodes, key=lambda n: n.label):
            carried = self.nodes[node]
            inputs = [
                names[name] if place in carried.operands else name
                for place, name in enumerate(node.input)
            ]
            nodes.append(
                rewritten(g, node, inputs, outputs.get(node.output[0], 1), carried.changed)
            )
            names[node.output[0]] = nodes[-1].output[0]
        return nodes


def region_above(
    g: GraphView,
    reader: Node,
    form: Form,
    carry: Callable[[Node, Form], Carried | None],
    max_nodes: int,
) -> AxisRegion:
    """The nodes that compute the first operand of ``reader``, if they can compute it in ``form``.

    Only ``reader`` and other nodes of the region read their results. The region has at most
    ``max_nodes`` nodes. ``carry`` returns the changes with which a node computes its result in a
    form; ``None`` if it cannot.
    """
    region = AxisRegion({reader.input[0]: form})
    while len(region.nodes) < max_nodes:
        node, carried = _last_above(g, region, reader, carry)
        if node is None or carried is None:
            break
        forms = {node.input[place]: form for place, form in carried.operands.items()}
        if any(region.forms.get(name, form) != form for name, form in forms.items()):
            region.stopped = region.stopped or node
            break
        region.nodes[node] = carried
        region.forms.update(forms)
    return region


def _last_above(
    g: GraphView, region: AxisRegion, reader: Node, carry: Callable[[Node, Form], Carried | None]
) -> tuple[Node | None, Carried | None]:
    """The last node that can be added, with its changes; ``(None, None)`` if no node can."""
    unchanged = region.unchanged | {*reader.input[1:]}
    candidates = [
        (node, name)
        for name in region.sources
        if (node := g.node_before(name)) is not None and not node.domain
    ]
    for node, name in sorted(candidates, key=lambda pair: -pair[0].label):
        is_inside = (
            len(node.output) == 1
            and name not in unchanged
            and g.is_used_only_by(name, reader, *region.nodes)
        )
        carried = carry(node, region.forms[name]) if is_inside else None
        if carried is not None and carried.unchanged(node).isdisjoint(
            node.input[place] for place in carried.operands
        ):
            return node, carried
        region.stopped = region.stopped or node
    return None, None


def region_below(
    g: GraphView, forms: dict[str, Form], carry: Callable[[Node], Carried | None], max_nodes: int
) -> AxisRegion:
    """The nodes, at most ``max_nodes``, that can read values in another form.

    ``carry`` is called for each node after its producers. It returns the changes with which the
    node computes its results in another form; ``None`` if it cannot. It adds the forms of these
    results, and of other values that the node needs, to ``forms``.
    """
    region = AxisRegion(forms)
    pending = {reader for name in forms for reader in g.next_nodes(name)}
    while pending:
        reader = min(pending, key=lambda n: n.label)
        pending.remove(reader)
        count = len(forms)
        carried = carry(reader) if len(region.nodes) < max_nodes else None
        if carried is None:
            region.stopped = region.stopped or reader
        else:
            region.nodes[reader] = carried
        pending.update(
            n for name in [*forms][count:] for n in g.next_nodes(name) if n not in region.nodes
        )
    return region
