from functools import partial

import numpy as np

from xoptim.facts.families import BROADCASTING
from xoptim.facts.shapes import broadcast_shapes
from xoptim.match import Example, GraphView, MatchResult, Node, PatternOptimization, PatternRewriter

from .._axes import axis_of
from .._folding import Array
from .._nodes import is_op
from .._shapes import COMBINING, broadcast_shape, same_dims, uniform_value


class UniformBroadcastPattern(PatternOptimization):
    """op(ConstantOfShape(s, value), y) → op(value, y), op(Gather(t, ConstantOfShape(s, i)), y) → op(t[i], y)

    What: gives an elementwise operator the number instead of a tensor full of it, which ConstantOfShape or Expand made and
    which may be cast or reshaped afterwards; and the row of a constant table that all positions take.
    Why: saves a tensor of the full size, and the chain that computes its shape.
    Refuses when:
    1. the tensor is not known to hold one number only, or it is a constant already.
    2. the other operands are not known to give the result its shape.
    """

    anchors = BROADCASTING
    near = (
        *("ConstantOfShape", "Expand", "Cast", "Reshape", "Unsqueeze", "Squeeze", "Transpose", "Tile", "Slice", "Not", "Neg"),
        *("Gather", *COMBINING),
    )
    min_opset = 9

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        # One operand at a time.
        result = g.try_infer_shape(node.output[0])
        for position, name in enumerate(node.input):
            number = None if g.is_constant(name) else _repeated(g, name)  # (1)
            if number is not None:
                others = broadcast_shape(g, [*node.input[:position], *node.input[position + 1 :]])
                if same_dims(broadcast_shapes(others, number.shape), result):
                    return MatchResult(self, [node], partial(self._with_number, number, position))
        return self.none(node, msg="no operand is a tensor full of one number that the shape does not need")  # (2)

    def _with_number(self, number: np.ndarray, position: int, g: PatternRewriter, node: Node) -> list[Node]:
        inputs = [*node.input[:position], g.make_initializer("", number, source="value"), *node.input[position + 1 :]]
        return [g.make_node(node.op_type, inputs, node.output, **node.attribute)]

    examples = (
        Example(
            "agraph (float[a,b] x) => (float[a,b] y) "
            "{ s = Shape(x) c = ConstantOfShape <value = float[1] {1}> (s) y = Add(x, c) }",
            "<float one = {1}> { y = Add(x, one) }",
        ),
        Example(
            "agraph (bool[a,b] x) => (bool[a,b] y) <float one = {1}> "
            "{ s = Shape(x) e = Expand(one, s) c = Cast <to = 9> (e) y = And(c, x) }",
            "<bool one = {1}> { y = And(one, x) }",
        ),
        Example(
            "agraph (float[a,b,2] x) => (float[a,b,2] y) <float[3,2] t = {1, 2, 3, 4, 5, 6}> "
            "{ s = Shape <end = 2> (x) i = ConstantOfShape <value = int64[1] {1}> (s) r = Gather(t, i) y = Add(x, r) }",
            "<float[1,1,2] r = {3, 4}> { y = Add(x, r) }",
        ),
    )


def _repeated(g: GraphView, name: str) -> Array | None:
    """The number that a tensor is full of, or the row of a constant table that it repeats."""
    node = g.node_before(name)
    number = uniform_value(g, name)
    if number is not None or node is None or not is_op(node, "Gather"):
        return number
    index, rank, axis = uniform_value(g, node.input[1]), g.info(node.input[1]).rank, axis_of(g, node)
    shape = g.static_shape(node.input[0])
    if index is None or rank is None or axis is None or shape is None or not -shape[axis] <= index < shape[axis]:
        return None
    table = g.get_computed_constant(node.input[0])
    return None if table is None else np.take(table, index, axis).reshape(*shape[:axis], *(1,) * rank, *shape[axis + 1 :])
