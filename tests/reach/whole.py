"""Rewrites by which constants, equal nodes and dead parts go."""

from __future__ import annotations

from tests.reach.rows import Row, Theme

THEME = Theme(
    "Constants, equal nodes and dead parts",
    rows=(
        Row(
            "an output that depends on constants only → Constant",
            "agraph (float[2] x) => (float[2] y, float[2] z) <float[2] w = {1, 2}> { a = Neg(w) b = Exp(a) z = Sqrt(b) y = "
            "Relu(x) }",
            "Constant Relu",
            (),
        ),
        Row(
            "equal nodes that give an output each → one, and a copy",
            "agraph (float[a,2] x) => (float[a,2] y, float[a,2] z) <float[2,2] w = {1, 2, 3, 4}> { m = MatMul(x, w) y = Exp(m) "
            "n = MatMul(x, w) z = Exp(n) }",
            "Exp Identity MatMul",
            (),
        ),
        Row(
            "a node of a branch that is equal to a node before the If → its result",
            "agraph (float[a,2] x, float[2,2] z, bool c) => (float[a,2] y, float[a,2] w) { m = MatMul(x, z) w = Sin(m) y = "
            "If(c) < then_branch = yes () => (float[a,2] p) { n = MatMul(x, z) k = Sin(n) p = Neg(k) }, "
            "else_branch = no () => (float[a,2] q) { q = Exp(m) }> }",
            "If MatMul Sin",
            (),
        ),
    ),
)
