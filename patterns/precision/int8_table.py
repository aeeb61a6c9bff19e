import numpy as np
from onnx import TensorProto

from xoptim.match import Example, GraphView, MatchResult, Node, PatternRewriter, runs
from xoptim.match.axes import axis_of
from xoptim.match.rounding import RoundingPattern

from .._folding import constant
from ._rounding import columns_to_int8, is_roundable

_FEWEST_ROWS = 256
_ROWS = 256
_TABLE = ", ".join(f"{n % 128 - 127 * (n % 2)}, 127" for n in range(_ROWS))
_FLOATS = ", ".join(f"{(n % 128 - 127 * (n % 2)) / 2}, 63.5" for n in range(_ROWS))
_SCALES = ", ".join(["0.5"] * _ROWS)


class Int8TablePattern(RoundingPattern):
    """Gather(w, i) → Cast(Gather(w8, i)) · Gather(s, i)

    What: rounds a table, such as the embedding of a vocabulary, to 8 bits, with a scale for each row.
    Why: the table takes a quarter of the bytes. Reading a row takes longer, which shows beside nothing else.
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
    anchors = ("Gather",)

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        table = node.input[0]
        shape = g.static_shape(table)
        if not g.is_constant(table) or shape is None or len(shape) != 2 or g.try_infer_type(table) != TensorProto.FLOAT:  # (1)
            return self.none(node, msg="not a constant matrix of 32-bit floats")
        if axis_of(g, node) != 0 or shape[0] < _FEWEST_ROWS or shape[1] < 2:  # (1)
            return self.none(node, msg="not read by rows, or few rows")
        if not runs(g, "Gather", table):  # (2)
            return self.none(node, msg="no kernel that reads integers")
        if not is_roundable(constant(g, table)):  # (1)
            return self.none(node, msg="numbers that are not finite, or too large")
        return MatchResult(self, [node], self._round)

    def _round(self, g: PatternRewriter, node: Node) -> list[Node]:
        table, rows = node.input
        found = columns_to_int8(constant(g, table).T)
        integers = g.make_initializer("", np.ascontiguousarray(found.integers.T), source=table)
        scales = g.make_initializer("", found.scales[:, None], source=f"{table}_scales")
        factors = [g.op.Cast(g.op.Gather(integers, rows), to=TensorProto.FLOAT), g.op.Gather(scales, rows)]
        return [*g.created, g.make_node("Mul", factors, node.output)]

    examples = (
        Example(
            f"agraph (int64[n] i) => (float[n,2] y) <float[{_ROWS},2] w = {{{_FLOATS}}}> {{ y = Gather(w, i) }}",
            f"agraph (int64[n] i) => (float[n,2] y) <int8[{_ROWS},2] w = {{{_TABLE}}}, float[{_ROWS},1] s = {{{_SCALES}}}> "
            "{ a = Gather(w, i) c = Cast <to = 1> (a) b = Gather(s, i) y = Mul(c, b) }",
            opset=13,
            ranges=(("i", -_ROWS, _ROWS - 1),),
        ),
    )
