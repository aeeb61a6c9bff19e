from functools import partial

import numpy as np
from onnx import TensorProto

from xoptim.match import Example, GraphView, MatchResult, Node, PatternOptimization, PatternRewriter

from .._nodes import is_op
from ._float16 import float16_of


class Float16DequantizeLinearPattern(PatternOptimization):
    """Cast(DequantizeLinear(w, s, z), to=FLOAT16) → DequantizeLinear(w, s16, z)

    What: dequantizes constant weights to float16, if float16 represents the scales.
    Why: a float16 operator then reads the weights without an intermediate float32 tensor. The
    product of an 8-bit integer and a float16 scale is exact in float32, so both forms round once.
    Refuses when:
    1. the Cast is not to float16, or does not read constant 4-bit or 8-bit integers dequantized to
       float32.
    2. the float32 weights have other consumers.
    3. the scales do not fit into float16.
    """

    providers = ("cuda",)
    exactness = "rounding"
    min_opset = 21
    tags = ("float16_compute", "extra")
    anchors = ("Cast",)
    near = ("DequantizeLinear",)
    _integers = (TensorProto.INT4, TensorProto.UINT4, TensorProto.INT8, TensorProto.UINT8)

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        dequantize = g.node_before(node.input[0])
        if node.get_attribute("to") != TensorProto.FLOAT16 or not is_op(
            dequantize, "DequantizeLinear"
        ):
            return self.none(node, msg="not a Cast of dequantized weights to float16")  # (1)
        weights, scales = dequantize.input[:2]
        if not g.is_constant(weights) or g.try_infer_type(weights) not in self._integers:  # (1)
            return self.none(dequantize, msg="the weights are not constant 4-bit or 8-bit integers")
        if dequantize.get_attribute("output_dtype") or not g.is_exclusive(node.input[0]):  # (2)
            return self.none(dequantize, msg="the float32 weights have other consumers")
        half = float16_of(g, scales)
        if not isinstance(half, np.ndarray):  # (3)
            return self.none(dequantize, msg="the scales do not fit into float16")
        return MatchResult(self, [dequantize, node], partial(self._replace, half))

    @staticmethod
    def _replace(half: np.ndarray, g: PatternRewriter, dequantize: Node, cast: Node) -> list[Node]:
        scales = g.make_initializer("", half, source=dequantize.input[1])
        names = [dequantize.input[0], scales, *dequantize.input[2:]]
        return [g.make_node("DequantizeLinear", names, cast.output, **dequantize.attribute)]

    _head = "agraph (float16[n,2] x) => (float16[n,2] y)"
    examples = (
        Example(
            f"{_head} <int8[2,2] w = {{1, -2, 3, 127}}, float[2] s = {{0.5, 2}}> {{ "
            "d = DequantizeLinear <axis = 1> (w, s) h = Cast <to = 10> (d) y = MatMul(x, h) }",
            f"{_head} <int8[2,2] w = {{1, -2, 3, 127}}, float16[2] s = {{14336, 16384}}> {{ "
            "h = DequantizeLinear <axis = 1> (w, s) y = MatMul(x, h) }",
            opset=21,
        ),
    )
