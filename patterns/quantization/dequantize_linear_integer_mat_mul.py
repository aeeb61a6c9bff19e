from functools import partial

import numpy as np
from onnx import TensorProto

from xoptim.match import (
    Example,
    GraphView,
    MatchResult,
    Node,
    PatternOptimization,
    PatternRewriter,
    runs,
)

from .._bits import are_moderate
from .._nodes import is_op
from .._pairs import are_exact
from ._parameters import Parameters, keep_integers, parameters

_MAX_TERMS = 1 << 15
"""Maximum terms of a sum. 2^15 products of two differences of 8-bit integers stay below 2^31."""
_TYPES = (TensorProto.UINT8, TensorProto.INT8)


class DequantizeLinearIntegerMatMulPattern(PatternOptimization):
    """MatMul(DequantizeLinear(a, s, z), DequantizeLinear(b, t)) →
    com.microsoft.MatMulIntegerToFloat(a, b, s, t, z)

    What: multiplies the integers, and scales the sums. The same for Gemm.
    Why: measured on one thread (256 by 256, 1 to 128 rows). With ORT graph optimizations disabled,
    it takes 0.26 to 0.40 of the time. If they are enabled, onnxruntime fuses the same operator
    itself, and 0.71 to 1.00 were measured.
    Refuses when:
    1. an operand is not dequantized with constant parameters, or the first has several scales. Or
       the second is not a constant matrix with scales per tensor or column.
    2. a scale is not a positive normal float32, or scales are so far apart that digits are lost.
    3. sums might overflow int32, have no terms, or the provider has no kernel.
    4. a Gemm has alpha, beta, transA or transB set. Or its bias is computed by a node, or is not a
       vector with one value per column.
    5. sums of two adjacent products may overflow int16, which CPUs without VNNI saturate.
    6. a QuantizeLinear reads the result: onnxruntime then fuses QLinearMatMul, which needs no
       float32 result.
    """

    phase = "target"
    exactness = "rounding"
    priority = 4
    min_opset = 10
    produces = ("com.microsoft",)
    providers = ("cpu",)
    tags = ("onnxruntime",)
    anchors = ("MatMul", "Gemm")
    near = ("DequantizeLinear",)

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        left, right = (g.node_before(name) for name in node.input[:2])
        if not is_op(left, "DequantizeLinear") or not is_op(right, "DequantizeLinear"):  # (1)
            return self.none(node, msg="an operand is not the result of a DequantizeLinear")
        first, second = parameters(g, left), parameters(g, right)
        # (1) (2)
        if first is None or second is None or not _are_scales(first, second):
            return self.none(node, msg="a scale or zero point is not constant, or not supported")
        a, b = left.input[0], right.input[0]
        shape, weights, rank = g.static_shape(b), g.get_computed_constant(b), g.info(a).rank
        if shape is None or len(shape) != 2 or weights is None or rank is None or rank < 2:  # (1)
            return self.none(right, msg="the second operand is not a constant matrix")
        if second.axis not in (None, 1):  # (1)
            return self.none(right, msg="the scales of the weights are not per column")
        types = [g.try_infer_type(name) for name in (a, b)]
        # (3)
        if (
            not 0 < shape[0] <= _MAX_TERMS
            or any(dtype not in _TYPES for dtype in types)
            or types == [TensorProto.INT8, TensorProto.UINT8]
            or not runs(g, "MatMulIntegerToFloat", a, "com.microsoft")
        ):
            return self.none(node, msg="sums might overflow int32, or there is no kernel")
        if node.op_type == "Gemm" and not _is_plain(g, node, shape[1]):  # (4)
            return self.none(node, msg="alpha, beta, transA, transB or the bias is not supported")
        if types == [TensorProto.UINT8, TensorProto.INT8] and not are_exact(g, weights):  # (5)
            return self.none(
                right, msg="CPUs without VNNI would saturate sums of two products of these weights"
            )
        if any(is_op(user, "QuantizeLinear") for user in g.next_nodes(node.output[0])):  # (6)
            return self.none(node, msg="the result is quantized")
        return MatchResult(self, [node], partial(self._multiply, left, right))

    def _multiply(self, left: Node, right: Node, g: PatternRewriter, node: Node) -> list[Node]:
        (a, s), (b, t) = left.input[:2], right.input[:2]
        zeros = [operand.input[2] if len(operand.input) > 2 else "" for operand in (left, right)]
        bias = node.input[2:3]
        operands = [a, b, s, t, *zeros, *bias]
        while not operands[-1]:
            operands.pop()
        return [g.make_node("MatMulIntegerToFloat", operands, node.output, domain="com.microsoft")]

    _inputs = "agraph (uint8[n,4] a) => (float[n,2] y) <float s = {0.5}, uint8 z = {7}, "
    _weights = "int8[4,2] b = {1, -2, 3, 4, 5, -6, 7, 8}"
    examples = Example.pairs(
        f"{_inputs} {_weights}, float[2] t = {{0.5, 0.25}}, int8[2] u = {{0, 1}}> {{ "
        "d = DequantizeLinear(a, s, z) e = DequantizeLinear <axis = 1> (b, t, u) "
        "y = MatMul(d, e) }",
        f"{_inputs} {_weights}, float[2] t = {{0.5, 0.25}}, int8[2] u = {{0, 1}}> {{ "
        "y = com.microsoft.MatMulIntegerToFloat(a, b, s, t, z, u) }",
        f"{_inputs} {_weights}, float t = {{0.5}}, float[2] c = {{1, 2}}> {{ "
        "d = DequantizeLinear(a, s, z) e = DequantizeLinear(b, t) y = Gemm(d, e, c) }",
        f"{_inputs} {_weights}, float t = {{0.5}}, float[2] c = {{1, 2}}> {{ "
        "y = com.microsoft.MatMulIntegerToFloat(a, b, s, t, z, , c) }",
        opset=13,
    )


def _are_scales(first: Parameters, second: Parameters) -> bool:
    """Whether the scales of both operands are supported; the first has a single scale."""
    scales = [first.scales, second.scales]
    if first.scales.size != 1 or not all(
        array.dtype == np.float32
        and bool((array > 0).all())
        and keep_integers(array, TensorProto.UINT8)
        for array in scales
    ):
        return False
    factors = first.scales.astype(np.float64) * second.scales
    return are_moderate([*scales, factors], is_multiplied=True)


def _is_plain(g: GraphView, node: Node, columns: int) -> bool:
    """Whether a Gemm computes a · b + c, without c or with a vector that no node computes."""
    factors = [node.get_attribute(name, 1.0) for name in ("alpha", "beta")]
    transposes = [node.get_attribute(name, 0) for name in ("transA", "transB")]
    is_vector = all(
        g.node_before(name) is None and g.try_infer_shape(name) == (columns,)
        for name in node.input[2:]
    )
    return is_vector and factors == [1.0, 1.0] and not any(transposes)
