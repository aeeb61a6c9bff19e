"""Reshape after Reshape, Flatten, Squeeze or Unsqueeze, which keep the order of the elements."""

from typing import Any, ClassVar

import numpy as np

from xoptim.match import (
    ANY,
    EasyPatternOptimization,
    Example,
    GraphView,
    Match,
    PatternBuilder,
    PatternRewriter,
    Symbol,
)

from .._deductions import keeps_shape, known_values, merged_target, survives_zeros


class ReshapeReshapePattern(EasyPatternOptimization):
    """Reshape(Reshape(x, ...), shape) → Reshape(x, shape), or x if it gets its shape back

    What: skips the shape in between.
    Why: one node fewer, and often the nodes that compute the first target.
    Refuses when:
    1. the second target is unknown, or has a 0 or a symbol that may be 0, which would copy another
       size of x than of the shape in between. (A static size replaces the 0.)
    2. the result would be x, but several sizes may be 0: a 0 in the target then copies a size of
       the shape in between. (Only the first node is dropped, unless 1 applies.)
    """

    interior = "keep"
    min_opset = 5

    first: ClassVar[tuple[str, ...]] = ("Reshape",)
    derives = ("target",)

    def match_pattern(self, g: PatternBuilder, x: Symbol, shape: Symbol) -> Symbol:
        middle = getattr(g.op, g.choice("first", *self.first))(x, attributes=ANY)
        return g.op.Reshape(middle, shape, allowzero=g.capture("allowzero", optional=True))

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        last, target = m.nodes[1], known_values(g, m.shape)
        source, middle = g.try_infer_shape(m.x), g.try_infer_shape(last.input[0])
        # (2)
        if keeps_shape(g, last, m.x) and (m.allowzero == 1 or survives_zeros(middle, target)):
            return m.derive(target=None)
        if m.allowzero == 1:
            return m.derive(target=m.shape)
        merged = merged_target(source, middle, target or ())
        if target is None or merged is None:  # (1)
            return self.none(last, msg="a 0 in the target shape may copy another dimension")
        if merged == list(target):
            return m.derive(target=m.shape)
        # A constant target cannot hold symbols.
        if any(not isinstance(size, int) for size in merged):
            return self.none(last, msg="the target shape would have to be computed at run time")
        return m.derive(target=np.array(merged, dtype=np.int64))

    def apply_pattern(self, g: PatternRewriter, x: str, target: Any, allowzero: int | None) -> str:
        return x if target is None else g.op.Reshape(x, target, allowzero=allowzero)

    examples = Example.pairs(
        "agraph (float[a,4,6] x) => (float[b,12] y) <int64[2] s = {-1, 6}, int64[2] u = {-1, 12}> "
        "{ t = Reshape(x, s) y = Reshape(t, u) }",
        "<int64[2] u = {-1, 12}> { y = Reshape(x, u) }",
        "agraph (float[a,4,6] x) => (float[24,b] y) <int64[2] s = {24, -1}, int64[2] u = {0, -1}> "
        "{ t = Reshape(x, s) y = Reshape(t, u) }",
        "<int64[2] u = {24, -1}> { y = Reshape(x, u) }",
        "agraph (float[2,a,6] x) => (float[2,a,6] y) <int64[2] s = {-1, 6}> "
        "{ t = Reshape(x, s) u = Shape(x) v = Reshape(t, u) y = Relu(v) }",
        "{ y = Relu(x) }",
    )


class FlattenReshapePattern(ReshapeReshapePattern):
    """Reshape(Flatten(x), shape) → Reshape(x, shape), or x if it gets its shape back

    What: skips the matrix in between.
    """

    first = ("Flatten",)

    examples = Example.only(
        "agraph (float[a,4,6] x) => (float[b,2,3] y) <int64[3] s = {-1, 2, 3}> { t = Flatten(x) "
        "y = Reshape(t, s) }",
        "<int64[3] s = {-1, 2, 3}> { y = Reshape(x, s) }",
    )


class UnsqueezeOrSqueezeReshapePattern(ReshapeReshapePattern):
    """Reshape(Squeeze(x), shape) or Reshape(Unsqueeze(x), shape) → Reshape(x, shape), or x if it
    gets its shape back

    What: skips the axes of size 1 in between.
    """

    first = ("Squeeze", "Unsqueeze")

    examples = Example.pairs(
        "agraph (float[a,6] x) => (float[a,2,3] y) <int64[1] axes = {2}, int64[3] s = {0, 2, 3}> "
        "{ t = Unsqueeze(x, axes) y = Reshape(t, s) }",
        "<int64[3] s = {0, 2, 3}> { y = Reshape(x, s) }",
        "agraph (float[1,6,a] x) => (float[6,b] y) <int64[1] axes = {0}, int64[2] s = {0, -1}> "
        "{ t = Squeeze(x, axes) y = Reshape(t, s) }",
        "<int64[2] s = {6, -1}> { y = Reshape(x, s) }",
    )
