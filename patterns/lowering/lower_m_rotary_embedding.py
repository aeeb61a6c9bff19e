from typing import Final

import numpy as np

from xoptim.match import Example, GraphView, Match, PatternBuilder, PatternRewriter, Symbol

from ._lowering import ATTENTION_FLOATS, _Lowering
from ._rotation import halves_rotated

_KNOWN: Final = {"mrope_section", "mrope_layout", "num_heads", "rotary_embedding_dim"}
_STREAMS: Final = 3
"""The number of positions of a token: in time, along the height, and along the width."""


class LowerMRotaryEmbeddingPattern(_Lowering):
    """com.microsoft.MRotaryEmbedding(x, position, cos, sin) → Concat(a · c - b · s, a · s + b · c)
    with a, b = Split(x)

    What: gathers rows of cos and sin for the three positions of each token: in time, along the
    height and along the width. Concat joins the sections of the columns. If the sections alternate,
    Where selects the columns instead.
    Why: only ONNX Runtime's own providers run the operator, which onnxruntime-genai writes for
    vision-language models such as Qwen2-VL.
    Refuses when:
    1. the types are not float32 or float16, or differ.
    2. the shapes of x, cos and sin are unknown or do not agree. Or the sections do not have as many
       columns as cos.
    3. ``interleaved`` or another unsupported attribute is set.
    """

    min_opset = 13
    operand_types = {"x": ATTENTION_FLOATS}  # (1)
    operand_ranks = {"position": 3, "cos": 2, "sin": 2}  # (2)
    derives = ("sections", "is_mixed", "sizes")

    def match_pattern(
        self, g: PatternBuilder, x: Symbol, position: Symbol, cos: Symbol, sin: Symbol
    ) -> Symbol:
        return g.op.MRotaryEmbedding(
            x, position, cos, sin, domain="com.microsoft", attributes=g.capture("written")
        )

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        node, written = m.nodes[0], m.written
        if len({g.try_infer_type(name) for name in (m.x, m.cos, m.sin)}) > 1:  # (1)
            return self.none(node, msg="the types differ")
        defaults = {"scale": 1.0}
        names = written.keys() - _KNOWN
        if any(written[name] != defaults.get(name, 0) for name in names):  # (3)
            return self.none(node, msg="an attribute has an unsupported value")
        shape, table = g.try_infer_shape(m.x) or (), g.try_infer_shape(m.cos) or ()
        sections = [int(size) for size in written.get("mrope_section", ())]
        half = sum(sections)
        if len(sections) != _STREAMS or table[1:] != (half,) or g.try_infer_shape(m.sin) != table:
            # (2)
            return self.none(node, msg="the sections do not fit cos and sin")
        heads = int(written.get("num_heads", 0))
        size = shape[3] if len(shape) == 4 else shape[2] // heads if shape[2:] and heads else 0
        if not isinstance(size, int) or not half or size < 2 * half:  # (2)
            return self.none(node, msg="the head size is unknown, or smaller than the rotation")
        if len(shape) == 3 and shape[2] != heads * size:  # (2)
            return self.none(node, msg="the features are not a multiple of the heads")
        if written.get("rotary_embedding_dim", 0) not in (2 * half, 0 if size == 2 * half else -1):
            return self.none(node, msg="the rotated part has another size than cos")  # (2)
        return m.derive(
            sections=sections,
            is_mixed=bool(written.get("mrope_layout", 0)),
            sizes=(heads, size, 2 * half),
        )

    def apply_pattern(
        self,
        g: PatternRewriter,
        x: str,
        position: str,
        cos: str,
        sin: str,
        sections: list[int],
        is_mixed: bool,
        sizes: tuple[int, int, int],
    ) -> str:
        heads, size, rotated = sizes
        is_flat = g.info(x).rank == 3
        streams = [g.op.Gather(position, np.array(n), axis=0) for n in range(_STREAMS)]
        axes = [2] if is_flat else [1]
        rows, columns = (
            g.op.Unsqueeze(_selected(g, table, streams, sections, is_mixed), axes=axes)
            for table in (cos, sin)
        )
        split = g.op.Reshape(x, np.array([0, 0, heads, size])) if is_flat else x
        result = halves_rotated(g, split, rows, columns, [rotated, size - rotated])
        return g.op.Reshape(result, np.array([0, 0, heads * size])) if is_flat else result

    _start = "agraph (float[b,h,s,6] x, int64[3,b,s] p, float[9,3] c, float[9,3] i) =>"
    _rotate = (
        "a, d = Split <axis = -1> (x, h3) e1 = Mul(a, cu) e2 = Mul(d, su) f = Sub(e1, e2) "
        "e3 = Mul(a, su) e4 = Mul(d, cu) k = Add(e3, e4) y = Concat <axis = -1> (f, k)"
    )
    _positions = (
        "p0 = Gather <axis = 0> (p, n0) p1 = Gather <axis = 0> (p, n1) "
        "p2 = Gather <axis = 0> (p, n2)"
    )
    _constants = "int64 n0 = {0}, int64 n1 = {1}, int64 n2 = {2}, int64[1] u = {1}"
    examples = Example.pairs(
        f"{_start} (float[b,h,s,6] y) {{ y = com.microsoft.MRotaryEmbedding <mrope_section = "
        "[1, 1, 1]> (x, p, c, i) }",
        f"<{_constants}, int64[3] t = {{1, 1, 1}}, int64[2] h3 = {{3, 3}}> {{ {_positions} "
        "c0, c1, c2 = Split <axis = -1> (c, t) g0 = Gather <axis = 0> (c0, p0) "
        "g1 = Gather <axis = 0> (c1, p1) g2 = Gather <axis = 0> (c2, p2) "
        "cc = Concat <axis = -1> (g0, g1, g2) cu = Unsqueeze(cc, u) "
        "s0, s1, s2 = Split <axis = -1> (i, t) j0 = Gather <axis = 0> (s0, p0) "
        "j1 = Gather <axis = 0> (s1, p1) j2 = Gather <axis = 0> (s2, p2) "
        f"ss = Concat <axis = -1> (j0, j1, j2) su = Unsqueeze(ss, u) {_rotate} }}",
        f"{_start} (float[b,h,s,6] y) {{ y = com.microsoft.MRotaryEmbedding <mrope_section = "
        "[1, 1, 1], mrope_layout = 1> (x, p, c, i) }",
        f"<{_constants}, bool[3] m1 = {{0, 1, 0}}, bool[3] m2 = {{0, 0, 1}}, int64[2] h3 = "
        f"{{3, 3}}> {{ {_positions} g0 = Gather <axis = 0> (c, p0) g1 = Gather <axis = 0> (c, p1) "
        "g2 = Gather <axis = 0> (c, p2) gw = Where(m2, g2, g0) cc = Where(m1, g1, gw) "
        "cu = Unsqueeze(cc, u) j0 = Gather <axis = 0> (i, p0) j1 = Gather <axis = 0> (i, p1) "
        "j2 = Gather <axis = 0> (i, p2) jw = Where(m2, j2, j0) ss = Where(m1, j1, jw) "
        f"su = Unsqueeze(ss, u) {_rotate} }}",
        ranges=(("p", 0, 8),),
    )


def _selected(
    g: PatternRewriter, table: str, streams: list[str], sections: list[int], is_mixed: bool
) -> str:
    """The cosines or sines of each token, of shape (batch, tokens, columns)."""
    if not is_mixed:
        parts = g.op.Split(table, split=sections, axis=-1, outputs=_STREAMS)
        rows = [
            g.op.Gather(part, stream, axis=0) for part, stream in zip(parts, streams, strict=True)
        ]
        return g.op.Concat(*rows, axis=-1)
    time, height, width = (g.op.Gather(table, stream, axis=0) for stream in streams)
    columns = np.arange(sum(sections))
    is_height, is_width = (
        (columns % _STREAMS == place) & (columns < sections[place] * _STREAMS) for place in (1, 2)
    )
    return g.op.Where(is_height, height, g.op.Where(is_width, width, time))
