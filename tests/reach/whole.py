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
    ),
)
