"""Rows times a matrix that is read by columns."""

import math
from typing import Final

from xoptim.match import GraphView, PatternRewriter, runs

LEAST: Final = 1 << 16
"""Constants of fewer elements are cheap to store twice, and to transpose when a session begins."""


def elements(g: GraphView, name: str) -> int:
    """Number of elements of a result, 0 where its shape is not static."""
    shape = g.static_shape(name)
    return 0 if shape is None else math.prod(shape)


def why_not(g: GraphView, x: str, w: str) -> str:
    """Why rows are not multiplied with a transposed matrix by Gemm, or ""."""
    if g.info(w).rank != 2 or not elements(g, w):
        return "the second operand is not a matrix of known size"
    return "" if runs(g, "Gemm", x) else "Gemm has no kernel for the type"


def times_transposed(g: PatternRewriter, x: str, w: str) -> str:
    """The product of the rows of x, which has three axes or more, with the transposed matrix w."""
    shape, (columns, width) = g.get_shape(x), g.static_shape(w) or (0, 0)
    product = g.op.Gemm(g.op.Reshape(x, [-1, width]), w, transB=1)
    sizes = [size if isinstance(size, int) else -1 for size in shape[:-1]]
    if sizes.count(-1) < 2 and 0 not in sizes:
        return str(g.op.Reshape(product, [*sizes, columns], allowzero=1))
    return str(g.op.Reshape(product, g.op.Concat(g.op.Shape(x, start=0, end=-1), [columns], axis=0), allowzero=1))
