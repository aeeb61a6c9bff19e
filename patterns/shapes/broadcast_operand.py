"""Operands that need no Expand or Unsqueeze, because elementwise operators broadcast them."""

from typing import ClassVar

import numpy as np

from xoptim.facts.shapes import broadcast_shapes
from xoptim.match import Example, GraphView, MatchResult, Node, PatternOptimization

from .._folding import Array
from .._nodes import axis_of, is_op, replaced_by
from .._operators import BROADCASTING, is_exponent
from .._shapes import COMBINING, broadcast_shape, same_dims, uniform_value, unstretched


class _BroadcastOperand(PatternOptimization):
    """An operator that reads a smaller tensor instead of an operand, with the same result."""

    anchors = BROADCASTING
    reason: ClassVar[str]

    def smaller(self, g: GraphView, node: Node, index: int) -> str | Array | None:
        """The smaller tensor or constant that can replace an operand, or ``None``."""
        raise NotImplementedError

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        # Only one operand is replaced: the others may be needed for the shape of the result.
        for index in range(len(node.input)):
            # (2) of ShapeBasedExpandBroadcast, (3) of UniformBroadcast
            operand = None if is_exponent(node, index) else self.smaller(g, node, index)
            if operand is not None:
                inputs = [*node.input[:index], operand, *node.input[index + 1 :]]
                return MatchResult(
                    self, [node], replaced_by(node.op_type, *inputs, **node.attribute)
                )
        return self.none(node, msg=self.reason)


class ShapeBasedExpandBroadcastPattern(_BroadcastOperand):
    """op(Expand(x), y) → op(x, y)

    What: drops an Expand, or a Tile of axes of size 1, before an elementwise operator, which
    broadcasts its operands.
    Why: saves a tensor of full size, and the nodes that compute the shape.
    Refuses when:
    1. the other operands are not known to give the result its shape.
    2. the operand is the exponent of a Pow: its shape decides how onnxruntime rounds squares.
    """

    near = ("Expand", "Tile")
    min_opset = 8
    reason = "the other operands are not known to give the result its shape"

    def smaller(self, g: GraphView, node: Node, index: int) -> str | None:
        small = unstretched(g, node.input[index])
        if small is None:
            return None
        shape = broadcast_shape(g, [*node.input[:index], small, *node.input[index + 1 :]])
        return small if same_dims(shape, g.try_infer_shape(node.output[0])) else None  # (1)

    examples = Example.pairs(
        "agraph (float[1,b] x, float[a,b] z) => (float[a,b] y) { s = Shape(z) e = Expand(x, s) "
        "y = Add(e, z) }",
        "{ y = Add(x, z) }",
        "agraph (float[1,b] x, float[3,b] z) => (float[3,b] y) <int64[2] n = {3, 1}> { "
        "e = Tile(x, n) y = Mul(z, e) }",
        "{ y = Mul(z, x) }",
        "agraph (float[1,b] x, float[a,b] z) => (float[a,b] y, float[a,b] e) { s = Shape(z) "
        "e = Expand(x, s) y = Add(e, z) }",
        "{ s = Shape(z) e = Expand(x, s) y = Add(x, z) }",
    )


class UniformBroadcastPattern(_BroadcastOperand):
    """op(ConstantOfShape(s, value), y) → op(value, y), op(Gather(t, ConstantOfShape(s, i)), y) →
    op(t[i], y)

    What: lets an elementwise operator read a scalar instead of a tensor with equal elements. The
    tensor comes from ConstantOfShape or Expand, possibly with a Cast or Reshape after it. The same
    for the row of a constant that a Gather repeats.
    Why: saves a tensor of full size, and the nodes that compute its shape.
    Refuses when:
    1. the elements are not known to be equal, or the tensor is a constant already.
    2. the other operands are not known to give the result its shape.
    3. the operand is the exponent of a Pow: its shape decides how onnxruntime rounds squares.
    """

    near = (
        "ConstantOfShape",
        "Expand",
        "Cast",
        "Reshape",
        "Unsqueeze",
        "Squeeze",
        "Transpose",
        "Tile",
        "Slice",
        "Not",
        "Neg",
        *("Gather", *COMBINING),
    )
    min_opset = 9
    reason = "no operand is a uniform tensor that the result does not need for its shape"

    def smaller(self, g: GraphView, node: Node, index: int) -> Array | None:
        name = node.input[index]
        number = None if g.is_constant(name) else _repeated(g, name)  # (1)
        if number is None:
            return None
        shape = broadcast_shape(g, [*node.input[:index], *node.input[index + 1 :]])
        # (2)
        return (
            number
            if same_dims(broadcast_shapes(shape, number.shape), g.try_infer_shape(node.output[0]))
            else None
        )

    examples = Example.pairs(
        "agraph (float[a,b] x) => (float[a,b] y) { s = Shape(x) "
        "c = ConstantOfShape <value = float[1] {1}> (s) y = Add(x, c) }",
        "<float one = {1}> { y = Add(x, one) }",
        "agraph (bool[a,b] x) => (bool[a,b] y) <float one = {1}> "
        "{ s = Shape(x) e = Expand(one, s) c = Cast <to = 9> (e) y = And(c, x) }",
        "<bool one = {1}> { y = And(one, x) }",
        "agraph (float[a,b,2] x) => (float[a,b,2] y) <float[3,2] t = {1, 2, 3, 4, 5, 6}> { "
        "s = Shape <end = 2> (x) i = ConstantOfShape <value = int64[1] {1}> (s) r = Gather(t, i) "
        "y = Add(x, r) }",
        "<float[1,1,2] r = {3, 4}> { y = Add(x, r) }",
    )


class UnsqueezeBroadcastPattern(_BroadcastOperand):
    """op(Unsqueeze(x, leading axes), y) → op(x, y)

    What: drops an Unsqueeze, or a Reshape, that adds leading axes of size 1.
    Why: one node fewer in the masks of most decoders, because broadcasting adds leading axes.
    Fusions that check the rank of a mask run before it.
    Refuses when:
    1. the axes are not the first ones, or a shape is unknown.
    2. no other operand has the rank of the result.
    """

    phase = "target"
    priority = 9
    near = ("Unsqueeze", "Reshape")
    min_opset = 7
    reason = "no operand has leading axes of size 1 that the result does not need"

    def smaller(self, g: GraphView, node: Node, index: int) -> str | None:
        movement, rank = g.node_before(node.input[index]), g.info(node.output[0]).rank
        if not is_op(movement, "Unsqueeze", "Reshape"):
            return None
        shape, source = g.try_infer_shape(node.input[index]), g.try_infer_shape(movement.input[0])
        ones = [1] * (len(shape or ()) - len(source or ()))
        ranks = [g.info(name).rank for i, name in enumerate(node.input) if i != index]
        leads = source is not None and ones and same_dims(shape, (*ones, *source))  # (1)
        return movement.input[0] if leads and rank is not None and rank in ranks else None  # (2)

    examples = Example.only(
        "agraph (float[b] x, float[a,b] z) => (float[a,b] y) <int64[1] k = {0}> { "
        "u = Unsqueeze(x, k) y = Add(u, z) }",
        "{ y = Add(x, z) }",
    )


def _repeated(g: GraphView, name: str) -> Array | None:
    """The value of a tensor with equal elements, or the row of a constant that a Gather repeats."""
    node = g.node_before(name)
    number = uniform_value(g, name)
    if number is not None or node is None or not is_op(node, "Gather"):
        return number
    index, rank, axis = (
        uniform_value(g, node.input[1]),
        g.info(node.input[1]).rank,
        axis_of(g, node),
    )
    shape = g.static_shape(node.input[0])
    if (
        index is None
        or rank is None
        or axis is None
        or shape is None
        or not -shape[axis] <= index < shape[axis]
    ):
        return None
    table = g.get_computed_constant(node.input[0])
    return (
        None
        if table is None
        else np.take(table, index, axis).reshape(*shape[:axis], *(1,) * rank, *shape[axis + 1 :])
    )
