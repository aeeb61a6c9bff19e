from functools import partial

from xoptim.facts.families import BROADCASTING, ELEMENTWISE
from xoptim.facts.info import Shape
from xoptim.facts.shapes import broadcast_shapes
from xoptim.match import Example, GraphView, MatchResult, Node, PatternOptimization, PatternRewriter
from xoptim.match.regions import Carried, region_below

from .._shapes import same_dims
from ._expand import carried, is_read_from_outside

_LARGEST = 32


class ShapeBasedExpandSwapPattern(PatternOptimization):
    """g(f(Expand(x, s))) → Expand(g(f(x)), s)

    What: elementwise operators work on the small tensor and their result is stretched, even where several read the Expand
    and one operator reads their results.
    Why: less to compute; and the reader of the result often broadcasts anyway, so that the Expand is removed altogether.
    Refuses when:
    1. the shape s or one of those concerned is unknown.
    2. more than one result would have to be stretched, or the Expand itself is still read.
    3. the result has another shape than the Expand.
    4. an operator is one that onnxruntime rounds by the place of an element.
    """

    anchors = ("Expand",)
    min_opset = 8
    radius = 8
    priority = 1

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        # Add readers, in the order of the graph, as long as all their operands come before the Expand.
        shape, sizes = g.try_infer_shape(node.input[0]), g.info(node.input[1]).data or g.get_ints(node.input[1])
        if shape is None or sizes is None:  # (1)
            return self.none(node, msg="a shape is unknown")
        shrunk: dict[str, Shape] = {node.output[0]: shape}
        region = region_below(g, shrunk, partial(_carry, g, node, shrunk), _LARGEST).nodes
        leaves = [n for n in shrunk if is_read_from_outside(g, n) or any(r not in region for r in g.next_nodes(n))]
        if len(leaves) != 1 or leaves[0] == node.output[0]:  # (2)
            return self.none(node, msg="not exactly one other result would have to be stretched")
        if not same_dims(broadcast_shapes(shrunk[leaves[0]], tuple(sizes)), g.try_infer_shape(leaves[0])):  # (3)
            return self.none(node, msg="the result has another shape")
        return MatchResult(self, [node, *region], partial(self._swap, leaves[0]))

    def _swap(self, leaf: str, g: PatternRewriter, node: Node, *region: Node) -> list[Node]:
        names = {node.output[0]: node.input[0]} | {n.output[0]: g.unique_name(n.output[0]) for n in region}
        return [
            *(g.make_node(n.op_type, [names.get(i, i) for i in n.input], [names[n.output[0]]], **n.attribute) for n in region),
            g.make_node("Expand", [names[leaf], node.input[1]], [leaf]),
        ]

    examples = Example.only(
        "agraph (float[b,1,s] m, float[b,s,s] z) => (float[b,s,s] y) <float one = {1}, float low = {-100}> "
        "{ t = Shape(z) e = Expand(m, t) n = Sub(one, e) c = Cast <to = 9> (n) y = Where(c, low, n) }",
        "<float one = {1}, float low = {-100}> { n = Sub(one, m) c = Cast <to = 9> (n) w = Where(c, low, n) t = Shape(z) "
        "y = Expand(w, t) }",
    )


def _carry(g: GraphView, node: Node, shrunk: dict[str, Shape], reader: Node) -> Carried | None:
    """How an elementwise reader works on small operands, if its other operands are computed before the Expand. (4)"""
    producers = [g.node_before(name) for name in reader.input if name not in shrunk]
    is_elementwise = reader.op_type in BROADCASTING or reader.op_type in ELEMENTWISE
    if not is_elementwise or not all(producer is None or producer.label < node.label for producer in producers):
        return None
    known = len(shrunk)
    found = carried(g, shrunk, reader)
    return found if len(shrunk) > known else None
