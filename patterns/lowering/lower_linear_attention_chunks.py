"""LinearAttention of any number of tokens, as MatMuls over chunks of tokens.

The formulas are from Yang et al., "Parallelizing Linear Transformers with the Delta Rule over
Sequence Length" (2024) and "Gated Delta Networks" (2024). Only the states between chunks are
computed one after the other. Arrays have the axes (chunks, batch, heads, tokens, size).
"""

import math
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from onnx import parser

from xoptim.match import Example, GraphView, Match, PatternRewriter

from ._linear_attention import _LowerLinearAttention, is_delta, is_gated, is_step

_LENGTH: Final = 32
"""Number of tokens of a chunk, a power of 2. With 64, the MatMuls for the inverse take longer."""
_BEFORE: Final = [1, 0, 3, 2, 4]
"""The permutation (batch, chunks, tokens, heads, size) ↔ (chunks, batch, heads, tokens, size)."""
_IS_VISIBLE: Final = np.tri(_LENGTH, dtype=bool)
"""Whether a token (row) sees a token of the same chunk (column)."""
_LEAST_LOGARITHM: Final = np.array(-104, np.float32)
"""A number whose Exp is 0 in float32."""
_COLUMNS: Final = [0, 1, 2, 4, 3]
"""The permutation that exchanges the last two axes."""


class LowerLinearAttentionChunksPattern(_LowerLinearAttention):
    """com.microsoft.LinearAttention(q, k, v, past, g, beta) → present, states = Scan over chunks of
    32 tokens, y = q · states + (q · kᵀ) · changes

    What: computes any number of tokens, by any of the four update rules. (The exactness is
    ``finite``: a number that is not finite spreads to all tokens of its chunk.)
    Why: only ONNX Runtime's own providers run the operator. Measured on one core for 128 tokens and
    more: chunks take 1.9 times as long as the operator with 32 heads of 128 features, and 3 times
    as long with 8 heads of 64 features. A Scan over tokens takes 9 to 13 times as long as the
    operator. (For one token, the Scan takes 11 to 15 times as long.)
    Refuses when:
    1. there is one token (`LowerLinearAttention`), or the state decays by key.
    2. `LowerLinearAttention` refuses for another reason.
    """

    exactness = "finite"
    min_opset = 14  # Trilu

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        if is_step(g, m):  # (1)
            return self.none(m.nodes[0], msg="there is one token")
        if not super().validate_mapping(g, m):  # (2)
            return None
        if is_gated(m.rule) and m.decays != m.sizes[0]:  # (1)
            return self.none(m.nodes[0], msg="the state decays by key")
        return True

    def apply_pattern(
        self, g: PatternRewriter, rule: str, past: str, sizes: list[int], **m: Any
    ) -> tuple[str, str]:
        heads, key, value = sizes
        chunks = _Chunks(g, m["q"])
        q, k = (
            chunks.repeated(chunks.of(m[name], count), count, heads)
            for name, count in zip("qk", m["shared"], strict=True)
        )
        v, columns = chunks.of(m["v"], heads), g.op.Transpose(k, perm=_COLUMNS)
        decays = _Decays(g, chunks.of(m["decay"], heads) if is_gated(rule) else "")
        steps = {
            "factor": decays.whole,
            "rows": g.op.Transpose(decays.until_end(k), perm=_COLUMNS),
            "values": v,
        }
        if is_delta(rule):
            rates = chunks.of(m["beta"], heads)
            learned = g.op.Mul(k, rates)
            inverse = _inverse(g, decays.within_chunk(g.op.MatMul(learned, columns)))
            steps["values"] = g.op.MatMul(inverse, g.op.Mul(v, rates))
            steps["keys"] = g.op.MatMul(inverse, decays.since_start(learned))
        operands = {name: operand for name, operand in steps.items() if operand}
        present, states, changes = _scan(g, past, operands)
        past_part = g.op.MatMul(decays.since_start(q), states)
        inner = g.op.MatMul(decays.within_chunk(g.op.MatMul(q, columns)), changes)
        y = chunks.joined(g.op.Add(past_part, inner), heads * value)
        scale = m["written"].get("scale", 0.0) or 1 / math.sqrt(key)
        return (y if scale == 1 else g.op.Mul(y, scale)), present

    examples = Example.only(
        "agraph (float[b,t,8] q, float[b,t,8] k, float[b,t,6] v, float[b,2,4,3] p) "
        "=> (float[b,t,6] y, float[b,2,4,3] s) { y, s = com.microsoft.LinearAttention <q_num_heads "
        '= 2, kv_num_heads = 2, scale = 1.0, update_rule = "linear"> (q, k, v, p) }',
        "<int64[1] zero = {0}, int64[1] one = {1}, int64[1] two = {2}, int64[1] most = {31}, "
        "int64[1] length = {32}, int64[4] z = {0, 0, 0, 0}, int64[5] n = {0, 1, 0, 0, 0}, "
        "int64[5] i = {0, 0, 32, 2, 4}, int64[5] j = {0, 0, 32, 2, 3}, int64[3] m = {0, 1, 0}, "
        "int64[3] x = {0, 0, 6}> { a = Shape(q) c = Slice(a, one, two, zero) d = Add(c, most) "
        "e = Div(d, length) w = Max(e, one) f = Mul(w, length) h = Sub(f, c) "
        "r = Concat <axis = 0> (z, h, zero) c0 = Mul(w, n) k0 = Add(c0, i) v0 = Add(c0, j) "
        "q1 = Pad(q, r) q2 = Reshape(q1, k0) q3 = Transpose <perm = [1, 0, 3, 2, 4]> (q2) "
        "k1 = Pad(k, r) k2 = Reshape(k1, k0) k3 = Transpose <perm = [1, 0, 3, 2, 4]> (k2) "
        "v1 = Pad(v, r) v2 = Reshape(v1, v0) v3 = Transpose <perm = [1, 0, 3, 2, 4]> (v2) "
        "g = Transpose <perm = [0, 1, 2, 4, 3]> (k3) "
        "s, l, o = Scan <num_scan_inputs = 2, body = chunk "
        "(float[?,?,?,?] state, float[?,?,?,?] rows, float[?,?,?,?] values) "
        "=> (float[?,?,?,?] next, float[?,?,?,?] before, float[?,?,?,?] changes) { "
        "before = Identity(state) changes = Identity(values) added = MatMul(rows, changes) "
        "next = Add(before, added) }> (p, g, v3) "
        "r1 = MatMul(q3, l) t = MatMul(q3, g) u = Trilu <upper = 0> (t) x1 = MatMul(u, o) "
        "a1 = Add(r1, x1) a2 = Transpose <perm = [1, 0, 3, 2, 4]> (a1) m0 = Mul(f, m) "
        "y0 = Add(m0, x) a3 = Reshape(a2, y0) "
        "y = Slice(a3, zero, c, one) }",
    )


class _Chunks:
    """Splits operands into chunks. Zeros, which do not change results, fill the last chunk.

    Args:
        g: the graph.
        like: an operand with the number of tokens.
    """

    def __init__(self, g: PatternRewriter, like: str) -> None:
        self._g = g
        self._count = g.op.Slice(g.op.Shape(like), [1], [2], [0])
        rounded_up = g.op.Div(g.op.Add(self._count, [_LENGTH - 1]), [_LENGTH])
        self._number = g.op.Max(rounded_up, [1])  # a Scan needs at least one step
        self._filled = g.op.Mul(self._number, [_LENGTH])
        missing = g.op.Sub(self._filled, self._count)
        self._pads = g.op.Concat([0, 0, 0, 0], missing, [0], axis=0)

    def of(self, x: str, heads: int) -> str:
        """The chunks of an operand (batch, tokens, heads · size)."""
        g = self._g
        width = g.get_shape(x)[2]
        assert isinstance(width, int)
        shape = self._shape(self._number, [_LENGTH, heads, width // heads])
        split = g.op.Reshape(g.op.Pad(x, self._pads), shape)
        return g.op.Transpose(split, perm=_BEFORE)

    def repeated(self, x: str, heads: int, count: int) -> str:
        """The heads of chunks, each repeated for every state that shares the head."""
        if heads == count:
            return x
        return self._g.op.Gather(x, np.repeat(np.arange(heads), count // heads), axis=2)

    def joined(self, x: str, width: int) -> str:
        """The tokens of all chunks, (batch, tokens, width)."""
        g = self._g
        shape = self._shape(self._filled, [width])
        rows = g.op.Reshape(g.op.Transpose(x, perm=_BEFORE), shape)
        return g.op.Slice(rows, [0], self._count, [1])

    def _shape(self, size: str, sizes: list[int]) -> str:
        """The shape (batch, size, *sizes), computed by Mul and Add.

        With a Concat, onnxruntime would write -1 for the computed size, which is an error for an
        empty batch.
        """
        place = [0, 1, *(0 for _ in sizes)]
        return self._g.op.Add(self._g.op.Mul(size, place), [0, 0, *sizes])


class _Decays:
    """The factors of the state within a chunk.

    Args:
        g: the graph.
        logarithms: logarithms of the factors, in chunks; empty if the state does not decay.
    """

    def __init__(self, g: PatternRewriter, logarithms: str) -> None:
        self._g = g
        self.whole = ""
        if logarithms:
            # In sums with lower numbers, the other terms would lose their digits.
            logarithms = g.op.Max(logarithms, _LEAST_LOGARITHM)
            self._sums = g.op.CumSum(logarithms, np.array(3, np.int64))
            self._last = g.op.Slice(self._sums, [-1], [_LENGTH], [3])
            self.whole = g.op.Exp(self._last)
            changes = g.op.Sub(self._sums, g.op.Transpose(self._sums, perm=_COLUMNS))
            least = np.array(np.finfo(np.float32).min)
            self._left = g.op.Exp(g.op.Where(_IS_VISIBLE, changes, least))

    def within_chunk(self, products: str) -> str:
        """Products of pairs of tokens, times the decay from the second to the first token.

        The products are 0 for pairs whose second token is later.
        """
        if self.whole:
            return self._g.op.Mul(products, self._left)
        return self._g.op.Trilu(products, upper=0)

    def since_start(self, x: str) -> str:
        """Rows, times the decay from the start of the chunk."""
        return self._g.op.Mul(x, self._g.op.Exp(self._sums)) if self.whole else x

    def until_end(self, x: str) -> str:
        """Rows, times the decay until the end of the chunk."""
        if not self.whole:
            return x
        return self._g.op.Mul(x, self._g.op.Exp(self._g.op.Sub(self._last, self._sums)))


def _inverse(g: PatternRewriter, products: str) -> str:
    """The inverse of I plus the part of ``products`` below the diagonal.

    The size of the inverted blocks is doubled in each step. X has the inverses of the blocks, and B
    the numbers that couple the two blocks of a pair. Then X - X · B · X has the inverses of the
    pairs. Unlike a product of matrix powers, this loses no digits by cancellation.
    """
    tokens = np.arange(_LENGTH)

    def coupling(size: int) -> str:
        blocks = tokens // size
        is_pair = (blocks[:, None] == blocks + 1) & (blocks % 2 == 0)
        return g.op.Where(is_pair, products, np.array(0, np.float32))

    inverse = g.op.Sub(np.eye(_LENGTH, dtype=np.float32), coupling(1))
    size = 2
    while size < _LENGTH:
        change = g.op.MatMul(g.op.MatMul(inverse, coupling(size)), inverse)
        inverse = g.op.Sub(inverse, change)
        size *= 2
    return inverse


def _scan(g: PatternRewriter, past: str, operands: Mapping[str, str]) -> Any:
    """The last state, and for each chunk the state before it and the changes that its keys add.

    Args:
        g: the graph.
        past: the state before the first chunk.
        operands: the operands of each chunk. ``rows`` · changes is added to the state. The changes
            are ``values``, minus ``keys`` · state for the delta rule. ``factor``, if any,
            multiplies the state.
    """
    matrix = "float[?,?,?,?]"
    kept = "Mul ({state}, {factor})" if "factor" in operands else "Identity ({state})"
    changes = "Sub ({values}, {recalled})" if "keys" in operands else "Identity ({values})"
    recalled = "{recalled} = MatMul ({keys}, {state})" if "keys" in operands else ""
    listed = ", ".join(f"{matrix} {{{name}}}" for name in ("state", *operands))
    text = f"""
        {{chunk}} ({listed}) => ({matrix} {{next}}, {matrix} {{before}}, {matrix} {{changes}})
        {{{{
            {{before}} = Identity ({{state}})
            {recalled}
            {{changes}} = {changes}
            {{kept}} = {kept}
            {{added}} = MatMul ({{rows}}, {{changes}})
            {{next}} = Add ({{kept}}, {{added}})
        }}}}
        """
    parts = ("chunk", "state", *operands, "before", "recalled", "changes", "kept", "added", "next")
    body = parser.parse_graph(text.format_map({name: g.unique_name(name) for name in parts}))
    count = len(operands)
    return g.op.Scan(past, *operands.values(), outputs=3, num_scan_inputs=count, body=body)
