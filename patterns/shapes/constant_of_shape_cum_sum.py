from functools import partial

import numpy as np

from xoptim.facts.dims import SymbolicDim
from xoptim.match import Example, GraphView, MatchResult, Node, PatternOptimization, PatternRewriter

from .._folding import Array
from .._shapes import results_above, uniform_value


class ConstantOfShapeCumSumPattern(PatternOptimization):
    """CumSum(ConstantOfShape(s, 1), k) → Expand([1, 2, 3, ...], s)

    What: computes the sums ahead of time. The tensor of equal elements may be moved, cast or
    resized before the CumSum.
    Why: DETR and similar models count the positions of an image by a CumSum of a mask of ones.
    Refuses when:
    1. the elements are not known to be equal, or the tensor is a constant already.
    2. the size of the axis is not static, is 0, or is above 4096. Or another dimension is unknown.
    3. a sum is not exact, so that it would depend on the order.
    """

    anchors = ("CumSum",)
    min_opset = 13

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        name, axis = node.input[0], g.get_constant_scalar(node.input[1])
        value, shape = uniform_value(g, name), g.try_infer_shape(name)
        if value is None or not shape or axis is None or g.is_constant(name):  # (1)
            return self.none(node, msg="the tensor is not known to be uniform")
        along = int(axis) % len(shape)
        size = shape[along]
        are_known = all(not isinstance(dim, SymbolicDim) or not dim.is_anonymous for dim in shape)
        if not isinstance(size, int) or not 0 < size <= 4096 or not are_known:  # (2)
            return self.none(node, msg="the axis is too long, or a dimension is unknown")
        line = np.full([size if i == along else 1 for i in range(len(shape))], value)
        sums, wide = (
            g.evaluate(node, [array, np.array(along, np.int64)])
            for array in (line, line.astype(np.float64))
        )
        # (3)
        if not sums or not wide or not (sums[0] == wide[0]).all() or np.abs(wide[0]).max() >= 2**52:
            return self.none(node, msg="a sum is not exact")
        nodes = [
            g.node_before(name)
            for name in results_above(g, node)
            if uniform_value(g, name) is not None
        ]
        producers = sorted(
            {producer for producer in nodes if producer is not None},
            key=lambda producer: producer.label,
        )
        return MatchResult(self, [*producers, node], partial(self._count, sums[0]))

    def _count(self, sums: Array, g: PatternRewriter, *nodes: Node) -> list[Node]:
        """Write an Expand to the Shape of the tensor, so the producers of the tensor stay."""
        *producers, node = nodes
        sizes = g.op.Shape(node.input[0])
        line = g.make_initializer("", sums, source="sums")
        return [*producers, *g.created, g.make_node("Expand", [line, sizes], node.output)]

    examples = Example.only(
        "agraph (float[b,3,2] x) => (float[b,3,2] y) <int64 k = {1}> "
        "{ s = Shape(x) c = ConstantOfShape <value = float[1] {1}> (s) y = CumSum(c, k) }",
        "<float[1,3,1] n = {1, 2, 3}> { s = Shape(x) "
        "c = ConstantOfShape <value = float[1] {1}> (s) t = Shape(c) y = Expand(n, t) }",
    )
