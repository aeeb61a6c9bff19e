from collections.abc import Hashable
from functools import partial

import numpy as np

from xoptim.match import Example, GraphView, MatchResult, Node, PatternOptimization

from .._folding import constant
from .._nodes import axis_of
from .._parts import alike, branch, frozen, joint


class ConvConcatPattern(PatternOptimization):
    """Concat(f(Conv(x, v, b)), f(Conv(x, w, c))) → f(Conv(x, Concat(v, w), Concat(b, c)))

    What: one convolution computes the channels of several, and one elementwise operator f follows
    it instead of one per convolution. Other operands of the Concat stay.
    Why: one convolution instead of several, and no copy.
    Refuses when:
    1. the Concat is not along the channels.
    2. fewer than two adjacent operands are convolutions of one input with the same settings and the
       same elementwise operators, or other nodes read their intermediate results.
    3. windows differ, or there are groups. Or a weight is not constant, or another node reads it,
       so that it would be stored twice.
    4. a convolution has one output channel: onnxruntime computes it with another kernel, so sums
       may overflow for inputs for which they did not before, or the reverse.
    """

    anchors = ("Concat",)
    phase = "specialize"
    exactness = "rounding"

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        if axis_of(g, node) != 1:  # (1)
            return self.none(node, msg="the Concat is not along the channels")
        branches = [branch(g, name, _key) for name in node.input]
        # ConvAdd folds an Add of a constant into the bias. A branch that still has one stays.
        group = alike(
            [member if member is not None and not member.biases else None for member in branches]
        )
        if group is None:  # (2)
            return self.none(
                node,
                msg="no adjacent operands are convolutions of one input with the same settings",
            )
        part, members = group
        convs = [member.nodes[0] for member in members]
        weights = [constant(g, conv.input[1]) for conv in convs]
        addends = [constant(g, conv.input[2] if len(conv.input) > 2 else "") for conv in convs]
        addends = [
            np.broadcast_to(addend, len(weight)).astype(weight.dtype)
            for addend, weight in zip(addends, weights, strict=True)
        ]
        nodes = [*(inner for member in members for inner in member.nodes), node]
        biases = [np.concatenate(addends)] if any(len(conv.input) > 2 for conv in convs) else []
        return MatchResult(
            self,
            nodes,
            partial(joint, part, members[0], np.concatenate(weights), biases, len(biases)),
        )

    _weights = (
        "float[2,2,1,1] v = {1, 2, 3, 4}, float[3,2,1,1] w = {5, 6, 7, 8, 9, 8}, float[2] b = {7, "
        "6}"
    )
    _joined = "float[5,2,1,1] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 8}"
    examples = Example.pairs(
        f"agraph (float[n,2,4,4] x) => (float[n,5,4,4] y) <{_weights}> {{ p = Conv(x, v, b) "
        "q = Conv(x, w) r = Relu(p) s = Relu(q) y = Concat <axis = 1> (r, s) }",
        f"<{_joined}, float[5] b = {{7, 6, 0, 0, 0}}> {{ p = Conv(x, w, b) y = Relu(p) }}",
        f"agraph (float[n,2,4,4] x) => (float[n,7,4,4] y) <{_weights}> "
        "{ p = Conv(x, v) q = Conv(x, w) y = Concat <axis = 1> (x, p, q) }",
        f"<{_joined}> {{ p = Conv(x, w) y = Concat <axis = 1> (x, p) }}",
    )


def _key(g: GraphView, node: Node) -> Hashable:
    """A key that is equal for convolutions that one convolution can compute (3), (4).

    ``None`` for nodes that must stay.
    """
    if node.op_type != "Conv" or node.get_attribute("group") != 1:
        return None
    x, weight, *bias = node.input
    channels, *window = g.static_shape(weight) or (0,)
    if (
        channels < 2
        or not g.is_constant(weight)
        or not g.is_used_only_by(weight, node)
        or not all(map(g.is_constant, bias))
    ):
        return None
    return x, tuple(window), frozen(node.attribute, without=("kernel_shape",))
