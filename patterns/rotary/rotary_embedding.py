from typing import Any, NamedTuple

import numpy as np

from xoptim.facts.info import Shape
from xoptim.match import EasyPatternOptimization, Example, GraphView, Match, PatternBuilder, PatternRewriter, Symbol, runs

from .._parts import part_of
from ._halves import Half, Heads, half_of, heads_of


class _Cache(NamedTuple):
    """Cosines or sines.

    Attributes:
        half: the numbers of half a head.
        heads: the axis for the heads, ``None`` when there is none.
        has_batch: whether there is an axis for the batch.
        is_shared: whether all sequences of a batch share them.
    """

    half: Half
    heads: int | None
    has_batch: bool
    is_shared: bool


class RotaryEmbeddingPattern(EasyPatternOptimization):
    """x · cos + (-x₂ ++ x₁) · sin, x₁ and x₂ the halves of x → RotaryEmbedding(x, half of cos, half of sin)

    What: turns each pair of elements that are half a head apart by an angle of its position; also written as
    (x₁ · cos - x₂ · sin) ++ (x₂ · cos + x₁ · sin).
    Why: one pass over the heads instead of six. With one thread, 64 tokens and operator set 23, a Llama of four layers
    takes 0.92 of the time of the original instead of 0.95, Phi 0.92 instead of 0.97, Mistral 0.83 instead of 0.87.
    Refuses when:
    1. x does not have the axes batch, heads, positions (or the other way round) and elements, or x₁ and x₂ are not its halves.
    2. the cosines or sines differ between heads, or have other positions than x.
    3. the two halves of the cosines or sines may differ.
    4. the provider has no kernel of the operator.
    """

    phase = "specialize"
    priority = 1
    exactness = "rounding"
    min_opset = 23

    def match_pattern(self, g: PatternBuilder, x: Symbol, first: Symbol, second: Symbol, cos: Symbol, sin: Symbol) -> Symbol:
        # Whole heads times cosines, or halves; the halves one after the other, or interleaved, also as columns of pairs.

        def joined(left: Symbol, right: Symbol) -> Symbol:
            if form == "halves":
                return g.op.Concat(left, right, axis=g.any_of(-1, 3))
            axis, axes = g.any_of(-1, 4), g.any_of([-1], [4])
            if form == "interleaved":
                left, right = g.op.Unsqueeze(left, axes=axes), g.op.Unsqueeze(right, axes=axes)
            return g.op.Reshape(g.op.Concat(left, right, axis=axis), g.symbol("shape"))

        form = g.choice("form", "halves", "interleaved", "columns")
        if form == "columns" or g.option("whole"):
            return g.op.Add(g.op.Mul(x, cos), g.op.Mul(joined(g.op.Neg(second), first), sin))
        left = g.op.Sub(g.op.Mul(first, cos), g.op.Mul(second, sin))
        return joined(left, g.op.Add(g.op.Mul(second, cos), g.op.Mul(first, sin)))

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        whole, interleaved = m.form == "columns" or m.whole, m.form != "halves"
        shape = g.try_infer_shape(m.first)
        if m.form == "columns" and shape is not None and shape[4:] == (1,):
            shape = shape[:4]
        if shape is None or len(shape) != 4 or not isinstance(shape[3], int) or not shape[3]:  # (1)
            return self.none(m.nodes[0], msg="not four axes, or the size of a head is unknown")
        heads = heads_of(g, m.first, m.second, interleaved)
        if heads is None or g.try_infer_shape(m.outputs[0]) != (*shape[:3], 2 * shape[3]):  # (1)
            return self.none(m.nodes[0], msg="not the halves of one tensor")
        if whole and (g.try_infer_shape(m.x) != (*shape[:3], 2 * shape[3]) or part_of(g, m.x, 3) != heads):  # (1)
            return self.none(m.nodes[0], msg="the halves belong to another tensor")
        if not runs(g, "RotaryEmbedding", m.first):  # (4)
            return self.none(m.nodes[0], msg="the provider has no kernel")
        for axis in (1, 2):
            caches = [self._cache(g, name, shape, axis, (whole, interleaved)) for name in (m.cos, m.sin)]
            if None not in caches and (axis == 1 or isinstance(shape[axis], int)):
                part = None if whole else heads
                return m.derive(
                    caches=caches, part=part, interleaved=interleaved, count=shape[2] if axis == 2 else None, size=2 * shape[3]
                )
        return self.none(m.nodes[0], msg="cosines and sines differ between heads or halves, or their positions")  # (2) (3)

    @staticmethod
    def _cache(g: GraphView, name: str, half: Shape, heads: int, form: tuple[bool, bool]) -> _Cache | None:
        """The cosines or sines for heads whose halves have this shape, with the heads along this axis.

        The form says whether they belong to whole heads, and whether the halves are interleaved.
        """
        whole, interleaved = form
        dims = g.try_infer_shape(name)
        if dims is None or not 2 <= len(dims) <= 4:
            return None
        absent = 4 - len(dims)
        full: Shape = (*[1] * absent, *dims)
        if full[heads] != 1 or full[3 - heads] != half[3 - heads] or full[3] != half[3] * (1 + whole):
            return None
        found = half_of(g, name, interleaved) if whole else Half(name)
        if found is None or full[0] not in (1, half[0]):
            return None
        place = None if heads < absent else heads - absent
        last = found.steps[0][0] if found.steps else None
        if last is not None and last.op_type == "Unsqueeze" and g.get_argument(last, "axes") in ([place], [heads - 4]):
            del found.steps[0]  # the operator does not need the axis
            place = None
        elif not found.steps and found.inserted == [place]:
            found.inserted, place = [], None
        return _Cache(found, place, absent == 0, full[0] != half[0])

    def apply_pattern(self, g: PatternRewriter, x: str, caches: list[_Cache], part: Heads | None, **m: Any) -> str:
        # The operator requires cosines and sines of shape (batch, positions, half of the elements).
        if part is not None:
            shape = g.try_infer_shape(part.name)
            is_all = shape is not None and (part.start, part.end) == (0, shape[3])
            ends = np.array([part.start]), np.array([part.end])
            x = part.name if is_all else g.op.Slice(part.name, *ends, np.array([3]))
        angles = [self._written(g, cache, x) for cache in caches]
        count, size, interleaved = m["count"], m["size"], int(m["interleaved"])
        if count is None:
            return g.op.RotaryEmbedding(x, *angles, interleaved=interleaved)
        x = g.op.Reshape(x, np.array([0, 0, count * size]))
        turned = g.op.RotaryEmbedding(x, *angles, num_heads=count, interleaved=interleaved)
        return g.op.Reshape(turned, np.array([0, 0, count, size]))

    @staticmethod
    def _written(g: PatternRewriter, cache: _Cache, like: str) -> str:
        name = cache.half.write(g)
        if cache.heads is not None:
            name = g.op.Squeeze(name, axes=[cache.heads])
        if not cache.has_batch:
            name = g.op.Unsqueeze(name, axes=[0])
        if cache.is_shared:
            name = g.op.Expand(name, g.op.Concat(g.op.Shape(like, start=0, end=1), np.array([1, 1]), axis=0))
        return name

    _cut = "int64[1] o = {0}, int64[1] h = {2}, int64[1] e = {4}, int64[1] k = {3}"
    examples = Example.pairs(
        "agraph (float[b,3,s,4] x, float[1,s,2] f) => (float[b,3,s,4] y) <int64[1] one = {1}, " + _cut + "> "
        "{ d = Concat <axis = -1> (f, f) c0 = Cos(d) s0 = Sin(d) c = Unsqueeze(c0, one) i = Unsqueeze(s0, one) "
        "a = Slice(x, o, h, k) r = Slice(x, h, e, k) n = Neg(r) t = Concat <axis = -1> (n, a) "
        "p = Mul(x, c) q = Mul(t, i) y = Add(p, q) }",
        "agraph (float[b,3,s,4] x, float[1,s,2] f) => (float[b,3,s,4] y) <int64[2] ones = {1, 1}> "
        "{ c = Cos(f) b = Shape <start = 0, end = 1> (x) t = Concat <axis = 0> (b, ones) p = Expand(c, t) "
        "i = Sin(f) q = Expand(i, t) y = RotaryEmbedding <interleaved = 0> (x, p, q) }",
        "agraph (float[b,3,s,4] x, float[b,1,s,2] c, float[b,1,s,2] i) => (float[b,3,s,4] y) "
        "<int64[2] sizes = {2, 2}> { l, r = Split <axis = 3> (x, sizes) lc = Mul(l, c) ri = Mul(r, i) p = Sub(lc, ri) "
        "rc = Mul(r, c) li = Mul(l, i) q = Add(rc, li) y = Concat <axis = 3> (p, q) }",
        "<int64[1] one = {1}> { p = Squeeze(c, one) q = Squeeze(i, one) y = RotaryEmbedding <interleaved = 0> (x, p, q) }",
        "agraph (float[b,3,s,4] x, float[b,s,2] f, float[b,s,2] g) => (float[b,3,s,4] y) <int64[2] k = {1, 4}, "
        "int64[5] r = {1, 1, 1, 1, 2}, int64[4] h = {0, 1, -1, 4}, int64[5] d = {0, 3, -1, 2, 2}, "
        "int64[4] e = {0, 3, -1, 4}, int64[2] q = {1, 1}> { u = Unsqueeze(f, k) v = Tile(u, r) c = Reshape(v, h) "
        "w = Unsqueeze(g, k) z = Tile(w, r) i = Reshape(z, h) p = Reshape(x, d) a, b = Split <axis = 4> (p, q) "
        "n = Neg(b) t = Concat <axis = 4> (n, a) o = Reshape(t, e) l = Mul(x, c) m = Mul(o, i) y = Add(l, m) }",
        "{ y = RotaryEmbedding <interleaved = 1> (x, f, g) }",
        opset=23,
    )
