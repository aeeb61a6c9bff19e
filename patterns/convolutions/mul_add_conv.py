import numpy as np

from xoptim.match import Example, GraphView, MatchResult, Node, PatternOptimization

from .._affine import affine_above
from .._folding import doubles
from .._nodes import is_op, replaced_by
from ._convolution import absorbed, pads


class MulAddConvPattern(PatternOptimization):
    """Conv(x · s + o, w, b) → Conv(x, w · s, b + Σ w · o)

    What: moves factors and summands of each input channel into weights and bias, any number of them in a row; the same for
    quotients and differences. Images are scaled this way before the first convolution.
    Why: saves a pass over the input for each.
    Refuses when:
    1. weights or bias are not constant or not finite, or the number of channels is not known.
    2. the constant differs along another axis, changes the shape or is not finite, a factor is extreme, or is read elsewhere.
    3. a summand comes where the convolution may pad: with zeros, to which nothing was added.
    4. a new constant leaves the range of its type, or is a sum that cancels.
    5. the first constant scales a product of two tensors, as Gelu and HardSwish do: runtimes recognize these whole.
    """

    anchors = ("Conv",)
    near = ("Mul", "Div", "Add", "Sub")
    phase = "specialize"
    exactness = "rounding"
    min_opset = 7
    radius = 4

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        weight, *bias = node.input[1:]
        shape, group = g.static_shape(weight), g.get_attribute(node, "group", 1)
        if shape is None or not all(g.is_constant(name) for name in (weight, *bias) if name):  # (1)
            return self.none(node, msg="weights or bias are not constant")
        steps = ("Mul", "Div") if pads(node.attribute) else ("Mul", "Div", "Add", "Sub")  # (3)
        found = affine_above(g, node.input[0], 1, shape[1] * group, steps)
        if not found.nodes:  # (2)
            return self.none(node, msg="no constant for each channel before it")
        if is_op(g.node_before(found.source), "Mul"):  # (5)
            return self.none(found.nodes[-1], msg="it may be the end of an activation")
        if not np.isfinite(doubles(g, weight)).all():  # (1)
            return self.none(node, msg="the weights are not finite")
        merged = absorbed(g, weight, bias[0] if bias else "", group, (found.scale, found.shift), found.size)  # (4)
        weights = merged if any(bias) or found.shift.any() else merged[:1]
        return MatchResult(self, [*found.nodes[::-1], node], replaced_by("Conv", found.source, *weights, **node.attribute))

    examples = Example.pairs(
        "agraph (float[n,2,h] x) => (float[n,1,a] y) <float[1,2,1] k = {4, 6}, float[2,1] m = {1, 3}, "
        "float[1,2,1] d = {2, 0.5}> { t = Sub(x, m) u = Div(t, d) y = Conv(u, k) }",
        "<float[1,2,1] k = {2, 12}, float[1] b = {-38}> { y = Conv(x, k, b) }",
        "agraph (float[n,1,h] x) => (float[n,1,a] y) <float[1,1,3] k = {1, 2, 3}, float[1] b = {5}, float c = {4}> "
        "{ t = Mul(c, x) y = Conv <pads = [1, 1]> (t, k, b) }",
        "<float[1,1,3] k = {4, 8, 12}, float[1] b = {5}> { y = Conv <pads = [1, 1]> (x, k, b) }",
    )
