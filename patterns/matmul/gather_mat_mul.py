from collections.abc import Iterator
from functools import partial
from typing import Final

import numpy as np

from xoptim.match import Example, GraphView, MatchResult, Node, PatternOptimization, PatternRewriter

from .._nodes import axis_of, is_op
from ._matmul import MIN_ELEMENTS, elements, times_transposed, why_not

_SAMPLES: Final = 61
"""Approximate number of rows, and of columns, of the sample that is compared first."""
_TILE: Final = 1 << 10
"""Number of rows that are compared at a time."""


class GatherMatMulPattern(PatternOptimization):
    """Gather(w, i), MatMul(x, v) for constants v = wᵀ → Gather(w, i), Reshape(Gemm(Reshape(x), w,
    transB=1))

    What: the MatMul of tied weights reads the embedding transposed, instead of a second constant.
    Why: exporters that fold constants store both: a GPT-2 of six layers takes 328 MB instead of 482
    MB. For one token, the time is the same. For logits of many tokens that are a graph output, the
    MatMul takes 1.04 of the time, since the last Reshape copies them.
    Refuses when:
    1. the Gather does not take rows of a constant matrix of at least 2¹⁶ elements.
    2. no later MatMul multiplies by a second constant that equals the transposed matrix. Or another
       node reads this constant.
    3. the provider has no kernel of Gemm for the type, or the rank of x is unknown or 1.
    """

    anchors = ("Gather",)
    phase = "target"  # after GatherSliceRegion, which moves a Gather of rows before the MatMul
    priority = 9
    exactness = "rounding"
    min_opset = 15

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        embedding = node.input[0]
        # (1)
        if (
            not g.is_constant(embedding)
            or g.info(embedding).rank != 2
            or axis_of(g, node) != 0
            or elements(g, embedding) < MIN_ELEMENTS
        ):
            return self.none(node, msg="the Gather does not take rows of a large constant matrix")
        matmul = next(
            (user for user in _matmuls(g, node) if _is_transpose(g, user.input[1], embedding)),
            None,
        )
        if matmul is None:  # (2)
            return self.none(node, msg="no MatMul multiplies by the transpose of the embedding")
        x = matmul.input[0]
        reason = (
            why_not(g, x, embedding)
            if (g.info(x).rank or 0) > 1
            else "the rows of the MatMul are unknown"
        )
        if reason:  # (3)
            return self.none(matmul, msg=reason)
        return MatchResult(self, [matmul], partial(_write, embedding))

    _start = (
        "agraph (int64[b,s] i, float[b,s,256] x) "
        "=> (float[b,s,256] e, float[b,s,256] y) <float o = {0}, float u = {1}, float n = {256}, "
        "int64[2] c = {-1, 1}, int64[1] m = {256}, int64[2] f = {-1, 256}> { r = Range(o, n, u) "
        "a = Mul(r, r) k = Reshape(r, c) d = Mul(k, a) w = Sin(d) e = Gather <axis = 0> (w, i) "
    )
    examples = Example.only(
        f"{_start} j = Reshape(a, c) l = Mul(j, r) v = Sin(l) y = MatMul(x, v) }}",
        f"{_start} h = Reshape(x, f) p = Gemm <transB = 1> (h, w) "
        "z = Shape <start = 0, end = -1> (x) t = Concat <axis = 0> (z, m) "
        "y = Reshape <allowzero = 1> (p, t) }",
        ranges=(("i", 0, 255),),
    )


def _write(embedding: str, g: PatternRewriter, matmul: Node) -> list[Node]:
    x = matmul.input[0]
    if g.info(x).rank == 2:
        return [g.make_node("Gemm", [x, embedding], matmul.output, transB=1)]
    y = times_transposed(g, x, embedding)
    return [*g.created, g.make_node("Identity", [y], matmul.output)]


def _matmuls(g: GraphView, gather: Node) -> Iterator[Node]:
    """MatMuls after a Gather, by a constant of the type and shape of the transposed embedding.

    No other node reads the constant.
    """
    info, shape = g.info(gather.input[0]), g.static_shape(gather.input[0])
    for node in g.iter_nodes():
        weight = node.input[1] if is_op(node, "MatMul") else ""
        if not weight or not g.is_constant(weight) or (g.static_shape(weight) or ())[::-1] != shape:
            continue
        if (
            g.info(weight).dtype == info.dtype
            and g.is_used_only_by(weight, node)
            and g.is_before(gather, node)
        ):
            yield node


def _is_transpose(g: GraphView, weight: str, embedding: str) -> bool:
    """Whether two constants are transposes of each other, as `numpy.array_equal` compares them."""
    values, rows = g.get_computed_constant(weight), g.get_computed_constant(embedding)
    if values is None or rows is None:
        return False
    values = values.T
    steps = tuple(slice(None, None, max(1, size // _SAMPLES)) for size in rows.shape)
    return np.array_equal(values[steps], rows[steps]) and all(
        np.array_equal(values[row : row + _TILE], rows[row : row + _TILE])
        for row in range(0, len(rows), _TILE)
    )
