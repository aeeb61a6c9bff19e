from typing import Any

from xoptim.facts.dims import is_nonzero
from xoptim.match import EasyPatternOptimization, Example, GraphView, Match, PatternBuilder, PatternRewriter
from xoptim.match.trace import ANY, Constant, Symbol

from .._folding import Array, constant, doubles, rounded
from ._bias import is_last_axis, is_moderate, spreads_over_heads


class AddSoftmaxMatMulPattern(EasyPatternOptimization):
    """merged(Softmax(s) @ heads(x @ w + b)) @ u + c → merged(Softmax(s) @ heads(x @ w)) @ u + (b @ u + c)

    What: adds the bias of the values to the bias of the output. The probabilities of a query have the sum 1, so that each
    result contains the bias once.
    Why: saves one pass over the values. It runs last, so that patterns that recognize attention match the bias.
    Refuses when:
    1. the Softmax is not along the last axis, or there may be queries but no keys: the sum is 0 then.
    2. a shape is unknown, or the heads that are merged are not those that were split.
    3. a weight or a bias is not finite, or not stored in the model itself, or a bias is large: its sums are rounded more.
    4. the new bias leaves the range of its type, or its terms cancel.
    """

    phase = "target"
    priority = 9
    exactness = "rounding"
    min_opset = 13

    def match_pattern(
        self, g: PatternBuilder, x: Symbol, w: Constant, b: Constant, s: Symbol, u: Constant, c: Constant
    ) -> Symbol:
        # Four axes: batch, heads, positions and features of a head.
        values = g.op.Reshape(g.op.Add(g.op.MatMul(x, w), b), g.symbol("split"), attributes=ANY)
        heads = g.op.MatMul(g.op.Softmax(s, axis=g.capture("axis")), g.op.Transpose(values, perm=[0, 2, 1, 3]))
        merged = g.op.Reshape(g.op.Transpose(heads, perm=[0, 2, 1, 3]), g.symbol("merged"), attributes=ANY)
        return g.op.Add(g.op.MatMul(merged, u), c)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        _, add, reshape, softmax, transpose, _, back, merge, *_ = m.nodes
        if not is_last_axis(g, softmax, m.axis):  # (1)
            return self.none(softmax, msg="the Softmax is not along the last axis")
        values = g.try_infer_shape(transpose.output[0])
        result, shape = g.try_infer_shape(back.output[0]), g.try_infer_shape(merge.output[0])
        given, weight, features = g.try_infer_shape(add.output[0]), g.static_shape(m.u), g.static_shape(m.b)
        if values is None or result is None or shape is None or given is None or not weight or not features:  # (2)
            return self.none(back, msg="a shape is unknown")
        if not is_nonzero(values[2]) and values[2] != result[1]:  # (1)
            return self.none(softmax, msg="there may be queries but no keys")
        if not spreads_over_heads(g, m.b, add.output[0], (values[1], values[3])):  # (2)
            return self.none(reshape, msg="the bias is not one number for each feature of a head")
        if (
            result[2:] != (values[1], values[3])
            or (values[0], values[2]) != given[:2]
            or shape != (*result[:2], *features[-1:])
        ):  # (2)
            return self.none(merge, msg="axes other than the heads are split or merged")
        if len(weight) != 2 or weight[0] != features[-1]:  # (2)
            return self.none(merge, msg="the output is not a linear layer")
        if not is_moderate(g, m.b, m.w) or not is_moderate(g, m.c, m.u):  # (3)
            return self.none(add, msg="a bias or a weight is not finite, or a bias is large")
        term, present = doubles(g, m.b).reshape(-1) @ doubles(g, m.u), doubles(g, m.c)
        return m.derive(bias=rounded(term + present, constant(g, m.c).dtype, terms=(term, present)))  # (4)

    def apply_pattern(self, g: PatternRewriter, x: str, w: str, split: str, s: str, merged: str, u: str, bias: Array) -> Any:
        values = g.op.Transpose(g.op.Reshape(g.op.MatMul(x, w), split), perm=[0, 2, 1, 3])
        heads = g.op.Transpose(g.op.MatMul(g.op.Softmax(s, axis=-1), values), perm=[0, 2, 1, 3])
        return g.op.Add(g.op.MatMul(g.op.Reshape(heads, merged), u), bias)

    _start = (
        "agraph (float[a,5,3] x, float[a,2,m,5] s) => (float[a,m,2] y) "
        "<float[3,4] w = {1, 2, 3, 4, 5, 4, 3, 2, 1, 0, 1, 2}, float[4,2] u = {1, 2, 3, 1, 0, 1, 2, 1}, "
        "int64[4] k = {0, 5, 2, 2}, int64[3] l = {0, 0, 4}"
    )
    _rest = "q = Softmax (s) z = MatMul(q, t) o = Transpose <perm = [0, 2, 1, 3]> (z) p = Reshape(o, l) h = MatMul(p, u)"
    examples = (
        Example(
            f"{_start}, float[4] b = {{1, 2, 0.5, 3}}, float[2] c = {{1, 2}}> {{ j = MatMul(x, w) v = Add(j, b) "
            f"r = Reshape(v, k) t = Transpose <perm = [0, 2, 1, 3]> (r) {_rest} y = Add(c, h) }}",
            f"{_start}, float[2] c = {{14, 9.5}}> {{ v = MatMul(x, w) r = Reshape(v, k) "
            f"t = Transpose <perm = [0, 2, 1, 3]> (r) {_rest} y = Add(h, c) }}",
        ),
    )
