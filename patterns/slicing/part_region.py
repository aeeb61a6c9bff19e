"""A part of a result, all of which is computed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np
from onnx import TensorProto

from xoptim.facts.dims import lower_bound, upper_bound
from xoptim.facts.families import BROADCASTING, ELEMENTWISE, REDUCTIONS
from xoptim.match import Example, GraphView, MatchResult, Node, PatternOptimization, PatternRewriter
from xoptim.match.axes import axes_of, axis_of, parameters, rewritten

from .._nodes import is_op

_LARGEST: Final = 64
"""Most nodes of a region."""
_COMPUTING: Final = (
    *(*BROADCASTING, *REDUCTIONS, *sorted(ELEMENTWISE - {"Cast"})),
    *("Gemm", "LayerNormalization", "LogSoftmax", "MatMul", "RMSNormalization", "Softmax"),
)
_MOVING: Final = ("Cast", "Reshape", "Transpose")
"""Operators that compute nothing."""


class _Part(NamedTuple):
    """Some positions of one axis of a result.

    Attributes:
        axis: counted from the front.
        drops: whether the axis goes: one position is taken.
        may_be_empty: whether it is not known that there is a position.
    """

    axis: int
    drops: bool
    may_be_empty: bool


class _Carried(NamedTuple):
    """A node that computes a part of its result.

    Attributes:
        operands: the axis of each operand, by its place, of which the part is needed; all others stay.
        changed: parameters that change.
    """

    operands: Mapping[int, int]
    changed: Mapping[str | int, Any]


@dataclass
class _Region:
    """Nodes that compute only a part.

    Attributes:
        nodes: how each of them does so, the last one first.
        axes: the axis of each of their results of which the part is needed.
        sources: the axis of each result from outside of which they need the part.
    """

    nodes: dict[Node, _Carried] = field(default_factory=dict)
    axes: dict[str, int] = field(default_factory=dict)
    sources: dict[str, int] = field(default_factory=dict)


class PartRegionPattern(PatternOptimization):
    """Gather(f(x), i) → f(Gather(x, i)), and Slice

    What: takes one position of an axis, or at most half of them, before all operators that compute the positions one by one:
    elementwise ones, rows of products, normalizations and Softmax along other axes, Transpose, Reshape.
    Why: the rest is not computed. A language model computes the scores of the last token only, a classifier the last layer
    of its first token only: an image classifier of four layers takes 0.90 of the time.
    Refuses when:
    1. it is not a part of one axis of which the number of positions is known: one, or at most half of a known size.
    2. something else reads the results, or an operator needs several positions for one: the region ends there.
    3. the part would have to be taken of several tensors: the region ends before.
    4. nothing is computed in the region.
    """

    anchors = ("Slice", "Gather")
    near = (*_COMPUTING, *_MOVING)
    phase = "specialize"
    priority = 3
    exactness = "rounding"
    min_opset = 13
    radius = 8

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        """Grow the region upwards, and keep the largest one with one source."""
        part = _part_of(g, node)
        if part is None:  # (1)
            return self.none(node, msg="not a small part of one axis")
        region = _grow(g, node, part)
        if region is None:  # (2) (3) (4)
            return self.none(node, msg="nothing before it computes only one part from one part")
        return MatchResult(self, [*reversed(region.nodes), node], partial(_write, region, part))

    examples = (
        Example(
            "agraph (float[b,s,4] x) => (float[b,3] y) <float[4,3] w = {1,2,3,4,5,6,7,8,9,8,7,6}, int64 i = {-1}> "
            "{ m = MatMul(x, w) y = Gather <axis = 1> (m, i) }",
            "agraph (float[b,s,4] x) => (float[b,3] y) <float[4,3] w = {1,2,3,4,5,6,7,8,9,8,7,6}, int64 i = {-1}> "
            "{ g = Gather <axis = 1> (x, i) y = MatMul(g, w) }",
        ),
        Example(
            "agraph (float[b,s,4] x) => (float[b,t,4] y) <float[4] n = {1,2,1,2}, int64[1] o = {0}, int64[1] e = {1}> "
            "{ l = LayerNormalization(x, n) r = Relu(l) a = Add(x, r) h = Tanh(a) y = Slice(h, o, e, e) }",
            "agraph (float[b,s,4] x) => (float[b,t,4] y) <float[4] n = {1,2,1,2}, int64[1] o = {0}, int64[1] e = {1}> "
            "{ p = Slice(x, o, e, e) l = LayerNormalization(p, n) r = Relu(l) a = Add(p, r) y = Tanh(a) }",
        ),
    )


def _part_of(g: GraphView, node: Node) -> _Part | None:
    """The part that a Slice or Gather takes, if it is small."""
    shape, result = g.try_infer_shape(node.input[0]), g.try_infer_shape(node.output[0])
    if shape is None or result is None:
        return None
    drops = False
    if is_op(node, "Gather"):
        rank, axis = g.info(node.input[1]).rank, axis_of(g, node)
        drops = rank == 0
        if rank not in (0, 1) or axis is None:
            return None
    else:
        axes = g.get_argument(node, "axes")
        if not isinstance(axes, list) or len(axes) != 1 or g.try_infer_type(node.input[1]) != TensorProto.INT64:
            return None
        axis = axes[0] % len(shape)
    size, taken = shape[axis], 1 if drops else result[axis]
    most, least = upper_bound(taken), lower_bound(taken)
    if most is None or not (2 * most <= size if isinstance(size, int) else most <= 1):
        return None
    return _Part(axis, drops, may_be_empty=not least)


def _grow(g: GraphView, node: Node, part: _Part) -> _Region | None:
    region, best = _Region(sources={node.input[0]: part.axis}), None
    is_free = all(g.is_constant(name) for name in node.input[1:] if name)
    readers = {node}
    while len(region.nodes) < _LARGEST:
        # The last node first: all readers of its result are in the region then, or none of them can be.
        name, last, how = _last(g, region, readers, part)
        if last is None or how is None:
            break
        region.axes[name] = region.sources.pop(name)
        region.nodes[last] = how
        readers.add(last)
        for place, axis in how.operands.items():
            operand = last.input[place]
            if region.sources.setdefault(operand, axis) != axis or operand in region.axes:
                return best
        needed = [name for name in region.sources if not (is_free and g.is_constant(name))]
        if len(needed) <= 1 and any(n.op_type not in _MOVING for n in region.nodes):
            best = _Region(dict(region.nodes), dict(region.axes), dict(region.sources))
    return best


def _last(g: GraphView, region: _Region, readers: set[Node], part: _Part) -> tuple[str, Node | None, _Carried | None]:
    """The last node above a region that can be a node of it, and the name of its result."""
    found: tuple[str, Node | None, _Carried | None] = ("", None, None)
    for name, axis in region.sources.items():
        node = g.node_before(name)
        if node is None or (found[1] is not None and node.label < found[1].label) or not g.is_used_only_by(name, *readers):
            continue
        how = _carry(g, node, name, part._replace(axis=axis))
        if how is not None:
            found = name, node, how
    return found


def _carry(g: GraphView, node: Node, name: str, part: _Part) -> _Carried | None:
    """How a node computes the part, if it needs the same positions of its operands, and none of them as a whole too."""
    shape, is_known = g.try_infer_shape(name), node.op_type in (*_COMPUTING, *_MOVING) and len(node.output) == 1
    axes = axes_of(g, node) if is_known and not node.domain else None
    if axes is None or shape is None or (part.drops and axes.swaps):
        return None
    label = axes.results[0][part.axis]
    found = axes.parts([g.try_infer_shape(i) if i else None for i in node.input], label, shape[part.axis], part.drops)
    if found is None or not {i for place, i in enumerate(node.input) if place not in found}.isdisjoint(
        node.input[p] for p in found
    ):
        return None
    targets = axes.numbers["shape"].entries if node.op_type == "Reshape" else {}
    if part.may_be_empty and any(size == -1 for each, size in targets.items() if each != label):
        return None  # onnxruntime refuses -1 beside an empty axis
    return _Carried(found, parameters(g, node, axes.replaced({label: ()} if part.drops else {}), cut=label))


def _write(region: _Region, part: _Part, g: PatternRewriter, *nodes: Node) -> list[Node]:
    node = nodes[-1]
    names: dict[str, str] = {}
    made: list[Node] = []
    for name, axis in region.sources.items():
        if is_op(node, "Gather"):
            made.append(g.make_node("Gather", [name, node.input[1]], 1, axis=axis))
        else:
            axes = g.make_initializer("axes", np.array([axis], np.int64))
            made.append(g.make_node("Slice", [name, *node.input[1:3], axes, *node.input[4:]], 1))
        names[name] = made[-1].output[0]
    for inner, how in reversed(region.nodes.items()):
        inputs = [names[i] if place in how.operands else i for place, i in enumerate(inner.input)]
        outputs = node.output if inner.output[0] == node.input[0] else 1
        made.append(rewritten(g, inner, inputs, outputs, how.changed))
        names[inner.output[0]] = made[-1].output[0]
    return made
