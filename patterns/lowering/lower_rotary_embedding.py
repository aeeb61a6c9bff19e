from typing import Any, Final

import numpy as np

from xoptim.facts.shapes import Shape
from xoptim.match import Example, GraphView, Match, PatternBuilder, PatternRewriter
from xoptim.match.trace import Optional, Symbol

from ._lowering import ATTENTION_FLOATS, _Lowering
from ._rotation import halves_rotated, pairs_rotated

_ATTRIBUTES: Final = {
    "num_heads",
    "rotary_embedding_dim",
    "interleaved",
    "scale",
    "is_packed_batching",
}


class LowerRotaryEmbeddingPattern(_Lowering):
    """RotaryEmbedding(x, cos, sin) → Concat(a · cos - b · sin, a · sin + b · cos) with a, b =
    Split(x)

    What: writes the formula of the rotation. The operator may rotate a part of the features, or
    neighbouring pairs (interleaved), for which Reshape adds an axis. Gather reads the rows of cos
    and sin for the positions. The same for com.microsoft.RotaryEmbedding.
    Why: few runtimes have the operator.
    Refuses when:
    1. the types are not float32 or float16, or differ.
    2. the shapes of x, cos and sin are unknown or do not agree.
    3. the positions are not known to be one for each row of x. (com.microsoft.RotaryEmbedding may
       have one position for the first row, if the number of rows is static.)
    4. an attribute or its value is not supported.
    """

    min_opset = 13
    operand_types = {"x": ATTENTION_FLOATS}  # (1)
    derives = ("sizes", "first")

    def match_pattern(
        self, g: PatternBuilder, x: Symbol, cos: Symbol, sin: Symbol, position: Optional
    ) -> Symbol:
        attributes = g.capture("written")
        if g.option("contrib"):
            return g.op.RotaryEmbedding(
                x, position, cos, sin, domain="com.microsoft", attributes=attributes
            )
        return g.op.RotaryEmbedding(x, cos, sin, position, attributes=attributes)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        node = m.nodes[0]
        if len({g.try_infer_type(name) for name in (m.x, m.cos, m.sin)}) > 1:  # (1)
            return self.none(node, msg="the types differ")
        is_usual = m.written.get("scale", 1.0) == 1 and not m.written.get("is_packed_batching")
        if not is_usual or not m.written.keys() <= _ATTRIBUTES:  # (4)
            return self.none(node, msg="an attribute is unknown, or has an unsupported value")
        shape, table = (g.try_infer_shape(name) for name in (m.x, m.cos))
        sizes = _sizes(shape or (), table or (), m.written)
        # (2)
        if shape is None or table is None or sizes is None or g.try_infer_shape(m.sin) != table:
            return self.none(node, msg="the shapes are unknown, or do not match")
        rows = (shape[0], shape[-2])
        positions = g.try_infer_shape(m.position) if m.position else table[:-1]
        is_first = bool(m.contrib) and positions in ((), (1,)) and isinstance(rows[1], int)
        if not is_first and positions != rows:  # (3)
            return self.none(node, msg="position_ids is not known to hold one position per row")
        return m.derive(sizes=sizes, first=rows[1] if is_first else 0)

    def apply_pattern(
        self, g: PatternRewriter, x: str, cos: str, sin: str, position: str, **m: Any
    ) -> str:
        heads, size, rotated = m["sizes"]
        is_flat, unrotated = g.info(x).rank == 3, size - rotated
        axes = [2 if is_flat else 1]
        if m["first"]:
            position = g.op.Add(position, np.arange(m["first"]))
            axes = [0, *axes]
        angles = [
            g.op.Gather(table, position, axis=0) if position else table for table in (cos, sin)
        ]
        back = [0, 0, heads * size] if is_flat else [0, 0, 0, size]
        if m["written"].get("interleaved") == 1 and not unrotated:
            pairs = g.op.Reshape(x, np.array([0, 0, heads if is_flat else 0, size // 2, 2]))
            cos, sin = (g.op.Unsqueeze(angle, axes=[*axes, 4]) for angle in angles)
            return g.op.Reshape(pairs_rotated(g, pairs, cos, sin), np.array(back))
        split = g.op.Reshape(x, np.array([0, 0, heads, size])) if is_flat else x
        if m["written"].get("interleaved") == 1:
            part, tail = g.op.Split(split, split=[rotated, unrotated], axis=-1, outputs=2)
            pairs = g.op.Reshape(part, np.array([0, 0, 0, rotated // 2, 2]))
            cos, sin = (g.op.Unsqueeze(angle, axes=[*axes, 4]) for angle in angles)
            joined = g.op.Reshape(pairs_rotated(g, pairs, cos, sin), np.array([0, 0, 0, rotated]))
            result = g.op.Concat(joined, tail, axis=-1)
        else:
            cos, sin = (g.op.Unsqueeze(angle, axes=axes) for angle in angles)
            result = halves_rotated(g, split, cos, sin, [rotated, unrotated])
        return g.op.Reshape(result, np.array(back)) if is_flat else result

    examples = (
        *Example.pairs(
            "agraph (float[b,h,s,6] x, float[b,s,2] c, float[b,s,2] i) => (float[b,h,s,6] y) "
            "{ y = RotaryEmbedding <num_heads = 3, rotary_embedding_dim = 4> (x, c, i) }",
            "<int64[1] a = {1}, int64[3] b = {2, 2, 2}> { d = Unsqueeze(c, a) e = Unsqueeze(i, a) "
            "f, g, h = Split <axis = -1> (x, b) j = Mul(f, d) k = Mul(g, e) l = Sub(j, k) "
            "m = Mul(f, e) n = Mul(g, d) o = Add(m, n) y = Concat <axis = -1> (l, o, h) }",
            "agraph (float[b,s,12] x, float[9,2] c, float[9,2] i, int64[b,s] p) "
            "=> (float[b,s,12] y) { y = RotaryEmbedding <num_heads = 3, interleaved = 1> (x, c, "
            "i, p) }",
            "<int64[5] a = {0, 0, 3, 2, 2}, int64[2] b = {2, 4}, int64[2] d = {1, 1}, "
            "int64[3] e = {0, 0, 12}> { f = Gather <axis = 0> (c, p) g = Gather <axis = 0> (i, p) "
            "h = Reshape(x, a) j = Unsqueeze(f, b) k = Unsqueeze(g, b) "
            "l, m = Split <axis = -1> (h, d) n = Mul(l, j) o = Mul(m, k) q = Sub(n, o) "
            "r = Mul(l, k) s = Mul(m, j) t = Add(r, s) u = Concat <axis = -1> (q, t) "
            "y = Reshape(u, e) }",
            "agraph (float[b,h,s,6] x, float[b,s,2] c, float[b,s,2] i) => (float[b,h,s,6] y) { "
            "y = RotaryEmbedding <num_heads = 3, rotary_embedding_dim = 4, interleaved = 1> (x, "
            "c, i) }",
            "<int64[2] a = {4, 2}, int64[5] b = {0, 0, 0, 2, 2}, int64[2] d = {1, 4}, "
            "int64[2] e = {1, 1}, int64[4] f = {0, 0, 0, 4}> { g, h = Split <axis = -1> (x, a) "
            "j = Reshape(g, b) k = Unsqueeze(c, d) l = Unsqueeze(i, d) "
            "m, n = Split <axis = -1> (j, e) o = Mul(m, k) p = Mul(n, l) q = Sub(o, p) "
            "r = Mul(m, l) s = Mul(n, k) t = Add(r, s) u = Concat <axis = -1> (q, t) "
            "v = Reshape(u, f) y = Concat <axis = -1> (v, h) }",
            opset=23,
            ranges=(("p", 0, 8),),
        ),
        Example(
            "agraph (float[b,h,3,4] x, float[9,2] c, float[9,2] i, int64[1] p) "
            "=> (float[b,h,3,4] y) { y = com.microsoft.RotaryEmbedding(x, p, c, i) }",
            "<int64[3] a = {0, 1, 2}, int64[2] b = {0, 1}, int64[2] d = {2, 2}> { e = Add(p, a) "
            "f = Gather <axis = 0> (c, e) g = Gather <axis = 0> (i, e) h = Unsqueeze(f, b) "
            "j = Unsqueeze(g, b) k, l = Split <axis = -1> (x, d) m = Mul(k, h) n = Mul(l, j) "
            "o = Sub(m, n) q = Mul(k, j) r = Mul(l, h) s = Add(q, r) "
            "y = Concat <axis = -1> (o, s) }",
            ranges=(("p", 0, 6),),
        ),
        Example(
            "agraph (float16[b,3,s,4] x, float16[b,s,2] c, float16[b,s,2] i) "
            "=> (float16[b,3,s,4] y) { y = RotaryEmbedding(x, c, i) }",
            "<int64[1] a = {1}, int64[2] b = {2, 2}> { d = Unsqueeze(c, a) e = Unsqueeze(i, a) "
            "f, g = Split <axis = -1> (x, b) h = Mul(f, d) j = Mul(g, e) k = Sub(h, j) "
            "l = Mul(f, e) m = Mul(g, d) n = Add(l, m) y = Concat <axis = -1> (k, n) }",
            opset=23,
        ),
    )


def _sizes(shape: Shape, table: Shape, written: dict[str, Any]) -> tuple[int, int, int] | None:
    """The number of heads (0 if not needed), of features of a head, and of rotated features."""
    if len(shape) not in (3, 4) or len(table) not in (2, 3):
        return None
    if not isinstance(shape[-1], int) or not isinstance(table[-1], int):
        return None
    heads, rotated = written.get("num_heads", 0), written.get("rotary_embedding_dim", 0)
    if len(shape) == 4:
        size = shape[-1]
    else:
        heads = heads or shape[-1] // max(1, 2 * table[-1])
        size = shape[-1] // heads if heads else 0
    rotated = rotated or size
    is_divided = len(shape) == 4 or heads * size == shape[-1]
    return (
        (heads, size, rotated)
        if is_divided and 0 < rotated <= size and rotated == 2 * table[-1]
        else None
    )
