from typing import Any, Final

from onnx import TensorProto

from xoptim.match import Example, GraphView, Match, PatternBuilder, PatternRewriter
from xoptim.match.trace import Constant, Optional, Symbol

from .._folding import Array, constant
from ._blocks import BITS, stored, unpacked
from ._lowering import _Lowering

_KNOWN: Final = {"bits", "block_size", "gather_axis", "quantize_axis"}


class LowerGatherBlockQuantizedPattern(_Lowering):
    """com.microsoft.GatherBlockQuantized(w, i, s, z) → Gather(DequantizeLinear(w, s, z,
    block_size=b), i)

    What: stores the integers of 4 or 8 bits as a matrix of their own type; without zero points with
    a sign. The table is dequantized before rows are read, as Gather reads no integers of 4 bits.
    Why: only ONNX Runtime's own providers run it; OpenVINO and others know tables in blocks by
    DequantizeLinear.
    Refuses when:
    1. the table, scales or zero points are not constant.
    2. the table is not a matrix of bytes in whole blocks along its rows, which are read.
    3. the scales are not float.
    """

    min_opset = 21
    max_opset = 27
    constant_operands = ("w", "s", "z")  # (1)
    derives = ("table", "block")

    def match_pattern(
        self, g: PatternBuilder, w: Constant, i: Symbol, s: Constant, z: Optional
    ) -> Symbol:
        return g.op.GatherBlockQuantized(
            w, i, s, z, domain="com.microsoft", attributes=g.capture("written")
        )

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        node, written = (
            m.nodes[0],
            {"bits": 4, "block_size": 128, "gather_axis": 0, "quantize_axis": 1, **m.written},
        )
        bits, block = written["bits"], written["block_size"]
        table, scales = constant(g, m.w), constant(g, m.s)
        is_matrix = (
            table.ndim == 2 and scales.ndim == 2 and g.try_infer_type(m.w) == TensorProto.UINT8
        )
        is_usual = (
            written["gather_axis"] == 0
            and written["quantize_axis"] in (1, -1)
            and written.keys() == _KNOWN
        )
        if not is_matrix or not is_usual or bits not in BITS:  # (2)
            return self.none(
                node, msg="the data is not a constant 4- or 8-bit matrix in blocks along its rows"
            )
        columns = table.shape[1] * 8 // bits
        if scales.shape != (len(table), columns // block) or columns % block:  # (2)
            return self.none(node, msg="the row length is not a multiple of block_size")
        if g.try_infer_type(m.s) != TensorProto.FLOAT:  # (3)
            return self.none(node, msg="the scales are not float32")
        found = [stored(unpacked(table, bits, columns), bits, is_centred=not m.z), scales]
        if m.z:
            zeros = unpacked(constant(g, m.z).reshape(len(table), -1), bits, columns // block)
            found.append(stored(zeros, bits, is_centred=False))
        return m.derive(table=found, block=block)

    def apply_pattern(
        self, g: PatternRewriter, i: str, table: list[Array], block: int, **m: Any
    ) -> str:
        names = [
            g.make_initializer("", each, source=source)
            for each, source in zip(table, (m["w"], m["s"], m["z"]), strict=False)
        ]
        return g.op.Gather(g.op.DequantizeLinear(*names, axis=1, block_size=block), i, axis=0)

    _bytes = ", ".join(str((5 * n) % 256) for n in range(32))
    _start = (
        f"agraph (int64[n] i) => (float[n,16] y) <uint8[4,8] w = {{{_bytes}}}, "
        "float[4,1] s = {0.5, 0.25, 2, 1}"
    )
    _read = "<bits = 4, block_size = 16, gather_axis = 0, quantize_axis = 1>"
    examples = Example.pairs(
        f"{_start}> {{ y = com.microsoft.GatherBlockQuantized {_read} (w, i, s) }}",
        "<float[4,1] s = {0.5, 0.25, 2, 1}, int4[4,16] a = {136, 141, 130, 135, 156, 145, 150, "
        "171, 160, 165, 186, 191, 180, 201, 206, 195, 216, 221, 210, 215, 236, 225, 230, 251, 240, "
        "245, 10, 15, 4, 25, 30, 19}> { b = DequantizeLinear <axis = 1, block_size = 16> (a, s) y "
        "= Gather <axis = 0> (b, i) }",
        f"{_start}, uint8[4,1] z = {{7, 9, 8, 3}}> {{ y = com.microsoft.GatherBlockQuantized "
        f"{_read} (w, i, s, z) }}",
        "<float[4,1] s = {0.5, 0.25, 2, 1}, uint4[4,16] a = {0, 5, 10, 15, 20, 25, 30, 35, 40, 45, "
        "50, 55, 60, 65, 70, 75, 80, 85, 90, 95, 100, 105, 110, 115, 120, 125, 130, 135, 140, 145, "
        "150, 155}, uint4[4,1] b = {151, 56}> { c = DequantizeLinear <axis = 1, block_size = 16> "
        "(a, s, b) y = Gather <axis = 0> (c, i) }",
        opset=21,
        ranges=(("i", -1, 1),),
    )
