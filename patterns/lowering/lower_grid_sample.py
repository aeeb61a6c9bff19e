from typing import Final, NamedTuple

import numpy as np
from onnx import TensorProto

from xoptim.match import Example, GraphView, Match, PatternBuilder, PatternRewriter, Symbol

from ._lowering import _Lowering

_LINEAR: Final = (None, "bilinear", "linear")
_PADDINGS: Final = ("zeros", "border", "reflection")
_SPATIAL: Final = 2


class _Form(NamedTuple):
    """How positions become pixels: the shape of the image, and the attributes of the operator."""

    shape: tuple[int, int, int, int]
    is_linear: bool
    padding: str
    is_aligned: bool


class LowerGridSamplePattern(_Lowering):
    """GridSample(x, grid) → Σ Gather(rows of x, pixel) · weight over the pixels next to a position

    What: computes the positions in pixels, and gathers the channels of the nearest pixel, or of
    four pixels, which are multiplied by their weights. Padding by zeros is a border of zeros around
    the image, to which positions outside are moved; other positions are clipped or reflected.
    Why: RT-DETR, D-FINE and other detectors use the operator, which WebGPU lacks from operator set
    20 on, and many compilers for NPUs lack.
    Refuses when:
    1. the type is not float (checked by the matcher).
    2. the image or the grid does not have rank 4 with known sizes, or the image is empty.
    3. the interpolation is cubic.
    4. positions are reflected at a line of pixels, of which there is only one.
    """

    exactness = "finite"  # positions that are not finite
    min_opset = 16
    operand_types = {
        "x": frozenset((TensorProto.FLOAT,)),
        "grid": frozenset((TensorProto.FLOAT,)),
    }  # (1)
    derives = ("form",)

    def match_pattern(self, g: PatternBuilder, x: Symbol, grid: Symbol) -> Symbol:
        names = ("mode", "padding_mode", "align_corners")
        captured = {name: g.capture(name, optional=True) for name in names}
        return g.op.GridSample(x, grid, **captured)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        node, shape, grid = m.nodes[0], g.static_shape(m.x), g.static_shape(m.grid)
        if shape is None or grid is None or len(shape) != 4 or len(grid) != 4:  # (2)
            return self.none(node, msg="the shapes are unknown, or do not have rank 4")
        if 0 in shape or grid[3] != _SPATIAL or grid[0] != shape[0]:  # (2)
            return self.none(node, msg="the image is empty, or the grid does not fit")
        padding = m.padding_mode or "zeros"
        if padding not in _PADDINGS or m.mode not in (*_LINEAR, "nearest"):  # (3)
            return self.none(node, msg="the interpolation is cubic")
        is_aligned = bool(m.align_corners)
        if padding == "reflection" and is_aligned and 1 in shape[2:]:  # (4)
            return self.none(node, msg="positions are reflected at a single line of pixels")
        n, c, h, w = shape
        return m.derive(form=_Form((n, c, h, w), m.mode in _LINEAR, padding, is_aligned))

    def apply_pattern(self, g: PatternRewriter, x: str, grid: str, form: _Form) -> str:
        n, c, h, w = form.shape
        image = g.op.Transpose(x, perm=[0, 2, 3, 1])
        if form.padding == "zeros":
            image = g.op.Pad(image, np.array([0, 1, 1, 0, 0, 1, 1, 0], np.int64))
            h, w = h + 2, w + 2
        rows = g.op.Reshape(image, np.array([n * h * w, c], np.int64))
        columns, lines = (
            _pixels(g, g.op.Gather(grid, np.array(axis), axis=3), size, form)
            for axis, size in ((0, form.shape[3]), (1, form.shape[2]))
        )
        first = np.arange(0, n * h * w, h * w, dtype=np.int32).reshape(n, 1, 1)
        result = None
        for line, height in lines:
            start = g.op.Mul(line, np.array(w, np.int32))
            start = g.op.Add(start, first) if n > 1 else start
            for column, width in columns:
                pixel = g.op.Gather(rows, g.op.Add(start, column), axis=0)
                if not form.is_linear:
                    return g.op.Transpose(pixel, perm=[0, 3, 1, 2])
                term = g.op.Mul(pixel, g.op.Unsqueeze(g.op.Mul(height, width), axes=[3]))
                result = term if result is None else g.op.Add(result, term)
        return g.op.Transpose(result, perm=[0, 3, 1, 2])

    examples = Example.pairs(
        "agraph (float[1,2,3,4] x, float[1,5,6,2] p) => (float[1,2,5,6] y) { y = GridSample(x, p) "
        "}",
        "<int64[8] a = {0, 1, 1, 0, 0, 1, 1, 0}, int64[2] b = {30, 2}, int64 c = {0}, float d = "
        "{1}, float e = {4}, float f = {2}, float g = {-1}, int64 h = {1}, float i = {3}, int32 j "
        "= {6}, int64[1] k = {3}> { l = Transpose <perm = [0, 2, 3, 1]> (x) m = Pad(l, a) n = "
        "Reshape(m, b) o = Gather <axis = 3> (p, c) q = Add(o, d) r = Mul(q, e) s = Sub(r, d) t = "
        "Div(s, f) u = Floor(t) v = Add(u, d) w = Clip(u, g, e) z = Add(w, d) a1 = Cast <to = 6> "
        "(z) b1 = Sub(v, t) c1 = Clip(v, g, e) d1 = Add(c1, d) e1 = Cast <to = 6> (d1) f1 = Sub(t, "
        "u) g1 = Gather <axis = 3> (p, h) h1 = Add(g1, d) i1 = Mul(h1, i) j1 = Sub(i1, d) k1 = "
        "Div(j1, f) l1 = Floor(k1) m1 = Add(l1, d) n1 = Clip(l1, g, i) o1 = Add(n1, d) p1 = Cast "
        "<to = 6> (o1) q1 = Sub(m1, k1) r1 = Clip(m1, g, i) s1 = Add(r1, d) t1 = Cast <to = 6> "
        "(s1) u1 = Sub(k1, l1) v1 = Mul(p1, j) w1 = Add(v1, a1) x1 = Gather <axis = 0> (n, w1) y1 "
        "= Mul(q1, b1) z1 = Unsqueeze(y1, k) a2 = Mul(x1, z1) b2 = Add(v1, e1) c2 = Gather <axis = "
        "0> (n, b2) d2 = Mul(q1, f1) e2 = Unsqueeze(d2, k) f2 = Mul(c2, e2) g2 = Add(a2, f2) h2 = "
        "Mul(t1, j) i2 = Add(h2, a1) j2 = Gather <axis = 0> (n, i2) k2 = Mul(u1, b1) l2 = "
        "Unsqueeze(k2, k) m2 = Mul(j2, l2) n2 = Add(g2, m2) o2 = Add(h2, e1) p2 = Gather <axis = "
        "0> (n, o2) q2 = Mul(u1, f1) r2 = Unsqueeze(q2, k) s2 = Mul(p2, r2) t2 = Add(n2, s2) y = "
        "Transpose <perm = [0, 3, 1, 2]> (t2) }",
        "agraph (float[2,2,3,4] x, float[2,5,6,2] p) => (float[2,2,5,6] y) { y = GridSample <mode "
        '= "nearest", padding_mode = "reflection", align_corners = 1> (x, p) }',
        "<int64[2] a = {24, 2}, int64 b = {0}, float c = {1}, float d = {2}, float e = {3}, float "
        "f = {0}, float g = {6}, int64 h = {1}, float i = {4}, int32 j = {4}, int32[2,1,1] k = {0, "
        "12}> { l = Transpose <perm = [0, 2, 3, 1]> (x) m = Reshape(l, a) n = Gather <axis = 3> "
        "(p, b) o = Add(n, c) q = Div(o, d) r = Mul(q, e) s = Round(r) t = Sub(s, f) u = Abs(t) v "
        "= Div(u, g) w = Floor(v) z = Mul(w, g) a1 = Sub(u, z) b1 = Sub(g, a1) c1 = Min(a1, b1) d1 "
        "= Add(c1, f) e1 = Clip(d1, f, e) f1 = Cast <to = 6> (e1) g1 = Gather <axis = 3> (p, h) h1 "
        "= Add(g1, c) i1 = Div(h1, d) j1 = Mul(i1, d) k1 = Round(j1) l1 = Sub(k1, f) m1 = Abs(l1) "
        "n1 = Div(m1, i) o1 = Floor(n1) p1 = Mul(o1, i) q1 = Sub(m1, p1) r1 = Sub(i, q1) s1 = "
        "Min(q1, r1) t1 = Add(s1, f) u1 = Clip(t1, f, d) v1 = Cast <to = 6> (u1) w1 = Mul(v1, j) "
        "x1 = Add(w1, k) y1 = Add(x1, f1) z1 = Gather <axis = 0> (m, y1) y = Transpose <perm = [0, "
        "3, 1, 2]> (z1) }",
    )


def _pixels(g: PatternRewriter, x: str, size: int, form: _Form) -> list[tuple[str, str]]:
    """The indices of the pixels along one axis, and their weights, for positions from -1 to 1."""
    if form.is_aligned:
        place = g.op.Mul(g.op.Div(g.op.Add(x, 1.0), 2.0), float(size - 1))
    else:
        scaled = g.op.Mul(g.op.Add(x, 1.0), float(size))
        place = g.op.Div(g.op.Sub(scaled, 1.0), 2.0)
    if not form.is_linear:
        rounded = _inside(g, g.op.Round(place), size, form)
        return [(_index(g, rounded, size, form), "")]
    place = _inside(g, place, size, form)
    low = g.op.Floor(place)
    high = g.op.Add(low, 1.0)
    return [
        (_index(g, low, size, form), g.op.Sub(high, place)),
        (_index(g, high, size, form), g.op.Sub(place, low)),
    ]


def _inside(g: PatternRewriter, place: str, size: int, form: _Form) -> str:
    """Positions in pixels, clipped to the image or reflected at its edges."""
    if form.padding == "border":
        return g.op.Clip(place, min=0.0, max=float(size - 1))
    if form.padding == "zeros":
        return place
    # The edges of the image are the centers of pixels, or lie half a pixel outside of them.
    low = 0.0 if form.is_aligned else -0.5
    length = size - 1 - 2 * low
    distance = g.op.Abs(g.op.Sub(place, low))
    turns = g.op.Floor(g.op.Div(distance, 2 * length))
    rest = g.op.Sub(distance, g.op.Mul(turns, 2 * length))
    return g.op.Add(g.op.Min(rest, g.op.Sub(2 * length, rest)), low)


def _index(g: PatternRewriter, place: str, size: int, form: _Form) -> str:
    """A whole number as an index, of the image with its border if that is padded."""
    if form.padding == "zeros":
        clipped = g.op.Add(g.op.Clip(place, min=-1.0, max=float(size)), 1.0)
    else:
        clipped = g.op.Clip(place, min=0.0, max=float(size - 1))
    return g.op.Cast(clipped, to=TensorProto.INT32)
