from xoptim.match import Example, GraphView, MatchResult, Node, PatternOptimization

from .._nodes import replaced_by
from .._shapes import axes_part, dynamic_sizes, find_run, measured_tensors


class ShapeVectorPattern(PatternOptimization):
    """Concat, Unsqueeze, Gather, ... of sizes → Shape(t, start, end)

    What: one Shape instead of a chain of nodes that computes dimensions of one tensor. The Shape
    reads a graph input if possible.
    Why: one small node instead of a chain. An intermediate tensor that is only read for its shape
    is not computed any more.
    Refuses when:
    1. an element is unknown, or no element is a symbol: such a vector is a constant.
    2. no available tensor has these consecutive axes. Or the operator set is below 15, and the
       tensor has other axes as well.
    3. the node is the Shape of an input already, or no input has the axes.
    """

    anchors = (
        "Shape",
        "Concat",
        "Unsqueeze",
        "Gather",
        "Slice",
        "Where",
        "Reshape",
        "Expand",
        "Cast",
        "Squeeze",
    )

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        # Try graph inputs first, then the tensors whose Shape the chain reads.
        sizes = dynamic_sizes(g, node.output[0])
        if sizes is None:  # (1)
            return self.none(
                node, msg="not a vector of known dimensions that includes a dynamic one"
            )
        candidates = g.given_tensors(next(([d] for d in sizes if not isinstance(d, int)), []))
        if node.op_type != "Shape":
            candidates += measured_tensors(g, node)
        elif any(name == node.input[0] for name, _ in candidates):  # (3)
            return self.none(node, msg="the node is the Shape of an input already")
        for name, shape in candidates:
            start = find_run(shape, sizes)
            if start is not None and (len(shape) == len(sizes) or g.main_opset >= 15):
                return MatchResult(
                    self,
                    [node],
                    replaced_by("Shape", name, **axes_part(shape, start, len(sizes))),
                )
        return self.none(node, msg="no tensor has these axes in a row")  # (2)

    examples = Example.pairs(
        "agraph (float[a,b,c] x) => (int64[2] y) <int64 zero = {0}, int64 one = {1}, "
        "int64[1] axis = {0}> { s = Shape(x) i = Gather(s, zero) j = Gather(s, one) "
        "k = Unsqueeze(i, axis) l = Unsqueeze(j, axis) v = Concat <axis = 0> (k, l) y = Neg(v) }",
        "{ v = Shape <end = 2> (x) y = Neg(v) }",
        "agraph (float[a,b] x) => (int64[2] y) { t = Relu(x) s = Shape(t) y = Neg(s) }",
        "{ s = Shape(x) y = Neg(s) }",
        "agraph (int64[b,s] x, float[1] w) => (int64[s] r, float[s] y) <int64 z = {0}, "
        "int64 o = {1}, int64[1] k = {0}> { h = Shape(x) n = Gather(h, o) r = Range(z, n, o) "
        "u = Unsqueeze(n, k) y = Expand(w, u) }",
        "<int64 z = {0}, int64 o = {1}> { h = Shape(x) n = Gather(h, o) r = Range(z, n, o) "
        "u = Shape <start = 1> (x) y = Expand(w, u) }",
    )
