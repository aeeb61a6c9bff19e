from typing import Any, Final

from onnx import TensorProto

from xoptim.facts.shapes import normalized
from xoptim.match import Example, GraphView, Match, PatternBuilder, PatternRewriter
from xoptim.match.trace import Optional, Symbol

from ._lowering import ATTENTION_FLOATS, _Lowering

_INT4: Final = frozenset((TensorProto.INT4, TensorProto.UINT4))
_ATTRIBUTES: Final = {"bits", "block_size", "gather_axis", "quantize_axis"}


class LowerGatherBlockQuantizedAxesPattern(_Lowering):
    """com.microsoft.GatherBlockQuantized(w, i, s, z) of int4 → Gather(DequantizeLinear(w, s, z,
    block_size=b, axis=q), i, axis=a)

    What: dequantizes the int4 or uint4 operand in blocks along any axis, and gathers along any
    axis.
    Why: only ONNX Runtime's own providers run the operator. OpenVINO and others support block-wise
    quantization by DequantizeLinear.
    Refuses when:
    1. the integers are not of type int4 or uint4, or the scales are not float32 or float16 (checked
       by the matcher).
    2. the shape is not known. Or an axis is out of range or does not consist of complete blocks.
    """

    min_opset = 21
    max_opset = 27
    operand_types = {"w": _INT4, "s": ATTENTION_FLOATS}  # (1)
    derives = ("options",)

    def match_pattern(
        self, g: PatternBuilder, w: Symbol, i: Symbol, s: Symbol, z: Optional
    ) -> Symbol:
        return g.op.GatherBlockQuantized(
            w, i, s, z, domain="com.microsoft", attributes=g.capture("written")
        )

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        node, shape, scales = m.nodes[0], g.static_shape(m.w), g.static_shape(m.s)
        options = {"block_size": 128, "gather_axis": 0, "quantize_axis": 1, **m.written}
        if not shape or not scales or not options.keys() <= _ATTRIBUTES:  # (2)
            return self.none(node, msg="the shape of the data or of the scales is unknown")
        axis, place = (
            normalized(options[name], len(shape)) for name in ("quantize_axis", "gather_axis")
        )
        block = options["block_size"]
        if axis is None or place is None or not block or shape[axis] % block:  # (2)
            return self.none(node, msg="an axis is out of range, or not a multiple of block_size")
        if scales != (*shape[:axis], shape[axis] // block, *shape[axis + 1 :]):  # (2)
            return self.none(node, msg="there is not one scale per block")
        return m.derive(options=(axis, place, block))

    def apply_pattern(
        self,
        g: PatternRewriter,
        w: str,
        i: str,
        s: str,
        z: str,
        options: tuple[int, int, int],
        **m: Any,
    ) -> str:
        axis, place, block = options
        numbers = g.op.DequantizeLinear(w, s, z or None, axis=axis, block_size=block)
        return g.op.Gather(numbers, i, axis=place)

    _bytes = ", ".join(str((5 * n) % 256) for n in range(32))
    examples = Example.pairs(
        f"agraph (int64[n] i) => (float[16,n] y) <int4[16,4] w = {{{_bytes}}}, float[1,4] s = "
        "{0.5, 0.25, 2, 1}> { y = com.microsoft.GatherBlockQuantized <block_size = 16, "
        "gather_axis = 1, quantize_axis = 0> (w, i, s) }",
        f"<int4[16,4] w = {{{_bytes}}}, float[1,4] s = {{0.5, 0.25, 2, 1}}> {{ "
        "d = DequantizeLinear <axis = 0, block_size = 16> (w, s) y = Gather <axis = 1> (d, i) }",
        f"agraph (int64[n] i) => (float[n,16] y) <uint4[4,16] w = {{{_bytes}}}, float[4,1] s = "
        "{0.5, 0.25, 2, 1}, uint4[4,1] z = {23, 41}> { y = com.microsoft.GatherBlockQuantized "
        "<block_size = 16> (w, i, s, z) }",
        f"<uint4[4,16] w = {{{_bytes}}}, float[4,1] s = {{0.5, 0.25, 2, 1}}, uint4[4,1] z = "
        "{23, 41}> { d = DequantizeLinear <axis = 1, block_size = 16> (w, s, z) "
        "y = Gather <axis = 0> (d, i) }",
        opset=21,
        ranges=(("i", -1, 1),),
    )
