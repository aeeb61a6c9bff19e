from typing import Any, Final, NamedTuple

import numpy as np
from onnx import TensorProto

from xoptim.facts.shapes import Shape
from xoptim.match import Example, GraphView, Match, PatternBuilder, PatternRewriter, Symbol

from .._shapes import may_be_empty
from ._lowering import _Lowering

_LINEAR: Final = (None, "bilinear", "linear")
_PADDINGS: Final = ("zeros", "border", "reflection")
_SPATIAL: Final = 2


class _Form(NamedTuple):
    """The shape of the image, and the attributes that say how positions become pixels."""

    shape: Shape
    is_linear: bool
    padding: str
    is_aligned: bool


class _Side(NamedTuple):
    """The length of one side of the image, and the position of its last pixel.

    Both are numbers, or names of results if the length is dynamic.
    """

    length: float | str
    last: float | str


class LowerGridSamplePattern(_Lowering):
    """GridSample(x, grid) → Σ Gather(rows of x, pixel) · weight over the pixels next to a position

    What: computes the positions in pixels, and gathers the channels of the nearest pixel, or of
    four pixels, which are multiplied by their weights. Padding by zeros adds a border of zeros
    around the image, to which positions outside are moved. Other paddings clip or reflect such
    positions. If the image has a dynamic size, the positions are computed from its Shape.
    Why: RT-DETR, D-FINE and other detectors use the operator. WebGPU has no kernel from operator
    set 20 on, and many compilers for NPUs have no kernel at all.
    Refuses when:
    1. the type is not float32 (checked by the matcher).
    2. the image or the grid does not have rank 4, or the number of channels is unknown. Or the
       image may be empty, and is not padded by zeros.
    3. the interpolation is cubic.
    4. positions are reflected at the centers of the outer pixels, and a side may have one pixel.
    """

    exactness = "finite"  # results differ for positions that are not finite
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
        node, shape, grid = m.nodes[0], g.try_infer_shape(m.x), g.try_infer_shape(m.grid)
        if shape is None or grid is None or len(shape) != 4 or len(grid) != 4:  # (2)
            return self.none(node, msg="the shapes do not have rank 4")
        if not isinstance(shape[1], int) or grid[3] != _SPATIAL or grid[0] != shape[0]:  # (2)
            return self.none(node, msg="the channels are unknown, or the grid does not fit")
        padding = m.padding_mode or "zeros"
        if padding not in _PADDINGS or m.mode not in (*_LINEAR, "nearest"):  # (3)
            return self.none(node, msg="the interpolation is cubic")
        if 0 in shape:  # (2)
            return self.none(node, msg="the image is empty")
        if padding != "zeros" and (reason := may_be_empty(g, shape[2:])):  # (2)
            return self.none(node, msg=reason)
        is_aligned = bool(m.align_corners)
        lines = [size for size in shape[2:] if isinstance(size, int) and size > 1]
        if padding == "reflection" and is_aligned and len(lines) < _SPATIAL:  # (4)
            return self.none(node, msg="positions may be reflected at a single line of pixels")
        return m.derive(form=_Form(shape, m.mode in _LINEAR, padding, is_aligned))

    def apply_pattern(self, g: PatternRewriter, x: str, grid: str, form: _Form) -> str:
        image = g.op.Transpose(x, perm=[0, 2, 3, 1])
        if form.padding == "zeros":
            image = g.op.Pad(image, np.array([0, 1, 1, 0, 0, 1, 1, 0], np.int64))
        rows = g.op.Reshape(image, _rows_shape(form))
        columns, lines = (
            _pixels(g, g.op.Gather(grid, np.array(place), axis=3), _side(g, x, axis, form), form)
            for place, axis in ((0, 3), (1, 2))
        )
        width, first = _steps(g, x, form)
        result = None
        for line, height in lines:
            start = g.op.Mul(line, width)
            start = start if first is None else g.op.Add(start, first)
            for column, breadth in columns:
                pixel = g.op.Gather(rows, g.op.Add(start, column), axis=0)
                if not form.is_linear:
                    return g.op.Transpose(pixel, perm=[0, 3, 1, 2])
                term = g.op.Mul(pixel, g.op.Unsqueeze(g.op.Mul(height, breadth), axes=[3]))
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


def _padded(form: _Form) -> int:
    """The number of lines of zeros that padding adds along each axis of the image."""
    return 2 if form.padding == "zeros" else 0


def _rows_shape(form: _Form) -> np.ndarray:
    """The shape of all pixels of all images, one per row."""
    n, c, h, w = form.shape
    border = _padded(form)
    if isinstance(n, int) and isinstance(h, int) and isinstance(w, int):
        return np.array([n * (h + border) * (w + border), c], np.int64)
    return np.array([-1, c], np.int64)


def _side(g: PatternRewriter, x: str, axis: int, form: _Form) -> _Side:
    """The length of the image along an axis."""
    size = form.shape[axis]
    if isinstance(size, int):
        return _Side(float(size), float(size - 1))
    length = g.op.Cast(_length(g, x, axis), to=TensorProto.FLOAT)
    return _Side(length, g.op.Sub(length, 1.0))


def _length(g: PatternRewriter, x: str, axis: int) -> str:
    """The length of an axis as a scalar of 64 bits."""
    return g.op.Squeeze(g.op.Shape(x, start=axis, end=axis + 1), axes=[0])


def _steps(g: PatternRewriter, x: str, form: _Form) -> tuple[Any, Any]:
    """The number of rows from one line of pixels to the next, and the first row of each image.

    The first rows have the shape (batch, 1, 1). They are ``None`` for one image.
    """
    n, _, h, w = form.shape
    border = _padded(form)
    if isinstance(n, int) and isinstance(h, int) and isinstance(w, int):
        size = (h + border) * (w + border)
        first = np.arange(0, n * size, size, dtype=np.int32).reshape(n, 1, 1) if n > 1 else None
        return np.array(w + border, np.int32), first
    height, width = (_length(g, x, axis) for axis in (2, 3))
    if border:
        height, width = (g.op.Add(length, border) for length in (height, width))
    step = g.op.Cast(width, to=TensorProto.INT32)
    if n == 1:
        return step, None
    images = g.op.Range(np.array(0), _length(g, x, 0), np.array(1))
    firsts = g.op.Mul(images, g.op.Mul(height, width))
    column = g.op.Reshape(g.op.Cast(firsts, to=TensorProto.INT32), np.array([-1, 1, 1], np.int64))
    return step, column


def _pixels(g: PatternRewriter, x: str, side: _Side, form: _Form) -> list[tuple[str, str]]:
    """The indices of the pixels along one axis, and their weights, for positions from -1 to 1."""
    if form.is_aligned:
        place = g.op.Mul(g.op.Div(g.op.Add(x, 1.0), 2.0), side.last)
    else:
        scaled = g.op.Mul(g.op.Add(x, 1.0), side.length)
        place = g.op.Div(g.op.Sub(scaled, 1.0), 2.0)
    if not form.is_linear:
        rounded = _inside(g, g.op.Round(place), side, form)
        return [(_index(g, rounded, side, form), "")]
    place = _inside(g, place, side, form)
    low = g.op.Floor(place)
    high = g.op.Add(low, 1.0)
    return [
        (_index(g, low, side, form), g.op.Sub(high, place)),
        (_index(g, high, side, form), g.op.Sub(place, low)),
    ]


def _inside(g: PatternRewriter, place: str, side: _Side, form: _Form) -> str:
    """Positions in pixels, clipped to the image or reflected at its edges."""
    if form.padding == "border":
        return _clipped(g, place, 0.0, side.last)
    if form.padding == "zeros":
        return place
    # The edges of the image are the centers of pixels, or lie half a pixel outside of them.
    low = 0.0 if form.is_aligned else -0.5
    length = side.last if form.is_aligned else side.length
    turn = g.op.Mul(length, 2.0) if isinstance(length, str) else 2 * length
    distance = g.op.Abs(g.op.Sub(place, low))
    turns = g.op.Floor(g.op.Div(distance, turn))
    remainder = g.op.Sub(distance, g.op.Mul(turns, turn))
    return g.op.Add(g.op.Min(remainder, g.op.Sub(turn, remainder)), low)


def _index(g: PatternRewriter, place: str, side: _Side, form: _Form) -> str:
    """A rounded position as an index into the image, or into the image with its border of zeros."""
    if form.padding == "zeros":
        clipped = g.op.Add(_clipped(g, place, -1.0, side.length), 1.0)
    else:
        clipped = _clipped(g, place, 0.0, side.last)
    return g.op.Cast(clipped, to=TensorProto.INT32)


def _clipped(g: PatternRewriter, place: str, low: float, high: float | str) -> str:
    """Positions clipped to the range from ``low`` to ``high``, which may be a result."""
    if isinstance(high, str):
        return g.op.Min(g.op.Max(place, low), high)
    return g.op.Clip(place, min=low, max=high)
