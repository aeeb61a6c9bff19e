from functools import partial
from typing import Final, NamedTuple

import numpy as np
from onnx import TensorProto

from xoptim.facts.dims import lower_bound, upper_bound
from xoptim.match import Example, GraphView, MatchResult, Node, PatternOptimization, PatternRewriter
from xoptim.match.axes import parameters
from xoptim.match.regions import AxisRegion, Carried, region_above
from xoptim.operators.axes import axis_of
from xoptim.operators.registry import axes_of

from .._nodes import is_op
from .._operators import BROADCASTING, ELEMENTWISE, REDUCTIONS

_LARGEST: Final = 64
"""Most nodes of a region."""
_COMPUTING: Final = (
    *(*BROADCASTING, *REDUCTIONS, *sorted(ELEMENTWISE - {"Cast"})),
    "Gemm",
    "LayerNormalization",
    "LogSoftmax",
    "MatMul",
    "RMSNormalization",
    "Softmax",
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


class GatherSliceRegionPattern(PatternOptimization):
    """Gather(f(x), i) → f(Gather(x, i)), and Slice

    What: takes one position of an axis, or at most half of them, before all operators that compute
    the positions one by one: elementwise ones, rows of MatMuls, normalizations and Softmax along
    other axes, Transpose, Reshape.
    Why: the rest is not computed. A language model computes the scores of the last token only, a
    classifier the last layer of its first token only: an image classifier of four layers takes 0.90
    of the time.
    Refuses when:
    1. it is not a part of one axis with a known number of positions: one, or at most half of a
       known size.
    2. something else reads the results, or an operator needs several positions for one: the region
       ends there.
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
        part = _part_of(g, node)
        if part is None:  # (1)
            return self.none(node, msg="not a small slice of one axis")
        largest = region_above(g, node, part.axis, partial(_carry, g, part), _LARGEST)
        region = _of_one_source(g, node, largest)
        if region is None:  # (2) (3) (4)
            return self.none(
                largest.stopped or node,
                msg="no preceding operator could run on the slice alone",
            )
        return MatchResult(self, [*reversed(region.nodes), node], partial(_write, region, part))

    examples = Example.pairs(
        "agraph (float[b,s,4] x) => (float[b,3] y) <float[4,3] w = {1,2,3,4,5,6,7,8,9,8,7,6}, "
        "int64 i = {-1}> { m = MatMul(x, w) y = Gather <axis = 1> (m, i) }",
        "<float[4,3] w = {1,2,3,4,5,6,7,8,9,8,7,6}, int64 i = {-1}> { "
        "g = Gather <axis = 1> (x, i) y = MatMul(g, w) }",
        "agraph (float[b,s,4] x) => (float[b,t,4] y) <float[4] n = {1,2,1,2}, int64[1] o = {0}, "
        "int64[1] e = {1}> { l = LayerNormalization(x, n) r = Relu(l) a = Add(x, r) h = Tanh(a) "
        "y = Slice(h, o, e, e) }",
        "<float[4] n = {1,2,1,2}, int64[1] o = {0}, int64[1] e = {1}> { p = Slice(x, o, e, e) "
        "l = LayerNormalization(p, n) r = Relu(l) a = Add(p, r) y = Tanh(a) }",
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
        if (
            not isinstance(axes, list)
            or len(axes) != 1
            or g.try_infer_type(node.input[1]) != TensorProto.INT64
        ):
            return None
        axis = axes[0] % len(shape)
    size, taken = shape[axis], 1 if drops else result[axis]
    most, least = upper_bound(taken), lower_bound(taken)
    if most is None or not (2 * most <= size if isinstance(size, int) else most <= 1):
        return None
    return _Part(axis, drops, may_be_empty=not least)


def _of_one_source(g: GraphView, node: Node, region: AxisRegion) -> AxisRegion | None:
    """The largest part of a region that computes, and takes its part of one value, besides
    constants if the part is known.
    """
    is_free = all(g.is_constant(name) for name in node.input[1:] if name)
    for count in range(len(region.nodes), 0, -1):
        found = region.first(count)
        needed = [name for name in found.sources if not (is_free and g.is_constant(name))]
        if len(needed) <= 1 and any(n.op_type not in _MOVING for n in found.nodes):
            return found
    return None


def _carry(g: GraphView, part: _Part, node: Node, place: int) -> Carried | None:
    """How a node computes the part of its result, whose axis is given, if it needs the same
    positions of its operands.
    """
    shape, axes = (
        g.try_infer_shape(node.output[0]),
        axes_of(g, node) if node.op_type in (*_COMPUTING, *_MOVING) else None,
    )
    if axes is None or shape is None or (part.drops and axes.swaps):
        return None
    label = axes.results[0][place]
    found = axes.parts(
        [g.try_infer_shape(name) for name in node.input], label, shape[place], part.drops
    )
    targets = axes.numbers["shape"].entries if node.op_type == "Reshape" else {}
    if found is None or (
        part.may_be_empty and any(size == -1 for each, size in targets.items() if each != label)
    ):
        return None  # onnxruntime refuses -1 next to an empty axis
    return Carried(
        found, parameters(g, node, axes.replaced({label: ()} if part.drops else {}), cut=label)
    )


def _write(region: AxisRegion, part: _Part, g: PatternRewriter, *nodes: Node) -> list[Node]:
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
    return [*made, *region.written(g, names, {node.input[0]: node.output})]
