from collections.abc import Hashable
from functools import partial

import numpy as np

from xoptim.match import Example, GraphView, MatchResult, Node, PatternOptimization

from .._folding import constant
from .._nodes import axis_of
from .._parts import Branch, alike, branch, frozen, joint


class MatMulConcatPattern(PatternOptimization):
    """Concat(f(MatMul(x, v) + b), f(MatMul(x, w) + c)) → f(MatMul(x, Concat(v, w)) + Concat(b, c));
    Gemm likewise

    What: multiplies by the concatenated weights. One bias and one elementwise operator f follow,
    instead of one per MatMul. Other operands of the Concat stay.
    Why: one MatMul instead of several, and no copy.
    Refuses when:
    1. the Concat is not along the last axis.
    2. fewer than two adjacent operands are MatMuls of one input followed by the same operators, or
       other nodes read their intermediate results.
    3. a weight is not a constant matrix, or another node reads it, so that it would be stored
       twice.
    4. a bias does not have one number for each column.
    """

    anchors = ("Concat",)
    phase = "specialize"
    exactness = "rounding"
    min_opset = 7

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        rank = g.info(node.output[0]).rank
        if rank is None or axis_of(g, node) != rank - 1:  # (1)
            return self.none(node, msg="the Concat is not along the last axis")
        branches = [branch(g, name, _key) for name in node.input]
        group = alike(
            [member if member is not None and _has_rows(g, member) else None for member in branches]
        )
        if group is None:  # (2)
            return self.none(
                node,
                msg="no adjacent operands are MatMuls of one input followed by the same operators",
            )
        part, joined = group
        firsts = [member.nodes[0] for member in joined]
        axis = 0 if firsts[0].attribute.get("transB") else 1
        weight = np.concatenate([constant(g, first.input[1]) for first in firsts], axis)
        names = zip(
            *((*member.nodes[0].input[2:], *member.biases) for member in joined), strict=True
        )
        biases = [np.concatenate([constant(g, name).reshape(-1) for name in row]) for row in names]
        nodes = [*(inner for member in joined for inner in member.nodes), node]
        return MatchResult(
            self, nodes, partial(joint, part, joined[0], weight, biases, len(firsts[0].input) - 2)
        )

    examples = Example.pairs(
        "agraph (float[n,2] x) => (float[n,3] y) <float[2,1] v = {1, 2}, float[2,2] w = {3, 4, 5, "
        "6}, float[1] b = {7}, float[2] c = {8, 9}> { p = MatMul(x, v) q = MatMul(x, w) "
        "r = Add(p, b) s = Add(c, q) t = Tanh(r) u = Tanh(s) y = Concat <axis = -1> (t, u) }",
        "<float[2,3] w = {1, 3, 4, 2, 5, 6}, float[3] b = {7, 8, 9}> { p = MatMul(x, w) "
        "r = Add(p, b) y = Tanh(r) }",
        "agraph (float[n,2] x) => (float[n,5] y) <float[1,2] v = {1, 2}, float[2,2] w = {3, 4, 5, "
        "6}, float[1] b = {7}, float[2] c = {8, 9}> { p = Gemm <transB = 1> (x, v, b) "
        "q = Gemm <transB = 1> (x, w, c) y = Concat <axis = 1> (x, p, q) }",
        "<float[3,2] w = {1, 2, 3, 4, 5, 6}, float[3] b = {7, 8, 9}> { "
        "p = Gemm <transB = 1> (x, w, b) y = Concat <axis = 1> (x, p) }",
    )


def _key(g: GraphView, node: Node) -> Hashable:
    """A key that is equal for MatMuls that one MatMul can compute (3); ``None`` for other nodes."""
    if node.op_type not in ("MatMul", "Gemm"):
        return None
    x, weight = node.input[:2]
    if g.info(weight).rank != 2 or not g.is_constant(weight) or not g.is_used_only_by(weight, node):
        return None
    return node.op_type, x, len(node.input), frozen(node.attribute)


def _has_rows(g: GraphView, branch: Branch) -> bool:
    """Whether all biases of a branch are constant rows: one number per column of its MatMul (4)."""
    first = branch.nodes[0]
    shape, rank = g.try_infer_shape(first.input[1]), g.info(first.output[0]).rank
    width = None if shape is None else shape[0 if first.attribute.get("transB") else 1]
    if rank is None or not all(map(g.is_constant, first.input[2:])):
        return False
    shapes = [g.static_shape(name) for name in (*first.input[2:], *branch.biases)]
    return all(
        dims is not None and 0 < len(dims) <= rank and {*dims[:-1]} <= {1} and dims[-1] == width
        for dims in shapes
    )
