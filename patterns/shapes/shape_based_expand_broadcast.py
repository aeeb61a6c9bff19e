from functools import partial

from xoptim.facts.families import BROADCASTING
from xoptim.match import Example, GraphView, MatchResult, Node, PatternOptimization, PatternRewriter

from .._shapes import broadcast_shape, same_dims, unstretched


class ShapeBasedExpandBroadcastPattern(PatternOptimization):
    """op(Expand(x), y) → op(x, y)

    What: an elementwise operator broadcasts its operands itself, those that Tile repeats along axes of size 1 included.
    Why: saves a tensor of the full size, and the chain that computes the shape.
    Refuses when:
    1. the other operands are not known to give the result its shape.
    """

    anchors = BROADCASTING
    near = ("Expand", "Tile")
    min_opset = 8

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        # One operand at a time: of two that are stretched to the same shape, one may have to stay to give that shape.
        result = g.try_infer_shape(node.output[0])
        for position, name in enumerate(node.input):
            small = unstretched(g, name)
            if small is not None:
                inputs = [*node.input[:position], small, *node.input[position + 1 :]]
                if same_dims(broadcast_shape(g, inputs), result):
                    return MatchResult(self, [node], partial(self._with_inputs, inputs))
        return self.none(node, msg="the result needs the stretched operand for its shape")  # (1)

    def _with_inputs(self, inputs: list[str], g: PatternRewriter, node: Node) -> list[Node]:
        return [g.make_node(node.op_type, inputs, node.output, **node.attribute)]

    examples = (
        Example(
            "agraph (float[1,b] x, float[a,b] z) => (float[a,b] y) { s = Shape(z) e = Expand(x, s) y = Add(e, z) }",
            "{ y = Add(x, z) }",
        ),
        Example(
            "agraph (float[1,b] x, float[3,b] z) => (float[3,b] y) <int64[2] n = {3, 1}> { e = Tile(x, n) y = Mul(z, e) }",
            "{ y = Mul(z, x) }",
        ),
    )
