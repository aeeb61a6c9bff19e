"""Rotations of features: of the halves of a head, and of neighbouring pairs."""

from xoptim.match import PatternRewriter


def halves_rotated(g: PatternRewriter, x: str, cos: str, sin: str, sizes: list[int]) -> str:
    """The tensor with the two halves of the first features rotated.

    ``sizes`` are the number of features that are rotated, and of the features after them.
    """
    rotated, unchanged = sizes
    parts = [rotated // 2, rotated // 2, *([unchanged] if unchanged else [])]
    a, b, *tail = g.op.Split(x, split=parts, axis=-1, outputs=len(parts))
    return g.op.Concat(*_rotated(g, a, b, cos, sin), *tail, axis=-1)


def pairs_rotated(g: PatternRewriter, pairs: str, cos: str, sin: str) -> str:
    """The pairs along the last axis, rotated."""
    a, b = g.op.Split(pairs, split=[1, 1], axis=-1, outputs=2)
    return g.op.Concat(*_rotated(g, a, b, cos, sin), axis=-1)


def _rotated(g: PatternRewriter, a: str, b: str, cos: str, sin: str) -> tuple[str, str]:
    """The points (a, b), rotated."""
    first = g.op.Sub(g.op.Mul(a, cos), g.op.Mul(b, sin))
    return first, g.op.Add(g.op.Mul(a, sin), g.op.Mul(b, cos))
