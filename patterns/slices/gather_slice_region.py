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

_MAX_NODES: Final = 64
"""Maximum nodes of a region."""
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
"""Operators that a region may contain in addition to `_COMPUTING`."""


class _Part(NamedTuple):
    """A slice of one axis of a result.

    Attributes:
        axis: counted from the front.
        drops: whether the axis is removed: one index is taken.
        may_be_empty: whether the slice may have size 0.
    """

    axis: int
    drops: bool
    may_be_empty: bool


class GatherSliceRegionPattern(PatternOptimization):
    """Gather(f(x), i) → f(Gather(x, i)), or Slice(f(x)) → f(Slice(x))

    What: takes one index of an axis, or at most half of the axis, before operators that compute
    indices independently. These are elementwise operators, rows of MatMuls, normalizations and
    Softmax along other axes, Transpose and Reshape.
    Why: all other indices are not computed. A language model computes the logits of the last token
    only. A classifier computes its last layer for the first token only: an image classifier of four
    layers takes 0.90 of the time.
    Refuses when:
    1. the Gather or Slice is not along one axis, or takes several indices that are not known to be
       at most half of a static size.
    2. results have other consumers, or an operator needs several indices for one: the region ends
       there.
    3. several tensors would have to be sliced: the region ends before that.
    4. the region has no operator that computes.
    """

    anchors = ("Slice", "Gather")
    near = (*_COMPUTING, *_MOVING)
    phase = "specialize"
    exactness = "rounding"
    min_opset = 13
    radius = 8

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        part = _part_of(g, node)
        if part is None:  # (1)
            return self.none(node, msg="not a small slice of one axis")
        full_region = region_above(g, node, part.axis, partial(_carry, g, part), _MAX_NODES)
        region = _of_one_source(g, node, full_region)
        if region is None:  # (2) (3) (4)
            return self.none(
                full_region.stopped or node,
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
    """The slice that a Slice or Gather takes, if it is small; otherwise ``None``."""
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
    size, count = shape[axis], 1 if drops else result[axis]
    upper, lower = upper_bound(count), lower_bound(count)
    if upper is None or not (2 * upper <= size if isinstance(size, int) else upper <= 1):
        return None
    return _Part(axis, drops, may_be_empty=not lower)


def _of_one_source(g: GraphView, node: Node, region: AxisRegion) -> AxisRegion | None:
    """The largest part of a region that needs a slice of one tensor only, or ``None``.

    Slices of constants do not count if the indices are constant, because they are folded. The part
    has an operator that computes.
    """
    is_free = all(g.is_constant(name) for name in node.input[1:] if name)
    for count in range(len(region.nodes), 0, -1):
        subregion = region.first(count)
        needed = [name for name in subregion.sources if not (is_free and g.is_constant(name))]
        if len(needed) <= 1 and any(n.op_type not in _MOVING for n in subregion.nodes):
            return subregion
    return None


def _carry(g: GraphView, part: _Part, node: Node, axis: int) -> Carried | None:
    """The form of a node that computes a slice of its result along an axis.

    ``None`` unless it needs the same slice of its operands.
    """
    shape, axes = (
        g.try_infer_shape(node.output[0]),
        axes_of(g, node) if node.op_type in (*_COMPUTING, *_MOVING) else None,
    )
    if axes is None or shape is None or (part.drops and axes.swaps):
        return None
    label = axes.results[0][axis]
    parts = axes.parts(
        [g.try_infer_shape(name) for name in node.input], label, shape[axis], part.drops
    )
    targets = axes.numbers["shape"].entries if node.op_type == "Reshape" else {}
    if parts is None or (
        part.may_be_empty and any(size == -1 for key, size in targets.items() if key != label)
    ):
        return None  # onnxruntime refuses -1 next to a dimension of size 0
    return Carried(
        parts, parameters(g, node, axes.replaced({label: ()} if part.drops else {}), cut=label)
    )


def _write(region: AxisRegion, part: _Part, g: PatternRewriter, *nodes: Node) -> list[Node]:
    node = nodes[-1]
    names: dict[str, str] = {}
    slices: list[Node] = []
    for name, axis in region.sources.items():
        if is_op(node, "Gather"):
            slices.append(g.make_node("Gather", [name, node.input[1]], 1, axis=axis))
        else:
            axes = g.make_initializer("axes", np.array([axis], np.int64))
            slices.append(g.make_node("Slice", [name, *node.input[1:3], axes, *node.input[4:]], 1))
        names[name] = slices[-1].output[0]
    return [*slices, *region.written(g, names, {node.input[0]: node.output})]
