"""All positions of an axis taken one by one, for elementwise operators."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from xoptim.facts.families import BROADCASTING, ELEMENTWISE
from xoptim.match import Example, GraphView, MatchResult, Node, PatternOptimization, PatternRewriter

from .._nodes import is_op
from ._positions import all_positions, position_of

_LARGEST: Final = 2048
"""Most nodes of a region."""


@dataclass
class _Region:
    """Nodes that can work with an axis of size 1 more.

    Attributes:
        behind: how many axes come behind that axis.
        pieces: for each tensor that is taken apart its Gathers, by position.
        raised: each Split whose results are to have the axis.
        nodes: those that work with the axis, in the order of the graph.
        kept: results that have the axis.
        ends: nodes that read a result with the axis and give the same without it: a Reshape, or an Unsqueeze in its place.
        dropped: results that are read without it.
    """

    behind: int
    pieces: dict[str, list[Node]] = field(default_factory=dict)
    raised: list[Node] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    kept: dict[str, None] = field(default_factory=dict)
    ends: list[Node] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)

    def take(self, g: GraphView, gather: Node) -> bool:
        """Take in the Gathers of all positions, if there are as many axes behind theirs."""
        found, rank = position_of(g, gather), g.info(gather.input[0]).rank
        fits = found is not None and found.drops and rank == found.axis + 1 + self.behind
        pieces = all_positions(g, gather) if fits else None
        if pieces is None or gather.input[0] in self.pieces:
            return False
        self.pieces[gather.input[0]] = pieces
        self.kept.update((piece.output[0], None) for piece in pieces)
        return True

    def grow(self, g: GraphView) -> None:
        """Follow the results in the order of the graph, so that all operands of a node are settled before it."""
        pending = {reader for name in self.kept for reader in g.next_nodes(name)}
        while pending and len(self.nodes) < _LARGEST:
            reader = min(pending, key=lambda n: n.label)
            pending.remove(reader)
            known = len(self.kept)
            if self._carries(g, reader):
                self.nodes.append(reader)
                self.kept[reader.output[0]] = None
            found = list(self.kept)[known:]
            pending.update(n for name in found for n in g.next_nodes(name) if n not in self.nodes)
        for name in self.kept:
            others = [n for n in g.next_nodes(name) if n not in self.nodes]
            ends = [n for n in others if self._ends(g, n, name)]
            self.ends += ends
            if len(ends) < len(others) or g.is_output(name) or g.is_used_by_subgraph(name):
                self.dropped.append(name)

    def _carries(self, g: GraphView, node: Node) -> bool:
        if node.domain or len(node.output) != 1:
            return False
        if node.op_type in ELEMENTWISE:
            return node.input[0] in self.kept and not any(name in self.kept for name in node.input[1:])
        if is_op(node, "Concat"):
            return all(name in self.kept for name in node.input) and g.info(node.output[0]).rank is not None
        if is_op(node, "MatMul"):  # the axis is one of its batch axes
            return self.behind >= 2 and all(g.info(name).rank == 2 or self._raises(g, name) for name in node.input)
        return node.op_type in BROADCASTING and all(self._fits(g, name) for name in node.input)

    def _fits(self, g: GraphView, name: str) -> bool:
        """Whether an operand has the axis, could have it, or has so few axes that it does not matter."""
        rank, producer = g.info(name).rank, g.node_before(name)
        if name in self.kept or (rank is not None and rank <= self.behind):
            return True
        return producer is not None and self.take(g, producer)

    def _raises(self, g: GraphView, name: str) -> bool:
        """Whether an operand has the axis, or is a part of a tensor that could have it."""
        split, rank = g.node_before(name), g.info(name).rank
        if name in self.kept:
            return True
        if not is_op(split, "Split") or rank is None or rank < max(self.behind, 3):
            return False
        self.raised.append(split)
        self.kept.update((output, None) for output in split.output)
        return True

    def _ends(self, g: GraphView, node: Node, name: str) -> bool:
        rank = g.info(name).rank
        place = -1 if rank is None else rank - self.behind
        if is_op(node, "Unsqueeze"):
            axes = g.get_argument(node, "axes")
            return rank is not None and isinstance(axes, list) and [axis % (rank + 1) for axis in axes] == [place]
        target = g.get_ints(node.input[1]) if is_op(node, "Reshape") else None
        return target is not None and place >= 0 and 0 not in target[place:]


class GathersStepsPattern(PatternOptimization):
    """f(Gather(x, 0)), f(Gather(x, 1)), ... → f(a), f(b), ... of (a, b, ...) = Split(x), and Squeeze of what else is read

    What: takes all positions at once, and leaves the axis of size 1 in place as long as elementwise operators, products of
    matrices and Concat follow, from position to position too: scans that an exporter unrolled. Pieces of a Split that they read
    get the axis as well.
    Why: one node instead of one for each position of each tensor.
    Refuses when:
    1. a position of the axis is missing, or the size of the axis is not a number.
    2. no such operator follows, or as many results are read by others, each behind a Squeeze, as there are Gathers.
    3. an operator reads another tensor that reaches to the axis: it ends the region.
    """

    anchors = ("Gather",)
    phase = "target"
    priority = 11
    exactness = "rounding"
    min_opset = 13

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        """At the Gather of position 0."""
        first, rank = position_of(g, node), g.info(node.input[0]).rank
        if first is None or rank is None or first.place != 0 or not first.drops:  # (1)
            return self.none(node, msg="not the first position of an axis whose size is a number")
        region = _Region(rank - 1 - first.axis)
        if not region.take(g, node):  # (1)
            return self.none(node, msg="a position is missing")
        region.grow(g)  # (3)
        gathers = [piece for pieces in region.pieces.values() for piece in pieces]
        if not region.nodes or len(region.dropped) + len(region.pieces) + len(region.raised) >= len(gathers):  # (2)
            return self.none(node, msg="no fewer nodes")
        nodes = [*gathers, *region.raised, *region.nodes, *region.ends]
        return MatchResult(self, nodes, lambda g, *_: _write(region, g))

    _places = "int64 i = {0}, int64 j = {1}, int64 k = {2}"
    _products = "d = MatMul(c, p) e = MatMul(f, s) m = MatMul(v, t) o = MatMul(z, u)"
    _sizes, _product = "int64[4] n = {1, 1, 1, 1}", "c, f, v, z"
    _gathers = "p = Gather <axis = 1> (x, i) q = Gather <axis = 1> (x, j) r = Gather <axis = 1> (x, k)"
    examples = (
        Example(
            "agraph (float[2,3,b] x) => (float[2,b] y, float[2,1,b] z) "
            f"<{_places}, int64[1] w = {{1}}> {{ {_gathers} s = Exp(p) t = Mul(s, q) y = Add(t, r) z = Unsqueeze(t, w) }}",
            "agraph (float[2,3,b] x) => (float[2,b] y, float[2,1,b] z) <int64[3] n = {1, 1, 1}, int64[1] k = {-2}> "
            "{ p, q, r = Split <axis = 1> (x, n) s = Exp(p) z = Mul(s, q) u = Add(z, r) y = Squeeze(u, k) }",
        ),
        Example(
            f"agraph (float[a,4,2,b] x, float[a,4,2] w) => (float[a,4,b] y) <{_places}, int64 l = {{3}}, {_sizes}> "
            f"{{ {_gathers} h = Gather <axis = 1> (x, l) s = Add(p, q) t = Add(s, r) u = Add(t, h) "
            f"{_product} = Split <axis = 1> (w, n) {_products} y = Concat <axis = 1> (d, e, m, o) }}",
            f"agraph (float[a,4,2,b] x, float[a,4,2] w) => (float[a,4,b] y) <{_sizes}, int64[1] k = {{-3}}> "
            "{ p, q, r, h = Split <axis = 1> (x, n) s = Add(p, q) t = Add(s, r) u = Add(t, h) wide = Unsqueeze(w, k) "
            f"{_product} = Split <axis = -2> (wide, n) {_products} j = Concat <axis = -2> (d, e, m, o) y = Squeeze(j, k) }}",
        ),
    )


def _write(region: _Region, g: PatternRewriter) -> list[Node]:
    """The same nodes with the axis, and Squeeze where it must go."""
    axis = -1 - region.behind
    names = {name: g.unique_name(name) for name in region.kept}
    made: list[Node] = []
    for source, pieces in region.pieces.items():
        outputs = [names[piece.output[0]] for piece in pieces]
        place, sizes = g.get_rank(source) + axis, [1] * len(pieces)
        made.append(g.make_node_check_opset("Split", [source], outputs, axis=place, split=sizes))
    for node in region.raised:
        made.append(g.make_node_check_opset("Unsqueeze", node.input[:1], 1, axes=[axis]))
        made.append(_with_axis(region, g, node, {**names, node.input[0]: made[-1].output[0]}))
    made += [_with_axis(region, g, node, names) for node in region.nodes]
    for node in region.ends:
        inputs = [names[node.input[0]], *node.input[1:]]
        if node.op_type == "Unsqueeze":
            made.append(g.make_node("Identity", inputs[:1], node.output))
        else:
            made.append(g.make_node("Reshape", inputs, node.output, **node.attribute))
    made += [g.make_node_check_opset("Squeeze", [names[name]], [name], axes=[axis]) for name in region.dropped]
    return made


def _with_axis(region: _Region, g: PatternRewriter, node: Node, names: Mapping[str, str]) -> Node:
    """A node whose operands and results have one axis more."""
    attributes = dict(node.attribute)
    if node.op_type in ("Concat", "Split"):
        rank = g.get_rank(node.output[0])
        behind = rank - 1 - g.get_attribute(node, "axis") % rank
        attributes["axis"] = -1 - behind - (behind >= region.behind)
    inputs = [names.get(name, name) for name in node.input]
    return g.make_node(node.op_type, inputs, [names[name] for name in node.output], **attributes)
