"""A tensor full of one number where the number is enough."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from xoptim.facts.families import BROADCASTING
from xoptim.match import Example, GraphView, MatchResult, Node, PatternOptimization, PatternRewriter

from .._shapes import broadcast_shape, same_dims, uniform_value


class UniformBroadcastPattern(PatternOptimization):
    """op(ConstantOfShape(s, value), y) → op(value, y)

    What: gives an elementwise operator the number instead of a tensor full of it, which ConstantOfShape or Expand made and
    which may be cast or reshaped afterwards.
    Why: saves a tensor of the full size, and the chain that computes its shape.
    Refuses when:
    1. the tensor is not known to hold one number only, or it is a constant already.
    2. the other operands are not known to give the result its shape.
    """

    anchors = BROADCASTING
    near = ("ConstantOfShape", "Expand", "Cast", "Reshape", "Unsqueeze", "Squeeze", "Transpose", "Tile", "Slice", "Not", "Neg")
    min_opset = 9

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        """One operand at a time."""
        result = g.try_infer_shape(node.output[0])
        for position, name in enumerate(node.input):
            number = None if g.is_constant(name) else uniform_value(g, name)  # (1)
            if number is not None:
                others = [*node.input[:position], *node.input[position + 1 :]]
                if same_dims(broadcast_shape(g, others), result):
                    return MatchResult(self, [node], partial(self._with_number, number, position))
        return self.none(node, msg="no operand is a tensor full of one number that the shape does not need")  # (2)

    def _with_number(self, number: np.ndarray, position: int, g: PatternRewriter, node: Node) -> list[Node]:
        inputs = [*node.input[:position], g.make_initializer("", number, source="value"), *node.input[position + 1 :]]
        return [g.make_node(node.op_type, inputs, node.output, **node.attribute)]

    @classmethod
    def examples(cls) -> Sequence[Example]:
        """The export of ``x + torch.ones_like(x)``, and a mask that hides nothing."""
        return (
            Example(
                "agraph (float[a,b] x) => (float[a,b] y) "
                "{ s = Shape(x) c = ConstantOfShape <value = float[1] {1}> (s) y = Add(x, c) }",
                "agraph (float[a,b] x) => (float[a,b] y) <float one = {1}> { y = Add(x, one) }",
            ),
            Example(
                "agraph (bool[a,b] x) => (bool[a,b] y) <float one = {1}> "
                "{ s = Shape(x) e = Expand(one, s) c = Cast <to = 9> (e) y = And(c, x) }",
                "agraph (bool[a,b] x) => (bool[a,b] y) <bool one = {1}> { y = And(one, x) }",
            ),
        )
