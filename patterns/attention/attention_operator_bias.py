"""Biases of the keys and of the values of an Attention."""

import math
from typing import Any

from onnx import TensorProto

from xoptim.facts.dims import is_nonzero
from xoptim.match import (
    EasyPatternOptimization,
    Example,
    GraphView,
    Match,
    Node,
    PatternBuilder,
    PatternRewriter,
)
from xoptim.match.trace import Constant, Optional, Symbol

from ._bias import output_bias, require_moderate
from ._mask import is_finite_mask


class _AttentionOperatorBias(EasyPatternOptimization):
    """Removes a bias of the keys or the values from an Attention operator."""

    phase = "target"
    priority = 9
    exactness = "rounding"
    min_opset = 23
    # In 16 bits, a score plus a number of the mask may overflow.
    operand_types = {"x": {TensorProto.FLOAT}}


class AddAttentionPattern(_AttentionOperatorBias):
    """Attention(q, x @ w + b, v, mask) → Attention(q, x @ w, v, mask)

    What: drops the bias of the keys. The bias adds one number to all scores of a query, which does
    not change their Softmax.
    Why: saves one pass over the keys. `AddMatMulSoftmax` does the same for separate nodes, but
    cannot match once `Attention` has fused the Softmax. The attention and the MatMul of the keys
    take 0.97 to 0.99 of the time for 1 to 1024 keys on one thread of onnxruntime's CPU provider.
    Refuses when:
    1. the bias is not one number for each feature, or the keys are not of rank 3.
    2. the attention also returns present keys and values or the scores, or has a softcap.
    3. a weight or the bias is not finite, or not stored in the model itself.
       Or the bias is large: sums with a large bias are rounded more.
    """

    def match_pattern(
        self,
        g: PatternBuilder,
        q: Symbol,
        x: Symbol,
        w: Constant,
        b: Constant,
        v: Symbol,
        mask: Optional,
    ) -> Symbol:
        keys = g.op.Add(g.op.MatMul(x, w), b)
        return g.op.Attention(q, keys, v, mask, attributes=g.capture("attributes"))

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        _, add, attention = m.nodes
        if not _is_for_each_feature(g, m.b, add):  # (1)
            return self.none(add, msg="the bias is not one value per feature of a head")
        if any(attention.output[1:]) or m.attributes.get("softcap", 0):  # (2)
            return self.none(attention, msg="the attention has other results, or softcap is set")
        require_moderate(g, m.b, m.w)  # (3)
        return True

    def apply_pattern(
        self,
        g: PatternRewriter,
        q: str,
        x: str,
        w: str,
        v: str,
        mask: str,
        attributes: dict[str, Any],
    ) -> Any:
        return g.op.Attention(q, g.op.MatMul(x, w), v, mask, **attributes)

    _start = (
        "agraph (float[a,4,4] q, float[a,5,3] x, float[a,5,4] v, float[a,1,4,5] mask) "
        "=> (float[a,4,4] y) <float[3,4] w = {1, 2, 3, 4, 5, 4, 3, 2, 1, 0, 1, 2}"
    )
    _long = _start.replace("float[a,4,4]", "float[a,5,4]")
    _heads = "q_num_heads = 2, kv_num_heads = 2"
    examples = Example.pairs(
        f"{_start}, float[4] b = {{1, 2, 0.5, 3}}> {{ p = MatMul(x, w) k = Add(p, b) "
        f"y = Attention <{_heads}> (q, k, v, mask) }}",
        f"{_start}> {{ k = MatMul(x, w) y = Attention <{_heads}> (q, k, v, mask) }}",
        f"{_long}, float[4] b = {{1, 2, 0.5, 3}}> {{ p = MatMul(x, w) k = Add(b, p) "
        f"y = Attention <{_heads}, is_causal = 1, scale = 0.5> (q, k, v) }}",
        f"{_long}> {{ k = MatMul(x, w) "
        f"y = Attention <{_heads}, is_causal = 1, scale = 0.5> (q, k, v) }}",
        opset=23,
    )


class AddAttentionMatMulPattern(_AttentionOperatorBias):
    """Attention(q, k, x @ w + b, mask) @ u + c → Attention(q, k, x @ w, mask) @ u + (b @ u + c)

    What: adds the bias of the values to the bias of the output, as the probabilities of a query add
    up to 1.
    Why: saves one pass over the values. `AddSoftmaxMatMul` does the same for separate nodes, but
    cannot match once `Attention` has fused the Softmax. The attention with both MatMuls takes 0.99
    of the time for 1 to 1024 keys on one thread of onnxruntime's CPU provider.
    Refuses when:
    1. the bias is not one number for each feature, or the values are not of rank 3.
       Or there are fewer heads of values than of queries.
    2. the mask may hide all keys of a query, or there may be queries but no keys: the probabilities
       add up to 0 then.
    3. a weight or a bias is not finite, or not stored in the model itself.
       Or a bias is large: sums with a large bias are rounded more.
    4. the new bias leaves the range of its type, or its terms cancel.
    5. the attention has other results, or the output is not a linear layer.
    """

    derives = ("bias",)

    def match_pattern(
        self,
        g: PatternBuilder,
        q: Symbol,
        k: Symbol,
        x: Symbol,
        w: Constant,
        b: Constant,
        mask: Optional,
    ) -> Symbol:
        values = g.op.Add(g.op.MatMul(x, w), b)
        heads = g.op.Attention(q, k, values, mask, attributes=g.capture("attributes"))
        return g.op.Add(g.op.MatMul(heads, g.constant("u")), g.constant("c"))

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        _, add, attention, *_ = m.nodes
        counts = [m.attributes.get(name) for name in ("q_num_heads", "kv_num_heads")]
        if not _is_for_each_feature(g, m.b, add) or counts[0] != counts[1]:  # (1)
            return self.none(
                add, msg="the bias is not one value per feature, or keys have fewer heads"
            )
        if m.mask and not _keeps_keys(g, m.mask):  # (2)
            return self.none(attention, msg="the mask may hide all keys of a query")
        values, queries = g.get_shape(add.output[0]), g.try_infer_shape(m.q)
        if not is_nonzero(values[1]) and (queries is None or values[1] != queries[1]):  # (2)
            return self.none(attention, msg="there may be queries but no keys")
        weight = g.static_shape(m.u)
        is_linear = weight is not None and len(weight) == 2 and weight[0] == values[2]
        if any(attention.output[1:]) or not is_linear:  # (5)
            return self.none(
                attention, msg="the attention has other results, or no linear layer follows"
            )
        return m.derive(bias=output_bias(g, m))  # (3), (4)

    def apply_pattern(
        self,
        g: PatternRewriter,
        q: str,
        k: str,
        x: str,
        w: str,
        mask: str,
        **m: Any,
    ) -> Any:
        heads = g.op.Attention(q, k, g.op.MatMul(x, w), mask, **m["attributes"])
        return g.op.Add(g.op.MatMul(heads, m["u"]), m["bias"])

    _start = (
        "agraph (float[a,3,4] q, float[a,5,4] k, float[a,5,3] x) => (float[a,3,2] y) "
        "<float[3,4] w = {1, 2, 3, 4, 5, 4, 3, 2, 1, 0, 1, 2}, "
        "float[4,2] u = {1, 2, 3, 1, 0, 1, 2, 1}"
    )
    _rest = "z = Attention <q_num_heads = 2, kv_num_heads = 2> (q, k, v) h = MatMul(z, u)"
    examples = Example.only(
        f"{_start}, float[4] b = {{1, 2, 0.5, 3}}, float[2] c = {{1, 2}}> {{ p = MatMul(x, w) "
        f"v = Add(p, b) {_rest} y = Add(h, c) }}",
        f"{_start}, float[2] c = {{14, 9.5}}> {{ v = MatMul(x, w) {_rest} y = Add(h, c) }}",
        opset=23,
    )


def _is_for_each_feature(g: GraphView, bias: str, add: Node) -> bool:
    """Whether the bias in an Add is one number for each feature of a linear layer of rank 3."""
    shape, layer = g.static_shape(bias), g.try_infer_shape(add.output[0])
    if not shape or layer is None or len(layer) != 3 or len(shape) > 3:
        return False
    return math.prod(shape) == shape[-1] == layer[-1]


def _keeps_keys(g: GraphView, mask: str) -> bool:
    """Whether a mask cannot hide all keys of a query, because all its numbers are finite."""
    return g.try_infer_type(mask) != TensorProto.BOOL and is_finite_mask(g, mask)
