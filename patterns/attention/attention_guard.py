import math
from typing import Final

from onnx import TensorProto

from xoptim.facts.dtypes import is_float
from xoptim.match import (
    EasyPatternOptimization,
    Example,
    GraphView,
    Match,
    Node,
    PatternBuilder,
    PatternRewriter,
    Symbol,
)

from .._nodes import is_op
from .._shapes import uniform_value
from ._mask import lies_between

_MAX_NODES: Final = 3
"""Maximum number of nodes up to the guarded tensor: the Attention, a Transpose and a Reshape."""
_MAX_MASK: Final = 1e30
"""Largest number of a mask. The kernel gives NaN for numbers near the largest float32 number."""


class AttentionGuardPattern(EasyPatternOptimization):
    """Where(IsNaN(z), 0 · s, z) → z, for z = Attention(q, k, v, mask), its heads merged or not

    What: drops the guard against NaN that `GuardedAttention` leaves. Finite queries and keys have
    finite scores. If a mask hides all keys of a query by -infinity, the formula gives NaN, but
    onnxruntime's operator gives 0 like the guard.
    Why: five or six nodes fewer per layer; one thread of onnxruntime's CPU provider takes 0.73
    to 0.98 of the time. It is not in the default preset: the KV cache may hold NaN, which the
    guard hides.
    Refuses when:
    1. z is not the result of an Attention, with its heads possibly moved and merged.
    2. the mask may be +infinity, NaN or above 1e30, or is Boolean.
    3. the replacement of NaN is neither 0 nor a product with 0, or may have a larger shape than z.
    4. the type is not float32: in 16 bits, a score plus a number of the mask may overflow.
    """

    phase = "specialize"
    priority = 3
    exactness = "finite"
    min_opset = 23
    providers = ("cpu",)
    operand_types = {"z": {TensorProto.FLOAT}}  # (4)

    def match_pattern(self, g: PatternBuilder, z: Symbol, c: Symbol) -> Symbol:
        return g.op.Where(g.op.IsNaN(z), c, z)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        attention = _attention(g, m.z)
        if attention is None:  # (1)
            return self.none(m.nodes[0], msg="the operand is not the result of an Attention")
        mask = attention.input[3] if len(attention.input) > 3 else ""
        # (2)
        if mask and not (
            is_float(g.try_infer_type(mask)) and lies_between(g, mask, -math.inf, _MAX_MASK)
        ):
            return self.none(attention, msg="the mask is Boolean, or may be infinite or above 1e30")
        shape = g.try_infer_shape(m.z)
        if shape is None or g.try_infer_shape(m.outputs[0]) != shape:  # (3)
            return self.none(m.nodes[0], msg="the replacement of NaN may have another shape")
        # (3)
        return _is_zero(g, m.c) or self.none(m.nodes[1], msg="the value in place of NaN is not 0")

    def apply_pattern(self, g: PatternRewriter, z: str) -> str:
        return z

    _start = "agraph (float[b,3,8] q, float[b,5,8] k, float[b,5,8] v) => (float[b,3,8] y)"
    _four = (
        "agraph (float[b,2,3,4] q, float[b,2,5,4] k, float[b,2,5,4] v, bool[b,1,3,5] m) "
        "=> (float[b,3,8] y)"
    )
    _heads = "Attention <q_num_heads = 2, kv_num_heads = 2> (q, k, v)"
    _numbers = "float zero = {0}, float low = {-10000}, int64[3] s = {0, 0, 8}"
    _merged = (
        "l = Where(m, zero, low) a = Attention(q, k, v, l) t = Transpose <perm = [0, 2, 1, 3]> (a)"
    )
    examples = Example.pairs(
        f"{_start} <float[1,5] o = {{0, 0, 0, 0, 0}}> {{ z = {_heads} s = MatMul(o, v) "
        "i = IsNaN(z) y = Where(i, s, z) }",
        f"{{ y = {_heads} }}",
        f"{_four} <{_numbers}> {{ {_merged} z = Reshape(t, s) i = IsNaN(z) "
        "y = Where(i, zero, z) }",
        f"<{_numbers}> {{ {_merged} y = Reshape(t, s) }}",
        opset=23,
    )


def _attention(g: GraphView, name: str) -> Node | None:
    """The Attention whose first result becomes ``name``, possibly by a Transpose and a Reshape."""
    for _ in range(_MAX_NODES):
        node = g.node_before(name)
        if is_op(node, "Attention"):
            return node if node.output[0] == name else None
        if not is_op(node, "Reshape", "Transpose"):
            return None
        name = node.input[0]
    return None


def _is_zero(g: GraphView, name: str, depth: int = 4) -> bool:
    """Whether all elements are 0, or products with 0."""
    if g.get_constant_scalar(name) == 0:
        return True
    node = g.node_before(name)
    if is_op(node, "Mul", "MatMul"):
        return any(uniform_value(g, operand) == 0 for operand in node.input)
    return (
        depth > 0
        and is_op(node, "Reshape", "Expand", "Gather")
        and _is_zero(g, node.input[0], depth - 1)
    )
