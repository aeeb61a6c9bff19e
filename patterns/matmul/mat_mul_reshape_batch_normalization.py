import math
from functools import partial
from typing import Final

import numpy as np

from xoptim.match import Example, GraphView, MatchResult, Node, PatternOptimization, PatternRewriter

from .._channels import affine_of, is_inference_normalization, per_channel, scaled_weights
from .._folding import Array, constant, rounded
from .._nodes import is_op, permutation

_MOVING: Final = ("Flatten", "Reshape", "Squeeze", "Transpose", "Unsqueeze")
_MAX_MOVEMENTS: Final = 4


class MatMulReshapeBatchNormalizationPattern(PatternOptimization):
    """BatchNormalization(Flatten(MatMul(x, w))) → Flatten(MatMul(x, w') + b)

    What: folds the scale of the normalization into the columns of the weight, and adds its shift as
    a bias. The MatMul may have a bias. The same through several Flatten, Reshape, Transpose,
    Squeeze and Unsqueeze.
    Why: the channels of BatchNormalization are the second axis. So torch models, such as LeViT,
    merge all other axes before each normalization, and split them after it. Without the
    normalization, the two movements are adjacent and cancel.
    Refuses when:
    1. the weight is not a constant matrix stored in the model, or another node reads it. Or the
       channels of the normalization are not known to be its columns.
    2. a parameter of the normalization is not constant, a variance is negative, or a factor is not
       finite. Or a mean is very large compared with its standard deviation.
    3. a new constant leaves the range of its type, or a sum with the bias might.
    4. an intermediate result has other consumers.
    """

    exactness = "rounding"
    min_opset = 7
    anchors = ("BatchNormalization",)
    near = ("Add", "MatMul", *_MOVING)
    radius = _MAX_MOVEMENTS + 2

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        if not is_inference_normalization(node):  # (2)
            return self.none(node, msg="the normalization may be in training mode")
        movements, axis = _movements(g, node.input[0])
        steps = _sum(g, movements[0].input[0]) if movements else []
        if not steps:  # (1)
            return self.none(
                node, msg="no MatMul with a following Reshape, Transpose, ... precedes it"
            )
        matmul = steps[0]
        if not all(g.is_exclusive(step.output[0]) for step in (*steps, *movements)):  # (4)
            return self.none(node, msg="an intermediate result has other consumers")
        weight, rank = matmul.input[1], g.info(matmul.output[0]).rank
        shape = g.static_shape(weight)
        # (1)
        if (
            shape is None
            or len(shape) != 2
            or rank is None
            or rank < 2
            or not g.is_stored(weight)
            or not g.is_exclusive(weight)
        ):
            return self.none(matmul, msg="the weight is not a stored matrix, or is read elsewhere")
        if axis != rank - 1:  # (1)
            return self.none(node, msg="its channels are not known to be the columns of the MatMul")
        affine = affine_of(g, node, node.input[0])  # (2)
        if len(affine.scale) != shape[1]:  # (1)
            return self.none(node, msg="the number of channels is not that of the columns")
        present = np.zeros(shape[1])
        for add in steps[1:]:
            addend = add.input[1 - [*add.input].index(matmul.output[0])]
            present = per_channel(g, addend, rank, shape[1], rank - 1)  # (1)
            rounded(present, constant(g, weight).dtype, terms=())  # (3)
        scaled = scaled_weights(g, weight, affine.scale, summed=0)  # (3)
        bias = affine.bias(present, scaled.dtype)  # (3)
        nodes = [*steps, *movements, node]
        return MatchResult(
            self, nodes, partial(self._move, matmul.input[0], scaled, bias, movements)
        )

    def _move(
        self,
        x: str,
        weight: Array,
        bias: Array,
        movements: list[Node],
        g: PatternRewriter,
        *nodes: Node,
    ) -> list[Node]:
        name = g.op.Add(g.op.MatMul(x, weight), bias)
        written = [*g.created]
        for movement in movements:
            is_last = movement is movements[-1]
            result = nodes[-1].output[0] if is_last else g.unique_name(movement.output[0])
            written.append(
                g.make_node(
                    movement.op_type, [name, *movement.input[1:]], [result], **movement.attribute
                )
            )
            name = result
        return written

    _before = (
        "<float[2,2] w = {1, 2, 3, 4}, float[2] s = {2, 4}, float[2] o = {0, 1}, float[2] m = {1, "
        "0}, float[2] v = {0.75, 3.75}"
    )
    _after = "<float[2,2] w = {2, 4, 6, 8}, float[2] c = {-2, 1}"
    examples = Example.pairs(
        f"agraph (float[a,b,2] x) => (float[c,2] y) {_before}> {{ t = MatMul(x, w) "
        "f = Flatten <axis = 2> (t) y = BatchNormalization <epsilon = 0.25> (f, s, o, m, v) }",
        f"agraph (float[a,b,2] x) => (float[c,2] y) {_after}> {{ t = MatMul(x, w) u = Add(t, c) "
        "y = Flatten <axis = 2> (u) }",
        f"agraph (float[a,b,2] x) => (float[c,2] y) {_before}, int64[2] z = {{-1, 2}}> {{ "
        "t = MatMul(x, w) f = Reshape(t, z) "
        "y = BatchNormalization <epsilon = 0.25> (f, s, o, m, v) }",
        f"agraph (float[a,b,2] x) => (float[c,2] y) {_after}, int64[2] z = {{-1, 2}}> "
        "{ t = MatMul(x, w) u = Add(t, c) y = Reshape(u, z) }",
        f"agraph (float[a,b,2] x) => (float[a,2,b,1] y) {_before}, int64[1] "
        "i = {3}> { t = MatMul(x, w) p = Transpose <perm = [0, 2, 1]> (t) "
        "f = Unsqueeze(p, i) y = BatchNormalization <epsilon = 0.25> (f, s, o, m, v) }",
        "agraph (float[a,b,2] x) => (float[a,2,b,1] y) <float[2,2] w = {2, 4, 6, 8}, float[2] c = "
        "{-2, 1}, int64[1] i = {3}> { t = MatMul(x, w) u = Add(t, c) "
        "p = Transpose <perm = [0, 2, 1]> (u) y = Unsqueeze(p, i) }",
        opset=13,
    )


def _sum(g: GraphView, name: str) -> list[Node]:
    """The MatMul that computes ``name``, and the Add of its result if there is one; else empty."""
    last = g.node_before(name)
    if is_op(last, "Add"):
        matmul = next((op for op in map(g.node_before, last.input) if is_op(op, "MatMul")), None)
        return [] if matmul is None else [matmul, last]
    return [last] if is_op(last, "MatMul") else []


def _movements(g: GraphView, name: str) -> tuple[list[Node], int | None]:
    """The movements that compute ``name``, in order, and the axis that they move to axis 1.

    The axis is ``None`` if it is not known.
    """
    nodes: list[Node] = []
    axis: int | None = 1
    while is_op(node := g.node_before(name), *_MOVING) and len(nodes) < _MAX_MOVEMENTS:
        axis = None if axis is None else _axis_before(g, node, axis)
        nodes, name = [node, *nodes], node.input[0]
    return nodes, axis


def _axis_before(g: GraphView, node: Node, axis: int) -> int | None:
    """The axis of the operand of a movement that becomes an axis of its result."""
    if node.op_type == "Transpose":
        perm = permutation(g, node)
        return perm[axis] if perm is not None and axis < len(perm) else None
    source, result = (g.try_infer_shape(name) for name in (node.input[0], node.output[0]))
    if source is None or result is None or axis >= len(result):
        return None
    inner_size = math.prod(result[axis + 1 :])
    return next(
        (
            index
            for index, size in enumerate(source)
            if size == result[axis] and math.prod(source[index + 1 :]) == inner_size
        ),
        None,
    )
