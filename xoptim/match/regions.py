"""Regions of nodes that can work in another form: a part of an axis, another number of axes, ..."""

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
    """A node that works in another form."""

    # the form of each operand, by its place, that is needed in another one; all others stay
    operands: Mapping[int, Form]
    changed: Mapping[str | int, Any]  # parameters that change (`xoptim.match.axes.parameters`)

    def whole(self, node: Node) -> set[str]:
        """The operands that stay as they are."""
        return {name for place, name in enumerate(node.input) if place not in self.operands}


@dataclass
class AxisRegion:
    """Nodes that can work in another form."""

    forms: dict[str, Form]  # of the values that they read or write, the first ones first
    # in the order in which they were found
    nodes: dict[Node, Carried] = field(default_factory=dict)
    stopped: Node | None = None  # the first node next to it that cannot

    @property
    def sources(self) -> dict[str, Form]:
        """The values from outside that are needed in another form."""
        made = {name for node in self.nodes for name in node.output}
        return {name: form for name, form in self.forms.items() if name not in made}

    @property
    def whole(self) -> set[str]:
        """The values that nodes read as they are."""
        return {name for node, how in self.nodes.items() for name in how.whole(node)}

    def first(self, count: int) -> AxisRegion:
        """The region when it had this many nodes."""
        nodes = dict(islice(self.nodes.items(), count))
        read = {
            next(iter(self.forms)),
            *(node.input[place] for node, how in nodes.items() for place in how.operands),
        }
        return AxisRegion({name: form for name, form in self.forms.items() if name in read}, nodes)

    def written(
        self, g: PatternRewriter, names: dict[str, str], outputs: Mapping[str, Sequence[str]]
    ) -> list[Node]:
        """The nodes in the other form, in the order of the graph.

        ``names`` are the sources in their forms; names of results are added. Results must have the
        names in ``outputs``.
        """
        made: list[Node] = []
        for node in sorted(self.nodes, key=lambda n: n.label):
            how = self.nodes[node]
            inputs = [
                names[name] if place in how.operands else name
                for place, name in enumerate(node.input)
            ]
            made.append(rewritten(g, node, inputs, outputs.get(node.output[0], 1), how.changed))
            names[node.output[0]] = made[-1].output[0]
        return made


def region_above(
    g: GraphView, reader: Node, form: Form, carry: Callable[[Node, Form], Carried | None], most: int
) -> AxisRegion:
    """The nodes above a node, each of one result, that nothing else reads as it is; at most
    ``most``.

    ``reader`` needs its first operand in ``form``; ``carry`` returns how a node works when its
    result has a form.
    """
    region = AxisRegion({reader.input[0]: form})
    while len(region.nodes) < most:
        node, how = _last_above(g, region, reader, carry)
        if node is None or how is None:
            break
        read = {node.input[place]: each for place, each in how.operands.items()}
        if any(region.forms.get(name, each) != each for name, each in read.items()):
            region.stopped = region.stopped or node
            break
        region.nodes[node] = how
        region.forms.update(read)
    return region


def _last_above(
    g: GraphView, region: AxisRegion, reader: Node, carry: Callable[[Node, Form], Carried | None]
) -> tuple[Node | None, Carried | None]:
    """The last node that can be added: all readers of its result are in the region, or none of them
    can be.
    """
    whole = region.whole | {*reader.input[1:]}
    above = [
        (node, name)
        for name in region.sources
        if (node := g.node_before(name)) is not None and not node.domain
    ]
    for node, name in sorted(above, key=lambda each: -each[0].label):
        is_inside = (
            len(node.output) == 1
            and name not in whole
            and g.is_used_only_by(name, reader, *region.nodes)
        )
        how = carry(node, region.forms[name]) if is_inside else None
        if how is not None and how.whole(node).isdisjoint(
            node.input[place] for place in how.operands
        ):
            return node, how
        region.stopped = region.stopped or node
    return None, None


def region_below(
    g: GraphView, forms: dict[str, Form], carry: Callable[[Node], Carried | None], most: int
) -> AxisRegion:
    """The nodes, at most ``most``, that read values in another form, in the order of the graph.

    All operands of a node are settled before it. ``carry`` returns how a node works, and adds to
    ``forms`` the forms of its results, and of other values that it needs.
    """
    region = AxisRegion(forms)
    pending = {reader for name in forms for reader in g.next_nodes(name)}
    while pending:
        reader = min(pending, key=lambda n: n.label)
        pending.remove(reader)
        known = len(forms)
        how = carry(reader) if len(region.nodes) < most else None
        if how is None:
            region.stopped = region.stopped or reader
        else:
            region.nodes[reader] = how
        pending.update(
            n for name in [*forms][known:] for n in g.next_nodes(name) if n not in region.nodes
        )
    return region
