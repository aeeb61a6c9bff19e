from functools import partial
from typing import Any, NamedTuple

from xoptim.match import Example, GraphView, MatchResult, Node, PatternOptimization, PatternRewriter

from .._deductions import reshapes_as_inferred
from .._nodes import axis_of, is_op, permutation, size_along
from .._selections import gathers_of_all, index_of
from .._shapes import reshape_target


class _Parts(NamedTuple):
    """All slices of an axis: the nodes that cut them, and the outputs in order, without the axis.

    The axis is counted from the front.
    """

    axis: int
    nodes: list[Node]
    outputs: list[str]


class ReshapeSplitSqueezePattern(PatternOptimization):
    """Squeeze(Split(Transpose(Reshape(x)))) → Split(Transpose(Reshape(x)))

    What: merges the axis of the parts with the next axis, and splits the merged axis: no Squeeze
    remains. The same for a Gather of each index, and without the Transpose.
    Why: one node fewer for each part. Vision transformers split one MatMul into queries, keys and
    values this way.
    Refuses when:
    1. the Split or the Gathers miss an index, keep the axis, or have other consumers.
    2. the Reshape or the Transpose has other consumers, or a shape is unknown.
    3. the Reshape adds no axis of static size after the axis of the parts.
    4. the Reshape would need a shape computed at run time.
    """

    anchors = ("Split", "Gather")
    near = ("Transpose", "Reshape")
    phase = "target"
    priority = 4
    min_opset = 5

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        parts = self._gathered(g, node) if is_op(node, "Gather") else self._split(g, node)
        if parts is None:  # (1)
            return self.none(
                node, msg="the consumers do not take every index of an axis and drop it"
            )
        producer = g.node_before(node.input[0])
        perm = (
            permutation(g, producer)
            if producer is not None and is_op(producer, "Transpose")
            else None
        )
        reshape = producer if perm is None or producer is None else g.node_before(producer.input[0])
        if reshape is None or not is_op(reshape, "Reshape") or not reshapes_as_inferred(g, reshape):
            return self.none(node, msg="no Reshape adds the axis")  # (2)
        unsplit, source = (
            g.try_infer_shape(name) for name in (reshape.output[0], reshape.input[0])
        )
        consumers = [parts.nodes[0]] if is_op(node, "Split") else parts.nodes
        is_exclusive = perm is None or g.is_exclusive(reshape.output[0])
        # (2)
        if (
            unsplit is None
            or source is None
            or not is_exclusive
            or not g.is_used_only_by(node.input[0], *consumers)
        ):
            return self.none(reshape, msg="the Reshape has other consumers, or a shape is unknown")
        order = list(range(len(unsplit))) if perm is None else perm
        axis = order[parts.axis]
        size = unsplit[axis + 1] if axis + 1 < len(unsplit) else None
        if not isinstance(size, int) or not size:  # (3)
            return self.none(
                reshape, msg="the Reshape adds no axis of static size after the split axis"
            )
        shape = (*unsplit[:axis], len(parts.outputs) * size, *unsplit[axis + 2 :])
        old_target = g.get_ints(reshape.input[1]) or []
        inferred = [index - (index > axis) for index, dim in enumerate(old_target) if dim == -1]
        target = reshape_target(g, source, shape, inferred)
        if target is None:  # (4)
            return self.none(reshape, msg="the Reshape would need a shape computed at run time")
        joined = [index - (index > axis) for index in order if index != axis]
        split = {"axis": joined.index(axis), "split": [size] * len(parts.outputs)}
        nodes = list(dict.fromkeys(filter(None, (reshape, producer, *parts.nodes))))
        return MatchResult(
            self, nodes, partial(self._write, reshape.input[0], target, joined, parts, split)
        )

    def _split(self, g: GraphView, node: Node) -> _Parts | None:
        """The outputs of a Split, each read by a Squeeze only."""
        axis, rank = axis_of(g, node), g.info(node.input[0]).rank
        consumers = [g.next_node(name) for name in node.output if g.is_exclusive(name)]
        squeezes = [consumer for consumer in consumers if is_op(consumer, "Squeeze")]
        if (
            axis is None
            or rank is None
            or not len(squeezes) == len(node.output) == size_along(g, node.input[0], axis)
        ):
            return None
        if any(
            g.get_argument(squeeze, "axes") not in ([axis], [axis - rank]) for squeeze in squeezes
        ):
            return None
        return _Parts(axis, [node, *squeezes], [squeeze.output[0] for squeeze in squeezes])

    def _gathered(self, g: GraphView, node: Node) -> _Parts | None:
        """The Gathers of all indices of an axis. ``node`` is the Gather of index 0."""
        first = index_of(g, node)
        gathers = (
            gathers_of_all(g, node)
            if first is not None and first.drops and not first.start
            else None
        )
        return (
            None
            if gathers is None or first is None
            else _Parts(first.axis, gathers, [n.output[0] for n in gathers])
        )

    def _write(
        self,
        x: str,
        target: list[int],
        joined: list[int],
        parts: _Parts,
        split: dict[str, Any],
        g: PatternRewriter,
        *_: Node,
    ) -> list[Node]:
        merged = g.op.Reshape(x, g.make_initializer("", target))
        if joined != sorted(joined):
            merged = g.op.Transpose(merged, perm=joined)
        return [*g.created, g.make_node_check_opset("Split", [merged], parts.outputs, **split)]

    _heads = "agraph (float[n,5,24] x) => (float[n,3,5,4] y, float[n,3,5,4] z)"
    _moved = (
        "<int64[5] t = {0, 5, 2, 3, 4}, int64[2] s = {1, 1}, int64[1] k = {0}, int64 i = {0}, "
        "int64 j = {1}> { r = Reshape(x, t) p = Transpose <perm = [2, 0, 3, 1, 4]> (r)"
    )
    _parted = (
        f"{_heads} <int64[4] t = {{0, 5, 6, 4}}, int64[2] s = {{3, 3}}> {{ r = Reshape(x, t) "
        "p = Transpose <perm = [0, 2, 1, 3]> (r) y, z = Split <axis = 1> (p, s) }"
    )
    _start = "agraph (float[n,12] x) => (float[n,3,4] y)"
    examples = Example.pairs(
        f"{_heads} {_moved} a, b = Split <axis = 0> (p, s) y = Squeeze(a, k) z = Squeeze(b, k) }}",
        _parted,
        f"{_heads} {_moved} y = Gather(p, i) z = Gather(p, j) }}",
        _parted,
        f"{_start} <int64[4] t = {{0, 3, 2, 2}}, int64 i = {{0}}, int64 j = {{1}}> {{ "
        "r = Reshape(x, t) a = Gather <axis = 2> (r, i) b = Gather <axis = 2> (r, j) "
        "y = Concat <axis = 2> (b, a) }",
        "<int64[3] t = {0, 3, 4}, int64[2] s = {2, 2}> "
        "{ r = Reshape(x, t) a, b = Split <axis = 2> (r, s) y = Concat <axis = 2> (b, a) }",
    )
