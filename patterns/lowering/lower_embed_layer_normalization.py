from typing import Any

import numpy as np
from onnx import TensorProto

from xoptim.match import Example, GraphView, Match, PatternBuilder, PatternRewriter
from xoptim.match.trace import Symbol, Variadic

from ._lowering import _Lowering

_FURTHER = ("segments", "word", "place", "kind", "scale", "bias", "mask", "positions")
"""The operands after the numbers of the words."""


class LowerEmbedLayerNormalizationPattern(_Lowering):
    """com.microsoft.EmbedLayerNormalization(i, ...) → LayerNormalization(Gather(words, i) +
    positions + Gather(segments, j))

    What: rows of three tables by Gather, their sum by Add; the first rows of the table of positions
    where these are not given.
    Why: only ONNX Runtime's own providers run it.
    Refuses when:
    1. the number of keys that count is read, which the operator computes from the mask.
    2. the positions are not given, and the length of the sequence is unknown, or they have another
       shape than the words.
    3. the tables are not of 32-bit floats.
    """

    min_opset = 17
    derives = ("given", "length", "number")

    def match_pattern(self, g: PatternBuilder, i: Symbol, others: Variadic) -> Symbol:
        return g.op.EmbedLayerNormalization(
            *(i, others),
            domain="com.microsoft",
            outputs=g.variadic("results"),
            attributes=g.capture("written"),
        )

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        node, given = m.nodes[0], dict(zip(_FURTHER, m.others, strict=False))
        if m.results[1:2] and m.results[1] and g.is_used(m.results[1]):  # (1)
            return self.none(node, msg="mask_index, the second result, is read")
        shape, table = g.try_infer_shape(m.i) or (), g.static_shape(given.get("place", ""))
        length = shape[1] if len(shape) == 2 and isinstance(shape[1], int) else 0
        same = [name for name in (given.get("positions"), given.get("segments")) if name]
        has_rows = bool(given.get("positions")) or (table is not None and 0 < length <= table[0])
        if not has_rows or any(g.try_infer_shape(name) != shape for name in same):  # (2)
            return self.none(
                node, msg="the sequence length is unknown, or position_ids has another shape"
            )
        # (3)
        if any(
            g.try_infer_type(given.get(name, "")) != TensorProto.FLOAT
            for name in ("word", "place", "scale")
        ):
            return self.none(node, msg="the embeddings are not float32")
        return m.derive(given=given, length=length, number=m.written.get("epsilon", 1e-12))

    def apply_pattern(
        self, g: PatternRewriter, i: str, given: dict[str, str], length: int, **m: Any
    ) -> Any:
        positions = given.get("positions") or np.arange(length)
        total = g.op.Add(
            g.op.Gather(given["word"], i, axis=0), g.op.Gather(given["place"], positions, axis=0)
        )
        if given["segments"]:
            total = g.op.Add(total, g.op.Gather(given["kind"], given["segments"], axis=0))
        normal = g.op.LayerNormalization(
            total, given["scale"], given["bias"] or None, axis=-1, epsilon=m["number"]
        )
        return (normal, None, total)[: len(m["results"])]

    _tables = "float[7,4] w, float[5,4] p, float[2,4] k, float[4] s, float[4] c"
    examples = Example.pairs(
        f"agraph (int32[b,3] i, int32[b,3] j, {_tables}) => (float[b,3,4] y) "
        "{ y, z = com.microsoft.EmbedLayerNormalization <epsilon = 0.001> (i, j, w, p, k, s, c) }",
        "<int64[3] a = {0, 1, 2}> { b = Gather <axis = 0> (w, i) d = Gather <axis = 0> (p, a) e = "
        "Add(b, d) f = Gather <axis = 0> (k, j) g = Add(e, f) y = LayerNormalization <axis = -1, "
        "epsilon = 0.001> (g, s, c) }",
        f"agraph (int32[b,n] i, int32[b,n] j, {_tables}, int32[b,n] q) "
        "=> (float[b,n,4] y, float[b,n,4] t) { "
        "y, z, t = com.microsoft.EmbedLayerNormalization <epsilon = 0.001> (i, j, w, p, k, s, c, "
        ", q) }",
        "{ a = Gather <axis = 0> (w, i) b = Gather <axis = 0> (p, q) d = Add(a, b) e = Gather "
        "<axis = 0> (k, j) t = Add(d, e) y = LayerNormalization <axis = -1, epsilon = 0.001> (t, "
        "s, c) }",
        ranges=(("i", 0, 5), ("j", 0, 0), ("q", 0, 3)),
    )
