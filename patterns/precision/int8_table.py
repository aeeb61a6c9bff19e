import numpy as np
from onnx import TensorProto

from xoptim.match import Constant, EasyPatternOptimization, Example, GraphView, Match, PatternBuilder, PatternRewriter, Symbol
from xoptim.match.rounding import RoundingPattern

from .._folding import Array, constant
from ._rounding import columns_to_int8, is_roundable

_ROWS = 256
"""Fewest rows of a table; the example has as many."""
_TABLE = ", ".join(f"{n % 128 - 127 * (n % 2)}, 127" for n in range(_ROWS))
_FLOATS = ", ".join(f"{(n % 128 - 127 * (n % 2)) / 2}, 63.5" for n in range(_ROWS))
_SCALES = ", ".join(["0.5"] * _ROWS)


class Int8TablePattern(RoundingPattern, EasyPatternOptimization):
    """Gather(w, i) → Cast(Gather(w8, i)) · Gather(s, i)

    What: rounds a table, such as the embedding of a vocabulary, to 8 bits, with a scale for each row.
    Why: the table takes a quarter of the bytes. Reading takes 1.2 to 1.9 of the time, which is little beside products.
    Refuses when:
    1. the table is not a constant matrix of finite 32-bit floats with at least 256 rows of several numbers, or is
       not read by rows.
    2. the provider has no kernel that reads integers.
    """

    phase = "target"
    bits = 8
    min_opset = 13
    providers = ("cpu",)
    tags = ("int8", "extra")
    kernels = {"Gather": "w"}  # (2)

    def match_pattern(self, g: PatternBuilder, w: Constant, i: Symbol) -> Symbol:
        return g.op.Gather(w, i, axis=g.capture("axis"))

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        shape, node = g.static_shape(m.w), m.nodes[0]
        if shape is None or len(shape) != 2 or g.try_infer_type(m.w) != TensorProto.FLOAT:  # (1)
            return self.none(node, msg="not a constant matrix of 32-bit floats")
        if m.axis not in (0, -2) or shape[0] < _ROWS or shape[1] < 2:  # (1)
            return self.none(node, msg="not read by rows, or few rows")
        table = constant(g, m.w)
        if not is_roundable(table):  # (1)
            return self.none(node, msg="numbers that are not finite, or too large")
        return m.derive(table=table)

    def apply_pattern(self, g: PatternRewriter, w: str, i: str, table: Array) -> str:
        found = columns_to_int8(table.T)
        integers = g.make_initializer("", np.ascontiguousarray(found.integers.T), source=w)
        scales = g.make_initializer("", found.scales[:, None], source=f"{w}_scales")
        numbers = g.op.Cast(g.op.Gather(integers, i), to=TensorProto.FLOAT)
        return g.op.Mul(numbers, g.op.Gather(scales, i))

    examples = (
        Example(
            f"agraph (int64[n] i) => (float[n,2] y) <float[{_ROWS},2] w = {{{_FLOATS}}}> {{ y = Gather(w, i) }}",
            f"agraph (int64[n] i) => (float[n,2] y) <int8[{_ROWS},2] w = {{{_TABLE}}}, float[{_ROWS},1] s = {{{_SCALES}}}> "
            "{ a = Gather(w, i) c = Cast <to = 1> (a) b = Gather(s, i) y = Mul(c, b) }",
            opset=13,
            ranges=(("i", -_ROWS, _ROWS - 1),),
        ),
    )
