from functools import partial

from xoptim.facts.families import BROADCASTING
from xoptim.match import Example, GraphView, MatchResult, Node, PatternOptimization, PatternRewriter

from .._nodes import is_op
from .._shapes import same_dims


class UnsqueezeBroadcastPattern(PatternOptimization):
    """op(Unsqueeze(x, leading axes), y) → op(x, y)

    What: reads the tensor before Unsqueeze, or Reshape, put axes of size 1 in front of it.
    Why: elementwise operators align shapes from the last axis on: one node less, in the masks of most decoders; fusions
    that look at the rank of a mask run before.
    Refuses when:
    1. the axes are not the first ones, or a shape is unknown.
    2. no other operand has the rank of the result.
    """

    phase = "target"
    priority = 9
    anchors = BROADCASTING
    near = ("Unsqueeze", "Reshape")
    min_opset = 7

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        # One operand at a time: of two, one may have to stay to give the rank.
        rank = g.info(node.output[0]).rank
        for position, name in enumerate(node.input):
            movement = g.node_before(name)
            if not is_op(movement, "Unsqueeze", "Reshape"):
                continue
            shape, source = g.try_infer_shape(name), g.try_infer_shape(movement.input[0])
            ones = [1] * (len(shape or ()) - len(source or ()))
            others = [g.info(each).rank for place, each in enumerate(node.input) if place != position]
            leads = source is not None and ones and same_dims(shape, (*ones, *source))  # (1)
            if leads and rank is not None and rank in others:  # (2)
                return MatchResult(self, [node], partial(self._with_operand, position, movement.input[0]))
        return self.none(node, msg="no operand has leading axes of size 1 that its result does not need")

    def _with_operand(self, position: int, name: str, g: PatternRewriter, node: Node) -> list[Node]:
        inputs = [*node.input[:position], name, *node.input[position + 1 :]]
        return [g.make_node(node.op_type, inputs, node.output, **node.attribute)]

    examples = (
        Example(
            "agraph (float[b] x, float[a,b] z) => (float[a,b] y) <int64[1] k = {0}> { u = Unsqueeze(x, k) y = Add(u, z) }",
            "{ y = Add(x, z) }",
        ),
    )
