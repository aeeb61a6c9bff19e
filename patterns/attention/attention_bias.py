"""Biases of the keys and of the values of an attention."""

import math
from collections.abc import Sequence
from typing import Any

from onnx import TensorProto

from xoptim.facts.dims import Dim, is_nonzero
from xoptim.facts.errors import Declined
from xoptim.match import (
    EasyPatternOptimization,
    Example,
    GraphView,
    Match,
    Node,
    PatternBuilder,
    PatternRewriter,
)
from xoptim.match.trace import ANY, Constant, Symbol

from .._folding import Array
from ._bias import output_bias, require_moderate


class _AttentionBias(EasyPatternOptimization):
    """Removes a bias of the keys or the values from an attention of separate nodes."""

    phase = "target"
    priority = 9
    exactness = "rounding"
    min_opset = 13


class AddMatMulSoftmaxPattern(_AttentionBias):
    """Softmax(q @ heads(x @ w + b)ᵀ + mask) → Softmax(q @ heads(x @ w)ᵀ + mask)

    What: drops the bias of the keys, with or without a mask. The bias adds one number to all scores
    of a query, which does not change their Softmax.
    Why: saves one pass over the keys. It runs last, so that patterns that recognize attention still
    see the bias.
    Refuses when:
    1. the Softmax is not along the last axis.
    2. a shape is unknown, or the bias differs along the axis of the keys.
    3. a weight or the bias is not finite, or not stored in the model itself.
       Or the bias is large: sums with a large bias are rounded more.
    4. there is a float16 mask: without the bias, a score plus the lowest float16 number may be
       -infinity.
    """

    def heads(self, g: Any, keys: Any, shape: Any, early: bool, **attributes: Any) -> Any:
        """The transposed heads of the keys; the Transpose comes before the Reshape if ``early``."""
        if early:
            return g.op.Reshape(g.op.Transpose(keys, perm=[0, 2, 1]), shape, **attributes)
        return g.op.Transpose(g.op.Reshape(keys, shape, **attributes), perm=[0, 2, 3, 1])

    def match_pattern(
        self,
        g: PatternBuilder,
        x: Symbol,
        w: Constant,
        b: Constant,
        shape: Symbol,
        q: Symbol,
        mask: Symbol,
    ) -> Symbol:
        scores = g.op.MatMul(
            q,
            self.heads(g, g.op.Add(g.op.MatMul(x, w), b), shape, g.option("early"), attributes=ANY),
        )
        return g.op.Softmax(
            g.op.Add(scores, mask) if g.option("masked") else scores, axis=g.capture("axis")
        )

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        softmax = m.nodes[-1]
        _require_last_axis(g, softmax, m.axis)  # (1)
        if m.masked and g.try_infer_type(m.mask) == TensorProto.FLOAT16:  # (4)
            return self.none(softmax, msg="a score plus a float16 mask may overflow")
        # The Reshape and the Transpose that split off the heads, in either order.
        add, first_node, last_node = m.nodes[1:4]
        keys, split = (g.try_infer_shape(node.output[0]) for node in (last_node, first_node))
        heads = None if keys is None or split is None else (keys[1:3] if m.early else split[2:])
        if heads is None or not _spreads_over_heads(g, m.b, add.output[0], heads):  # (2)
            return self.none(
                add,
                msg="a shape is unknown, or the bias is not one value per feature of a head",
            )
        # (2)
        if m.early and (keys is None or split is None or len(keys) != 4 or keys[3] != split[2]):
            return self.none(last_node, msg="the bias may differ along the axis of the keys")
        require_moderate(g, m.b, m.w)  # (3)
        return True

    def apply_pattern(
        self, g: PatternRewriter, x: str, w: str, shape: str, q: str, mask: str | None, early: bool
    ) -> Any:
        scores = g.op.MatMul(q, self.heads(g, g.op.MatMul(x, w), shape, early))
        return g.op.Softmax(g.op.Add(scores, mask) if mask else scores, axis=-1)

    _weights = "<float[3,4] w = {1, 2, 3, 4, 5, 4, 3, 2, 1, 0, 1, 2}"
    _late = (
        "Reshape(k, s) t = Transpose <perm = [0, 2, 3, 1]> (r) m = MatMul(q, t) n = Add(m, mask) "
        "y = Softmax (n) }"
    )
    _soon = (
        "Transpose <perm = [0, 2, 1]> (k) t = Reshape(r, s) m = MatMul(q, t) "
        "y = Softmax <axis = -1> (m) }"
    )
    _masked = "agraph (float[a,5,3] x, float[a,2,4,2] q, float[a,1,1,5] mask) => (float[a,2,4,5] y)"
    _plain = "agraph (float[a,5,3] x, float[a,2,4,2] q) => (float[a,2,4,5] y)"
    _sizes, _split = "int64[4] s = {0, 0, 2, 2}>", "int64[4] s = {-1, 2, 2, 5}>"
    _bias = "float[4] b = {1, 2, 0.5, 3}"
    examples = Example.pairs(
        f"{_masked} {_weights}, {_bias}, {_sizes} {{ p = MatMul(x, w) k = Add(p, b) r = {_late}",
        f"{_masked} {_weights}, {_sizes} {{ k = MatMul(x, w) r = {_late}",
        f"{_plain} {_weights}, {_bias}, {_split} {{ p = MatMul(x, w) k = Add(b, p) r = {_soon}",
        f"{_plain} {_weights}, {_split} {{ k = MatMul(x, w) r = {_soon}",
    )


class AddSoftmaxMatMulPattern(_AttentionBias):
    """merged(Softmax(s) @ heads(x @ w + b)) @ u + c → merged(Softmax(s) @ heads(x @ w)) @ u + (b @
    u + c)

    What: adds the bias of the values to the bias of the output, as the probabilities of a query add
    up to 1.
    Why: saves one pass over the values. It runs last, so that patterns that recognize attention
    still see the bias.
    Refuses when:
    1. the Softmax is not along the last axis, or there may be queries but no keys: the
       probabilities add up to 0 then.
    2. a shape is unknown, or the heads that are merged are not those that were split.
    3. a weight or a bias is not finite, or not stored in the model itself.
       Or a bias is large: sums with a large bias are rounded more.
    4. the new bias leaves the range of its type, or its terms cancel.
    """

    derives = ("bias",)

    def match_pattern(
        self,
        g: PatternBuilder,
        x: Symbol,
        w: Constant,
        b: Constant,
        s: Symbol,
        u: Constant,
        c: Constant,
    ) -> Symbol:
        # Four axes: batch, heads, positions and features of a head.
        values = g.op.Reshape(g.op.Add(g.op.MatMul(x, w), b), g.symbol("split"), attributes=ANY)
        heads = g.op.MatMul(
            g.op.Softmax(s, axis=g.capture("axis")), g.op.Transpose(values, perm=[0, 2, 1, 3])
        )
        merged = g.op.Reshape(
            g.op.Transpose(heads, perm=[0, 2, 1, 3]), g.symbol("merged"), attributes=ANY
        )
        return g.op.Add(g.op.MatMul(merged, u), c)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        _, add, reshape, softmax, transpose, _, result_transpose, result_reshape, *_ = m.nodes
        _require_last_axis(g, softmax, m.axis)  # (1)
        values = g.try_infer_shape(transpose.output[0])
        result, shape = (
            g.try_infer_shape(node.output[0]) for node in (result_transpose, result_reshape)
        )
        layer, weight, features = (
            g.try_infer_shape(add.output[0]),
            g.static_shape(m.u),
            g.static_shape(m.b),
        )
        # (2)
        if (
            values is None
            or result is None
            or shape is None
            or layer is None
            or not weight
            or not features
        ):
            return self.none(result_transpose, msg="a shape is unknown")
        if not is_nonzero(values[2]) and values[2] != result[1]:  # (1)
            return self.none(softmax, msg="there may be queries but no keys")
        if not _spreads_over_heads(g, m.b, add.output[0], (values[1], values[3])):  # (2)
            return self.none(reshape, msg="the bias is not one value per feature of a head")
        is_merged = result[2:] == (values[1], values[3]) and shape == (*result[:2], *features[-1:])
        if not is_merged or (values[0], values[2]) != layer[:2]:  # (2)
            return self.none(result_reshape, msg="axes other than the heads are split or merged")
        if len(weight) != 2 or weight[0] != features[-1]:  # (2)
            return self.none(result_reshape, msg="no linear layer follows the attention")
        return m.derive(bias=output_bias(g, m))  # (3), (4)

    def apply_pattern(
        self,
        g: PatternRewriter,
        x: str,
        w: str,
        split: str,
        s: str,
        merged: str,
        u: str,
        bias: Array,
    ) -> Any:
        values = g.op.Transpose(g.op.Reshape(g.op.MatMul(x, w), split), perm=[0, 2, 1, 3])
        heads = g.op.Transpose(g.op.MatMul(g.op.Softmax(s, axis=-1), values), perm=[0, 2, 1, 3])
        return g.op.Add(g.op.MatMul(g.op.Reshape(heads, merged), u), bias)

    _start = (
        "agraph (float[a,5,3] x, float[a,2,m,5] s) "
        "=> (float[a,m,2] y) <float[3,4] w = {1, 2, 3, 4, 5, 4, 3, 2, 1, 0, 1, 2}, "
        "float[4,2] u = {1, 2, 3, 1, 0, 1, 2, 1}, int64[4] k = {0, 5, 2, 2}, int64[3] l = {0, 0, 4}"
    )
    _rest = (
        "q = Softmax (s) z = MatMul(q, t) o = Transpose <perm = [0, 2, 1, 3]> (z) "
        "p = Reshape(o, l) h = MatMul(p, u)"
    )
    examples = Example.only(
        f"{_start}, float[4] b = {{1, 2, 0.5, 3}}, float[2] c = {{1, 2}}> {{ j = MatMul(x, w) "
        f"v = Add(j, b) r = Reshape(v, k) t = Transpose <perm = [0, 2, 1, 3]> (r) {_rest} "
        "y = Add(c, h) }",
        f"{_start}, float[2] c = {{14, 9.5}}> {{ v = MatMul(x, w) r = Reshape(v, k) "
        f"t = Transpose <perm = [0, 2, 1, 3]> (r) {_rest} y = Add(h, c) }}",
    )


def _require_last_axis(g: GraphView, softmax: Node, axis: int) -> None:
    """Raise `Declined` unless a Softmax is along the last axis of its result."""
    rank = g.info(softmax.output[0]).rank
    if axis != -1 and (rank is None or axis != rank - 1):
        raise Declined("the Softmax is not along the last axis")


def _spreads_over_heads(g: GraphView, bias: str, biased: str, heads: Sequence[Dim]) -> bool:
    """Whether a bias is one number for each feature of a linear layer.

    Args:
        g: the graph.
        bias: the bias.
        biased: the result of the layer, of rank 3.
        heads: the number of heads that the features are split into, and the features of a head.
    """
    shape, layer = g.static_shape(bias), g.try_infer_shape(biased)
    sizes = [dim for dim in heads if isinstance(dim, int)]
    if not shape or layer is None or len(layer) != 3 or not len(heads) == len(sizes) == 2:
        return False
    return len(shape) <= 3 and math.prod(shape) == shape[-1] == layer[-1] == math.prod(sizes) > 0
