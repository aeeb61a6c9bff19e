from functools import partial
from typing import ClassVar, Final, TypeGuard

from xoptim.facts.operators import has_kernel, operator_label
from xoptim.match import Example, GraphView, MatchResult, Node, PatternOptimization, PatternRewriter

from .._nodes import agree_elsewhere, axis_of, is_op, renamed
from .._operators import MOVING
from ._parameters import Parameters, keep_integers, parameters, separates_pair

_MOVING: Final = MOVING - {"Split"} | {"Concat"}
"""Operators that only move elements of their first operand; Concat moves those of all operands."""
_COPYING: Final = {
    "mode": "nearest",
    "coordinate_transformation_mode": "asymmetric",
    "nearest_mode": "floor",
}
"""Attributes of a Resize that copies elements without computing coordinates."""
_MAX_OPS = 16
"""Maximum number of operators between DequantizeLinear and QuantizeLinear."""


class DequantizeLinearQuantizeLinearPattern(PatternOptimization):
    """QuantizeLinear(Reshape(DequantizeLinear(x, s, z)), s, z) → Reshape(x)

    What: moves the integers instead of the dequantized numbers, through up to 16 operators that
    move elements. MaxPool is excluded: onnxruntime's integer kernel takes 3 times as long as both
    conversions and the float32 kernel together. A nearest Resize must copy elements without
    computing coordinates (0.21 to 0.53 of the time); others would take 1.14 to 1.18.
    Why: quantizing with the parameters of the DequantizeLinear returns the same integers. A tensor
    of 1x56x56x64 takes 0.07 to 0.17 of the time with ORT graph optimizations disabled. With them,
    onnxruntime does the same.
    Refuses when:
    1. the parameters differ, are not constant, or are block-wise or along an axis that is moved.
    2. the integer types differ, or the scale has too few digits, such as a float16 scale for 16-bit
       integers.
    3. a scale is subnormal, infinite, NaN or 0.
    4. an intermediate result has other consumers.
    5. the provider has no kernel for the integer type, or there are too many operators.
    6. the operands of a Concat may not match: onnxruntime joins empty tensors of any shape, with
       undefined elements.
    7. it would separate an int8 QDQ pair. onnxruntime converts adjacent pairs to uint8, for which
       all CPUs have kernels. (Without the pair, Conv and MatMul would lose their integer kernels.)
    """

    anchors = ("QuantizeLinear",)
    opposite: ClassVar[str] = "DequantizeLinear"
    near = ("DequantizeLinear", "Resize", *sorted(_MOVING))
    min_opset = 10
    radius = 6

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        quantization = parameters(g, node)
        result = node.output[0]
        dtype, opset = g.try_infer_type(result), g.main_opset
        # (2) (3)
        if quantization is None or not keep_integers(quantization.scales, dtype):
            return self.none(
                node, msg="the integers may change, or a scale or zero point is not constant"
            )
        movements: dict[Node, None] = {}
        sources: dict[str, str] = {}
        pending = [node.input[0]]
        for name in pending:
            producer = g.node_before(name)
            if self._dequantizes(producer):
                is_same = _has_parameters(g, producer, quantization, is_moved=bool(movements))
                if not is_same or g.try_infer_type(producer.input[0]) != dtype:  # (1) (2)
                    return self.none(producer, msg="the scale, zero point or integer type differs")
                sources[name] = producer.input[0]
            # (4) (5)
            elif not _moves(producer) or not g.is_exclusive(name) or len(movements) == _MAX_OPS:
                return self.none(
                    producer or node, msg="an operator in between computes, or has other consumers"
                )
            elif producer not in movements:
                axis, is_concat = axis_of(g, producer), producer.op_type == "Concat"
                # (6)
                if is_concat and (axis is None or not agree_elsewhere(g, producer.input, axis)):
                    return self.none(
                        producer, msg="the operands' shapes may not match along the other axes"
                    )
                movements[producer] = None
                pending += producer.input if is_concat else producer.input[:1]
        # (5)
        if any(has_kernel(g.provider, "", op.op_type, dtype, opset) is False for op in movements):
            return self.none(node, msg="an operator in between has no kernel for the integer type")
        # (7)
        if movements and any(
            separates_pair(g, source, result, dtype) for source in sources.values()
        ):
            return self.none(
                node, msg="it would separate an int8 QDQ pair, which onnxruntime converts to uint8"
            )
        ordered_movements = sorted(movements, key=lambda op: op.label)
        return MatchResult(self, [*ordered_movements, node], partial(self._move, sources))

    def _dequantizes(self, node: Node | None) -> TypeGuard[Node]:
        return node is not None and operator_label(node.op_type, node.domain) == self.opposite

    def _move(self, sources: dict[str, str], g: PatternRewriter, *nodes: Node) -> list[Node]:
        *movements, last = nodes
        names = sources | {node.output[0]: g.unique_name(node.output[0]) for node in movements}
        return [
            *renamed(g, movements, names),
            g.make_node("Identity", [names[last.input[0]]], last.output),
        ]

    examples = Example.pairs(
        "agraph (uint8[2,3,4] x) => (uint8[2,12] y) <float s = {0.1}, uint8 z = {128}, "
        "int64[2] k = {2, -1}> { d = DequantizeLinear(x, s, z) "
        "t = Transpose <perm = [0, 2, 1]> (d) r = Reshape(t, k) y = QuantizeLinear(r, s, z) }",
        "<int64[2] k = {2, -1}> { t = Transpose <perm = [0, 2, 1]> (x) y = Reshape(t, k) }",
        "agraph (uint8[n,2,6] x, uint8[n,3,6] u) "
        "=> (uint8[n,5,3] y) <float s = {0.25}, int64[3] k = {0, 2, 4}> { "
        "d = DequantizeLinear(x, s) e = DequantizeLinear(u, s) c = Concat <axis = 1> (d, e) "
        "i = Gather <axis = 2> (c, k) y = QuantizeLinear(i, s) }",
        "<int64[3] k = {0, 2, 4}> { c = Concat <axis = 1> (x, u) y = Gather <axis = 2> (c, k) }",
        "agraph (float[n] x) => (float[n] y) <float s = {0.1}, int8 z = {3}> { "
        "a = QuantizeLinear(x, s, z) d = DequantizeLinear(a, s, z) q = QuantizeLinear(d, s, z) "
        "y = DequantizeLinear(q, s, z) }",
        "<float s = {0.1}, int8 z = {3}> { a = QuantizeLinear(x, s, z) "
        "y = DequantizeLinear(a, s, z) }",
        "agraph (uint8[1,2,3,4] x) => (uint8[1,2,6,8] y) <float s = {0.1}, uint8 z = {128}, "
        "float[4] k = {1, 1, 2, 2}> { d = DequantizeLinear(x, s, z) "
        'r = Resize <mode = "nearest", coordinate_transformation_mode = "asymmetric", '
        'nearest_mode = "floor"> (d, , k) y = QuantizeLinear(r, s, z) }',
        "<float[4] k = {1, 1, 2, 2}> "
        '{ y = Resize <mode = "nearest", coordinate_transformation_mode = "asymmetric", '
        'nearest_mode = "floor"> (x, , k) }',
    )


def _has_parameters(
    g: GraphView, dequantize: Node, quantization: Parameters, *, is_moved: bool
) -> bool:
    """Whether a DequantizeLinear has these parameters, and no axis if its result is moved."""
    dequantization = parameters(g, dequantize)
    return (
        dequantization is not None
        and dequantization.equals(quantization)
        and (dequantization.axis is None or not is_moved)
    )


def _moves(node: Node | None) -> TypeGuard[Node]:
    """Whether an operator only moves elements, and is faster with integers."""
    if is_op(node, "Resize"):
        return {name: node.get_attribute(name, "") for name in _COPYING} == _COPYING
    return is_op(node, *_MOVING)


class ContribDequantizeLinearQuantizeLinearPattern(DequantizeLinearQuantizeLinearPattern):
    """com.microsoft.QuantizeLinear(Reshape(com.microsoft.DequantizeLinear(x, s, z)), s, z) →
    Reshape(x)

    What: `DequantizeLinearQuantizeLinear` for ONNX Runtime's contrib operators. Exporters use them
    for 16 and 4 bits below operator set 21, in which the standard operators lack these types.
    Why: the integers are moved, or folded if x is constant.
    Refuses when:
    1. `DequantizeLinearQuantizeLinear` would refuse the standard operators.
    """

    anchors = ("com.microsoft::QuantizeLinear",)
    opposite = "com.microsoft::DequantizeLinear"
    near = ("com.microsoft::DequantizeLinear", "Resize", *sorted(_MOVING))

    examples = Example.only(
        "agraph (uint16[2,3,4] x) => (uint16[2,12] y) <float s = {0.1}, uint16 z = {128}, "
        "int64[2] k = {2, -1}> { d = com.microsoft.DequantizeLinear(x, s, z) "
        "t = Transpose <perm = [0, 2, 1]> (d) r = Reshape(t, k) "
        "y = com.microsoft.QuantizeLinear(r, s, z) }",
        "<int64[2] k = {2, -1}> { t = Transpose <perm = [0, 2, 1]> (x) y = Reshape(t, k) }",
    )
