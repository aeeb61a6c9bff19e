"""A region around products whose batch axes are merged before and split after."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import numpy as np

from xoptim.facts.dims import Dim, product
from xoptim.facts.families import BROADCASTING, ELEMENTWISE
from xoptim.facts.info import Shape
from xoptim.match import Example, GraphView, MatchResult, Node, PatternOptimization, PatternRewriter

from .._axes import axis_of, permutation
from .._nodes import is_op
from .._proofs import reshapes_as_inferred
from .._shapes import inserted_ones, reshape_target

_LARGEST: Final = 32
"""Most nodes of a region."""

_Entry = tuple[str, str, list[int]]
"""A tensor, the operator that splits its batch axes and the axes or the shape; no operator where they are split already."""


@dataclass
class _Region:
    """Nodes that can work on split batch axes.

    Attributes:
        merged: the first axis of their results.
        batch: the axes that it is split into.
        nodes: the last one first, each with the places of its operands that have the merged axis.
        entries: how the results from outside are split.
    """

    merged: Dim
    batch: Shape
    nodes: dict[Node, list[int]] = field(default_factory=dict)
    entries: dict[str, _Entry] = field(default_factory=dict)


class BatchRegionPattern(PatternOptimization):
    """Reshape(f(MatMul(Reshape(a), Reshape(b)), Reshape(c))) → f(MatMul(a, b), c)

    What: leaves batch axes as they are around products, elementwise operators, Softmax and Transpose that would work on them
    merged, such as a product of batches that is scaled and biased.
    Why: merges and splits nothing, and needs no computed shapes; attention of torch's ``baddbmm`` exports this way.
    Refuses when:
    1. the last node does not split the first axis only, or a shape is unknown.
    2. another node reads a result in between, or works along the merged axis.
    3. an operand is not merged by a Reshape, or would need a computed shape.
    4. a computed size may be 0 at run time: a Reshape would copy another size in its place.
    5. it takes as many Reshapes as before, or there is one operand (MovementChain shortens chains).
    """

    anchors = ("Reshape",)
    near = ("MatMul", "Softmax", "Transpose", *BROADCASTING, *sorted(ELEMENTWISE))
    exactness = "rounding"
    priority = 1  # behind ReshapeMatMulReshape, which takes a single product
    min_opset = 13
    radius = 8

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        """Grow the region upwards, the last node first."""
        merged, split = g.try_infer_shape(node.input[0]), g.try_infer_shape(node.output[0])
        if merged is None or split is None or len(merged) < 2 or len(split) <= len(merged):  # (1)
            return self.none(node, msg="no axis is split")
        batch = split[: len(split) - len(merged) + 1]
        if split[len(batch) :] != merged[1:] or product(batch) != merged[0] or not reshapes_as_inferred(g, node):  # (1) (4)
            return self.none(node, msg="not the first axis only, or a size may be 0")
        region = _grow(g, node, _Region(merged[0], batch))
        if region is None:  # (2) (3) (4)
            return self.none(node, msg="an operator cannot work on the split axes")
        made = sum(bool(op_type) for _, op_type, _ in region.entries.values())
        gone = 1 + sum(g.is_used_only_by(name, *region.nodes) for name in region.entries)
        if made >= gone or len(region.entries) < 2:  # (5)
            return self.none(node, msg="not one Reshape less, or a chain")
        return MatchResult(self, [*reversed(region.nodes), node], partial(_write, region))

    examples = (
        Example(
            "agraph (float[a,2,3,4] x, float[a,2,5,4] z, float[a,2,5] c) => (float[a,2,3,5] y) <int64[3] i = {-1, 3, 4}, "
            "int64[3] j = {-1, 5, 4}, int64[3] k = {-1, 1, 5}, int64[4] l = {-1, 2, 3, 5}, float h = {0.5}> "
            "{ r = Reshape(x, i) w = Reshape(z, j) v = Transpose <perm = [0, 2, 1]> (w) u = MatMul(r, v) n = Mul(u, h) "
            "b = Reshape(c, k) d = Add(n, b) y = Reshape(d, l) }",
            "agraph (float[a,2,3,4] x, float[a,2,5,4] z, float[a,2,5] c) => (float[a,2,3,5] y) "
            "<float h = {0.5}, int64[1] k = {2}> { v = Transpose <perm = [0, 1, 3, 2]> (z) u = MatMul(x, v) "
            "n = Mul(u, h) g = Unsqueeze(c, k) y = Add(n, g) }",
        ),
    )


def _grow(g: GraphView, node: Node, region: _Region) -> _Region | None:
    """The region above a Reshape, ``None`` where an operand cannot be split."""
    pending = {node.input[0]}
    while pending:
        # The last node first: all readers of its result are in the region then, or none of them can be.
        name = max(pending, key=lambda n: -1 if (p := g.node_before(n)) is None else p.label)
        pending.remove(name)
        above = g.node_before(name)
        places = None if above is None else _carried(g, above, region)
        if above is not None and places is not None and g.is_used_only_by(name, node, *region.nodes):
            region.nodes[above] = places
            pending |= {above.input[place] for place in places}
            if len(region.nodes) > _LARGEST:
                return None
            continue
        entry = None if above is None else _entry(g, above, region)
        if entry is None:
            return None
        region.entries[name] = entry
    return region


def _carried(g: GraphView, node: Node, region: _Region) -> list[int] | None:
    """The operands with the merged axis, ``None`` when the node cannot work on split axes."""
    result = g.try_infer_shape(node.output[0])
    if node.domain or len(node.output) != 1 or result is None or len(result) < 2 or result[0] != region.merged:
        return None
    if node.op_type in ELEMENTWISE:
        return [0] if g.info(node.input[0]).rank == len(result) else None
    if is_op(node, "Softmax", "LogSoftmax"):
        return [0] if axis_of(g, node) != 0 else None
    if is_op(node, "Transpose"):
        perm = permutation(g, node)
        return [0] if perm and perm[0] == 0 else None
    shapes = [g.try_infer_shape(name) for name in node.input]
    if node.op_type not in BROADCASTING and (not is_op(node, "MatMul") or any(s is None or len(s) < 2 for s in shapes)):
        return None
    places = [place for place, shape in enumerate(shapes) if shape is not None and len(shape) == len(result)]
    places = [place for place in places if (shapes[place] or (0,))[0] != 1]
    known = all(shape is not None and len(shape) <= len(result) for shape in shapes)
    return places if known and places and all((shapes[place] or (0,))[0] == region.merged for place in places) else None


def _entry(g: GraphView, node: Node, region: _Region) -> _Entry | None:
    """How the batch axes of the result of a Reshape from outside are split."""
    source, result = g.try_infer_shape(node.input[0]), g.try_infer_shape(node.output[0])
    if not is_op(node, "Reshape", "Flatten") or source is None or result is None or not reshapes_as_inferred(g, node):
        return None
    wanted = (*region.batch, *result[1:])
    if source == wanted:
        return node.input[0], "", []
    axes, target = inserted_ones(source, wanted), reshape_target(g, source, wanted)
    if axes is not None:
        return node.input[0], "Unsqueeze", axes
    return None if target is None else (node.input[0], "Reshape", target)


def _write(region: _Region, g: PatternRewriter, *nodes: Node) -> list[Node]:
    names: dict[str, str] = {}
    for name, (source, op_type, numbers) in region.entries.items():
        names[name] = source
        if op_type:
            split = {"axes": numbers} if op_type == "Unsqueeze" else {}
            targets = [] if split else [np.array(numbers, np.int64)]
            names[name] = getattr(g.op, op_type)(source, *targets, **split)
    made: list[Node] = []
    for node in nodes[:-1]:
        inputs = [names[i] if place in region.nodes[node] else i for place, i in enumerate(node.input)]
        outputs = nodes[-1].output if node.output[0] == nodes[-1].input[0] else 1
        made.append(g.make_node(node.op_type, inputs, outputs, **_attributes(g, node, len(region.batch) - 1)))
        names[node.output[0]] = made[-1].output[0]
    return [*g.created, *made]


def _attributes(g: PatternRewriter, node: Node, more: int) -> Mapping[str, Any]:
    """The attributes of a node whose operands have so many axes more, in front."""
    perm = permutation(g, node)
    if perm is not None:
        return {"perm": [*range(more + 1), *(axis + more for axis in perm[1:])]}
    axis = node.attribute.get("axis", -1)
    return {**node.attribute, "axis": axis + more} if is_op(node, "Softmax", "LogSoftmax") and axis >= 0 else node.attribute
