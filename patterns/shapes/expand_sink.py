from collections.abc import Sequence
from functools import partial

from xoptim.facts.info import Shape
from xoptim.match import Example, GraphView, MatchResult, Node, PatternOptimization, PatternRewriter
from xoptim.match.regions import region_below

from .._shapes import unstretched
from ._expand import carried, is_read_from_outside

_LARGEST = 32


class ExpandSinkPattern(PatternOptimization):
    """g(... f(Expand(x)) ..., y) → g(... f(x) ..., y)

    What: drops an Expand, so that elementwise operators, Unsqueeze, Transpose and the indices of Gather work on the small
    tensor, until operators that broadcast restore the shape.
    Why: masks are expanded for the batch long before the first sum that broadcasts anyway; all results in between shrink too.
    Refuses when:
    1. a reader is another operator, one that onnxruntime rounds by the place of an element, or there are too many.
    2. a result that would shrink is an output, or a subgraph reads it.
    3. a shape is unknown.
    4. the readers are too far apart to be replaced together.
    """

    anchors = ("Expand", "Tile")
    min_opset = 8
    radius = 8

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        """Walk down in the order of the graph, so that all operands of a node are settled before it."""
        small = unstretched(g, node.output[0])
        shape = None if small is None else g.try_infer_shape(small)
        if small is None or shape is None:
            return self.none(node, msg="it repeats more than axes of size 1, or the shape is unknown")
        shrunk: dict[str, Shape] = {node.output[0]: shape}
        region = region_below(g, shrunk, partial(carried, g, shrunk), _LARGEST)
        if region.stopped is not None:  # (1) (3)
            return self.none(region.stopped, msg="a reader cannot work on the small tensor")
        outside = next((name for name in shrunk if is_read_from_outside(g, name)), None)
        if outside is not None:  # (2)
            return self.none(g.node_before(outside), msg="its result would shrink, and it is read from outside")
        if not region.nodes or not _are_together(g, [node, *region.nodes]):  # (4)
            return self.none(node, msg="the readers are too far apart")
        return MatchResult(self, [node, *region.nodes], partial(self._without, small, tuple(shrunk)))

    def _without(self, small: str, shrunk: Sequence[str], g: PatternRewriter, node: Node, *region: Node) -> list[Node]:
        names = {node.output[0]: small}
        names |= {name: g.unique_name(name) for name in shrunk[1:]}
        return [
            g.make_node(n.op_type, [names.get(i, i) for i in n.input], [names.get(o, o) for o in n.output], **n.attribute)
            for n in region
        ]

    examples = (
        Example(
            "agraph (float[b,h,s,s] x, int64[b,1,1,s] m) => (float[b,h,s,s] y) <float one = {1}, int64[1] k = {1}> "
            "{ i = Shape <end = 1> (x) j = Shape <start = 3> (m) t = Concat <axis = 0> (i, k, j, j) e = Expand(m, t) "
            "c = Cast <to = 1> (e) n = Sub(one, c) y = Add(x, n) }",
            "<float one = {1}> { c = Cast <to = 1> (m) n = Sub(one, c) y = Add(x, n) }",
        ),
        Example(
            "agraph (float[b,s,2] x, int64[s] p) => (float[b,s,2] y) <float[3,2] w = {1, 2, 3, 4, 5, 6}> "
            "{ i = Shape <end = 2> (x) e = Expand(p, i) g = Gather(w, e) y = Add(x, g) }",
            "<float[3,2] w = {1, 2, 3, 4, 5, 6}> { g = Gather(w, p) y = Add(x, g) }",
            ranges=(("p", 0, 2),),
        ),
    )


def _are_together(g: GraphView, nodes: list[Node]) -> bool:
    """Whether all operands of the nodes come before all readers of their results."""
    producers = [g.node_before(name) for node in nodes for name in node.input]
    readers = [reader for node in nodes for name in node.output for reader in g.next_nodes(name) if reader not in nodes]
    needed = [producer.label for producer in producers if producer is not None and producer not in nodes]
    return max(needed, default=0) < min((reader.label for reader in readers), default=1 << 62)
