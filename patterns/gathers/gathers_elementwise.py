from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any, Final

from xoptim.match import Example, GraphView, MatchResult, Node, PatternOptimization, PatternRewriter
from xoptim.match.axes import parameters, rewritten
from xoptim.match.regions import AxisRegion, Carried, region_below
from xoptim.operators.axes import Axes, AxisOperand
from xoptim.operators.registry import axes_of

from .._nodes import is_op
from .._operators import BROADCASTING, ELEMENTWISE
from .._selections import gathers_of_all, index_of

_MAX_NODES: Final = 2048
"""Maximum number of nodes of a region."""
_OPERATORS: Final = frozenset((*BROADCASTING, *ELEMENTWISE, "Concat", "MatMul"))
_NEW_AXIS: Final = -1
"""The label of the new axis."""


@dataclass
class _GatheredTensors:
    """Tensors with a Gather for each index of an axis, and nodes that can compute with this axis.

    A Split replaces the Gathers. Its outputs have the axis, with size 1, which the Gathers drop.

    Attributes:
        g: the graph.
        trailing: the number of axes after the axis.
        pieces: the Gathers of each tensor, by index.
        other_splits: Splits of other tensors, to which an Unsqueeze adds the axis, and the
            parameters of the Split that this changes.
        results: names of the results that have the axis.
        ends: consumers that can read a result with the axis, but do not have it in their own
            result: a Reshape, or an Unsqueeze that adds the axis.
        squeezed: names of the results that other consumers read without the axis, after a Squeeze.
    """

    g: GraphView
    trailing: int
    pieces: dict[str, list[Node]] = field(default_factory=dict)
    other_splits: dict[Node, Mapping[str | int, Any]] = field(default_factory=dict)
    results: dict[str, None] = field(default_factory=dict)
    ends: list[Node] = field(default_factory=list)
    squeezed: list[str] = field(default_factory=list)

    def add_gathers(self, gather: Node | None) -> bool:
        """Add the Gathers of all indices of the tensor from which ``gather`` reads.

        Returns:
            whether they were added: each index has a Gather, and `trailing` axes follow the axis.
        """
        index = index_of(self.g, gather)
        if index is None or not index.drops or index.source in self.pieces:
            return False
        fits = self.g.info(index.source).rank == index.axis + 1 + self.trailing
        pieces = gathers_of_all(self.g, index.node) if fits else None
        self.pieces.update({index.source: pieces} if pieces else {})
        self.results.update((piece.output[0], None) for piece in pieces or ())
        return pieces is not None

    def grow(self) -> AxisRegion:
        """Collect the nodes below the Gathers, up to nodes that cannot work with the axis."""
        region = region_below(self.g, self.results, self._carry, _MAX_NODES)
        for name in self.results:
            consumers = [
                consumer for consumer in self.g.next_nodes(name) if consumer not in region.nodes
            ]
            ends = [consumer for consumer in consumers if self._ends(consumer, name)]
            self.ends += ends
            if (
                len(ends) < len(consumers)
                or self.g.is_output(name)
                or self.g.is_used_by_subgraph(name)
            ):
                self.squeezed.append(name)
        return region

    def _carry(self, node: Node) -> Carried | None:
        """The changes with which a node computes its result with the axis; ``None`` if it cannot.

        Adds the result, and the operands that need the axis as well.
        """
        axes = axes_of(self.g, node) if node.op_type in _OPERATORS else None
        if (
            axes is None
            or axes.last > self.trailing
            or not all(map(self._add_axis_to_operand, node.input, axes.operands, repeat(node)))
        ):
            return None
        self.results[node.output[0]] = None
        return Carried(
            {index: None for index, name in enumerate(node.input) if name in self.results},
            self.changed(node, axes),
        )

    def changed(self, node: Node, axes: Axes) -> dict[str | int, Any]:
        """The parameters of a node that change when the axis is added to its result."""
        labels = axes.results[0]
        if 0 < self.trailing <= len(labels):
            new_axes = axes.inserted(_NEW_AXIS, labels[len(labels) - self.trailing])
        else:  # The new axis is the last one.
            new_axes = axes.replaced({label: (label, _NEW_AXIS) for label in labels[-1:]})
        return parameters(self.g, node, new_axes or axes)

    def _add_axis_to_operand(self, name: str, operand: AxisOperand | None, node: Node) -> bool:
        """Whether an operand has the axis, can get it, or broadcasts with fewer axes.

        Adds the Gathers or the Split from which it can get the axis.
        """
        if operand is None:  # a scalar or a parameter, such as axes, which cannot get the axis
            return name not in self.results
        if name in self.results:
            return True
        if operand.broadcasts and len(operand.labels) <= self.trailing:
            return True
        producer = self.g.node_before(name)
        return (
            self._add_split(producer)
            if is_op(node, "MatMul")
            else operand.broadcasts and self.add_gathers(producer)
        )

    def _add_split(self, split: Node | None) -> bool:
        """Add a Split of another tensor.

        Returns:
            whether it was added: the node is a Split that can get the axis.
        """
        axes = axes_of(self.g, split) if is_op(split, "Split") else None
        if split is None or axes is None or len(axes.results[0]) < max(self.trailing, 3):
            return False
        self.other_splits[split] = self.changed(split, axes)
        self.results.update((output, None) for output in split.output)
        return True

    def _ends(self, node: Node, name: str) -> bool:
        """Whether a consumer of ``name`` computes the same result if ``name`` has the axis.

        An Unsqueeze does if it adds this axis. A Reshape does if its target copies no dimension
        (by 0) at or after the index of the axis: these dimensions have another index then.
        """
        g, rank = self.g, self.g.info(name).rank
        position = -1 if rank is None else rank - self.trailing
        if is_op(node, "Unsqueeze"):
            axes = g.get_argument(node, "axes")
            return (
                rank is not None
                and isinstance(axes, list)
                and [axis % (rank + 1) for axis in axes] == [position]
            )
        target = g.get_ints(node.input[1]) if is_op(node, "Reshape") else None
        return target is not None and position >= 0 and 0 not in target[position:]


class GathersElementwisePattern(PatternOptimization):
    """f(Gather(x, 0)), f(Gather(x, 1)), ... → f(a), f(b), ... of (a, b, ...) = Split(x), and
    Squeeze for other consumers

    What: splits the tensor, and keeps the axis of size 1 while elementwise operators, MatMuls and
    Concats follow. This includes a scan that an exporter unrolled, where each step reads the result
    of the preceding one. Outputs of another Split get the axis from an Unsqueeze.
    Why: for each tensor, one Split instead of one Gather for each step.
    Refuses when:
    1. an index of the axis is missing, or the axis is dynamic.
    2. no elementwise operator, MatMul or Concat follows. Or the new Splits and Unsqueezes, and the
       Squeezes for other consumers, are not fewer nodes than the Gathers.
    3. an operand can neither get the axis nor broadcast without it: its operator ends the region.
    """

    anchors = ("Gather",)
    phase = "target"
    priority = 11
    exactness = "rounding"
    min_opset = 13

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        selection, rank = index_of(g, node), g.info(node.input[0]).rank
        # (1)
        if selection is None or rank is None or selection.start != 0 or not selection.drops:
            return self.none(node, msg="not index 0 along an axis of static size")
        tensors = _GatheredTensors(g, rank - 1 - selection.axis)
        if not tensors.add_gathers(node):  # (1)
            return self.none(node, msg="an index has no Gather")
        region = tensors.grow()  # (3)
        gathers = [piece for pieces in tensors.pieces.values() for piece in pieces]
        new_nodes = len(tensors.squeezed) + len(tensors.pieces) + len(tensors.other_splits)
        if not region.nodes or new_nodes >= len(gathers):  # (2)
            return self.none(node, msg="the number of nodes would not decrease")
        return MatchResult(
            self,
            [*gathers, *tensors.other_splits, *region.nodes, *tensors.ends],
            lambda g, *_: _write(tensors, region, g),
        )

    _places = "int64 i = {0}, int64 j = {1}, int64 k = {2}"
    _matmuls = "d = MatMul(c, p) e = MatMul(f, s) m = MatMul(v, t) o = MatMul(z, u)"
    _sizes, _outputs = "int64[4] n = {1, 1, 1, 1}", "c, f, v, z"
    _gathers = (
        "p = Gather <axis = 1> (x, i) q = Gather <axis = 1> (x, j) r = Gather <axis = 1> (x, k)"
    )
    examples = Example.pairs(
        f"agraph (float[2,3,b] x) => (float[2,b] y, float[2,1,b] z) <{_places}, "
        f"int64[1] w = {{1}}> {{ {_gathers} s = Exp(p) t = Mul(s, q) y = Add(t, r) "
        "z = Unsqueeze(t, w) }",
        "<int64[3] n = {1, 1, 1}, int64[1] k = {-2}> { p, q, r = Split <axis = 1> (x, n) "
        "s = Exp(p) z = Mul(s, q) u = Add(z, r) y = Squeeze(u, k) }",
        "agraph (float[a,4,2,b] x, float[a,4,2] w) "
        f"=> (float[a,4,b] y) <{_places}, int64 l = {{3}}, {_sizes}> {{ {_gathers} "
        "h = Gather <axis = 1> (x, l) s = Add(p, q) t = Add(s, r) u = Add(t, h) "
        f"{_outputs} = Split <axis = 1> (w, n) {_matmuls} y = Concat <axis = 1> (d, e, m, o) }}",
        f"<{_sizes}, int64[1] k = {{-3}}> {{ p, q, r, h = Split <axis = 1> (x, n) s = Add(p, q) "
        "t = Add(s, r) u = Add(t, h) wide = Unsqueeze(w, k) "
        f"{_outputs} = Split <axis = 2> (wide, n) {_matmuls} j = Concat <axis = 2> (d, e, m, o) "
        "y = Squeeze(j, k) }",
    )


def _write(tensors: _GatheredTensors, region: AxisRegion, g: PatternRewriter) -> list[Node]:
    """The nodes of a region with the axis, and Squeezes for other consumers."""
    axis = -1 - tensors.trailing
    names = {name: g.unique_name(name) for name in tensors.results}
    nodes: list[Node] = []
    for source, pieces in tensors.pieces.items():
        outputs = [names[piece.output[0]] for piece in pieces]
        split_axis, sizes = g.get_rank(source) + axis, [1] * len(pieces)
        nodes.append(
            g.make_node_check_opset("Split", [source], outputs, axis=split_axis, split=sizes)
        )
    for node, changes in tensors.other_splits.items():
        nodes.append(g.make_node_check_opset("Unsqueeze", node.input[:1], 1, axes=[axis]))
        nodes.append(
            rewritten(
                g,
                node,
                [nodes[-1].output[0], *node.input[1:]],
                [names[name] for name in node.output],
                changes,
            )
        )
    nodes += region.written(g, names, {name: [new] for name, new in names.items()})
    for node in tensors.ends:
        inputs = [names[node.input[0]], *node.input[1:]]
        if node.op_type == "Unsqueeze":
            nodes.append(g.make_node("Identity", inputs[:1], node.output))
        else:
            nodes.append(g.make_node("Reshape", inputs, node.output, **node.attribute))
    nodes += [
        g.make_node_check_opset("Squeeze", [names[name]], [name], axes=[axis])
        for name in tensors.squeezed
    ]
    return nodes
