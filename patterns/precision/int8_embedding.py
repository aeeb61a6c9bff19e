import numpy as np
from onnx import TensorProto

from xoptim.match import Example, GraphView, PatternRewriter

from .._folding import Array
from .._nodes import is_op
from .._pairs import pair_scales
from ._embeddings import ROWS, _QuantizedEmbedding
from ._quantization import columns_to_int8

_TABLE = ", ".join(f"{n % 128 - 127 * (n % 2)}, 127" for n in range(ROWS))
_FLOATS = ", ".join(f"{(n % 128 - 127 * (n % 2)) / 2}, 63.5" for n in range(ROWS))
_SCALES = ", ".join(["0.5"] * ROWS)


class Int8EmbeddingPattern(_QuantizedEmbedding):
    """Gather(w, i) → Cast(Gather(w8, i)) · Gather(s, i)

    What: quantizes an embedding to 8 bits, with a scale for each row. ``--precision int4`` uses it
    if 4 bits are too inaccurate, or contrib operators are not allowed.
    Why: the embedding takes a quarter of the bytes. Reading takes 1.2 to 1.9 of the time, which is
    little compared with MatMuls.
    Refuses when:
    1. the embedding is not a finite constant float32 matrix, read by rows, with at least 256 rows
       and 2 columns.
    2. the provider has no kernel of Gather for int8.
    """

    bits = 8
    min_opset = 13
    priority = -1  # before the MatMuls by a tied embedding, which `_is_multiplied` looks for
    tags = ("int8", "int4", "extra")
    kernels = {"Gather": "w"}  # (2)
    is_alternative = True
    time = 0.36

    def fits(self, columns: int) -> bool:
        return columns > 1

    def apply_pattern(self, g: PatternRewriter, w: str, i: str, table: Array) -> str:
        least = pair_scales(g, table.T) if self._is_multiplied(g, w) else 0.0
        columns = columns_to_int8(table.T, least)
        integers = g.make_initializer("", np.ascontiguousarray(columns.integers.T), source=w)
        scales = g.make_initializer("", columns.scales[:, None], source=f"{w}_scales")
        numbers = g.op.Cast(g.op.Gather(integers, i), to=TensorProto.FLOAT)
        return g.op.Mul(numbers, g.op.Gather(scales, i))

    def _is_multiplied(self, g: GraphView, table: str) -> bool:
        """Whether nodes other than Gather read the embedding: MatMuls then share its integers."""
        return any(not is_op(reader, "Gather") for reader in g.next_nodes(table))

    examples = (
        Example(
            f"agraph (int64[n] i) => (float[n,2] y) <float[{ROWS},2] w = {{{_FLOATS}}}> {{ "
            "y = Gather(w, i) }",
            f"agraph (int64[n] i) => (float[n,2] y) <int8[{ROWS},2] w = {{{_TABLE}}}, "
            f"float[{ROWS},1] s = {{{_SCALES}}}> {{ a = Gather(w, i) c = Cast <to = 1> (a) "
            "b = Gather(s, i) y = Mul(c, b) }",
            opset=13,
            ranges=(("i", -ROWS, ROWS - 1),),
        ),
    )
