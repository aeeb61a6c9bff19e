from collections.abc import Mapping
from typing import Any, Final

from xoptim.match import Example, GraphView, Match, PatternBuilder, PatternRewriter, Symbol

from ._lowering import _Lowering

_KNOWN: Final = {"transA", "transB", "transBatchA", "transBatchB", "alpha"}


class LowerFusedMatMulPattern(_Lowering):
    """com.microsoft.FusedMatMul(a, b, transB=1, alpha=s) → MatMul(a, Transpose(b)) · s

    What: writes the standard operators; the same for the first operand, for operands whose batches
    are transposed, and for TransposeMatMul, the former name of the operator.
    Why: only ONNX Runtime's own providers run it.
    Refuses when:
    1. an operand is transposed, and the rank of one of them is unknown, or one is a vector, with
    which the operator computes something else.
    2. the factor is 0, or an attribute is not known.
    """

    min_opset = 7
    derives = ("left", "right", "alpha")

    def match_pattern(self, g: PatternBuilder, a: Symbol, b: Symbol) -> Symbol:
        matmul = getattr(g.op, g.choice("operator", "FusedMatMul", "TransposeMatMul"))
        result: Symbol = matmul(a, b, domain="com.microsoft", attributes=g.capture("written"))
        return result

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        node, alpha = m.nodes[0], m.written.get("alpha", 1.0)
        if not alpha or not m.written.keys() <= _KNOWN:  # (2)
            return self.none(node, msg="alpha is 0, or an attribute is unknown")
        ranks = [g.info(name).rank or 0 for name in (m.a, m.b)]
        transposing = [flag for flag in m.written if flag != "alpha" and m.written[flag]]
        if transposing and min(ranks) < 2:  # (1)
            return self.none(node, msg="a rank is unknown, or an operand is a vector")
        orders = [_order(rank, side, m.written) for rank, side in zip(ranks, "AB", strict=True)]
        return m.derive(left=orders[0], right=orders[1], alpha=alpha)

    def apply_pattern(
        self,
        g: PatternRewriter,
        a: str,
        b: str,
        left: list[int],
        right: list[int],
        alpha: float,
    ) -> Any:
        first = g.op.Transpose(a, perm=left) if left else a
        second = g.op.Transpose(b, perm=right) if right else b
        matmul = g.op.MatMul(first, second)
        return matmul if alpha == 1 else g.op.Mul(matmul, alpha)

    _start = "agraph (float[a,h,q,8] x, float[a,h,k,8] w) => (float[a,h,q,k] y)"
    examples = Example.pairs(
        f"{_start} {{ y = com.microsoft.FusedMatMul <transB = 1, alpha = 0.5> (x, w) }}",
        "<float a = {0.5}> { b = Transpose <perm = [0, 1, 3, 2]> (w) c = MatMul(x, b) "
        "y = Mul(c, a) }",
        "agraph (float[8,q] x, float[8,k] w) => (float[q,k] y) { "
        "y = com.microsoft.TransposeMatMul <transA = 1> (x, w) }",
        "{ a = Transpose <perm = [1, 0]> (x) y = MatMul(a, w) }",
        "agraph (float[q,a,h,8] x, float[k,a,h,8] w) => (float[a,h,q,k] y) "
        "{ y = com.microsoft.FusedMatMul <transB = 1, transBatchA = 1, transBatchB = 1> (x, w) }",
        "{ a = Transpose <perm = [1, 2, 0, 3]> (x) b = Transpose <perm = [1, 2, 3, 0]> (w) "
        "y = MatMul(a, b) }",
    )


def _order(rank: int, side: str, written: Mapping[str, Any]) -> list[int]:
    """The axes of an operand in the order in which MatMul reads them, empty where it is theirs.

    Rows may be the first axis, before the batches (``transBatchA``), and columns may be rows.
    """
    order = list(range(rank))
    if written.get(f"transBatch{side}"):
        order[:-1] = [*order[1:-1], 0]
    if written.get(f"trans{side}"):
        order[-2:] = reversed(order[-2:])
    return [] if order == sorted(order) else order
