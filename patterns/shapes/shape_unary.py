from xoptim.facts.families import SHAPE_KEEPING
from xoptim.match import Example, GraphView, MatchResult, Node, PatternOptimization

from .._nodes import is_op, replaced_by


class ShapeUnaryPattern(PatternOptimization):
    """Shape(f(x)) → Shape(x), where f keeps the shape

    What: reads the shape of an earlier tensor.
    Why: a tensor that is read only for its shape is not computed; the others can be freed earlier.
    Refuses when:
    1. the tensor is not made by an operator whose result has the shape of its first operand.
    """

    anchors = ("Shape", "Size")
    near = tuple(sorted(SHAPE_KEEPING))

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        name = node.input[0]
        producer = g.node_before(name)
        while is_op(producer, *SHAPE_KEEPING) and producer.output[0] == name and producer.input[0]:
            name = producer.input[0]
            producer = g.node_before(name)
        if name == node.input[0]:  # (1)
            return self.none(node, msg="its operand is not made by an operator that keeps the shape")
        return MatchResult(self, [node], replaced_by(node.op_type, name, **node.attribute))

    examples = Example.only(
        "agraph (float[a,b] x) => (int64[2] y) { n = NonZero(x) t = Cast <to = 1> (n) r = Exp(t) y = Shape(r) }",
        "{ n = NonZero(x) y = Shape(n) }",
    )
