from xoptim.match import Example, GraphView, MatchResult, Node, PatternOptimization
from xoptim.operators.axes import reduced_axes

from .._nodes import is_op, replaced_by
from .._operators import REDUCING
from .._shapes import same_dims


class ReduceReshapePattern(PatternOptimization):
    """Squeeze(Reduce(x, keepdims=1)) → Reduce(x, keepdims=0); Unsqueeze(Reduce(x, keepdims=0)) →
    Reduce(x, keepdims=1)

    What: sets ``keepdims`` so that the reduction itself returns the shape after Squeeze, Unsqueeze
    or Reshape.
    Why: one node fewer.
    Refuses when:
    1. a shape or the axes are unknown, or the result would have another shape.
    2. another node reads the reduction.
    """

    anchors = ("Squeeze", "Unsqueeze", "Reshape")
    near = REDUCING

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        reduction = g.node_before(node.input[0])
        if not is_op(reduction, *REDUCING) or not g.is_exclusive(node.input[0]):  # (2)
            return self.none(node, msg="the operand is not a reduction, or has other consumers")
        source, axes = g.try_infer_shape(reduction.input[0]), reduced_axes(g, reduction)
        if source is None or axes is None:  # (1)
            return self.none(reduction, msg="the shape or the axes are unknown")
        keepdims = reduction.get_attribute("keepdims")
        shape = [
            1 if i in axes else dim for i, dim in enumerate(source) if not keepdims or i not in axes
        ]
        if not same_dims(shape, g.try_infer_shape(node.output[0])):  # (1)
            return self.none(
                node, msg="the result is not that of the reduction with the other keepdims"
            )
        toggled = {**reduction.attribute, "keepdims": 1 - keepdims}
        return MatchResult(
            self, [reduction, node], replaced_by(reduction.op_type, *reduction.input, **toggled)
        )

    examples = Example.pairs(
        "agraph (float[a,b] x) => (float[a] y) <int64[1] k = {-1}> { "
        "m = ReduceMax <keepdims = 1> (x, k) y = Squeeze(m, k) }",
        "<int64[1] k = {-1}> { y = ReduceMax <keepdims = 0> (x, k) }",
        "agraph (float[a,b] x) => (int64[a,1] y) <int64[1] k = {1}> "
        "{ m = ArgMax <axis = 1, keepdims = 0> (x) y = Unsqueeze(m, k) }",
        "{ y = ArgMax <axis = 1, keepdims = 1> (x) }",
    )
