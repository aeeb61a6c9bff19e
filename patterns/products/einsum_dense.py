import math

from xoptim.match import Constant, EasyPatternOptimization, Example, GraphView, Match, PatternBuilder, PatternRewriter, Symbol

from .._folding import constant
from ._einsum import parse


class EinsumDensePattern(EasyPatternOptimization):
    """Einsum(x, w, "bqhk,hkd->bqd") → MatMul(Reshape(x), w')

    What: joins the axes that are summed, and those that the constant adds, so that one product of matrices is left; the
    result may have to be permuted.
    Why: measured 1.1 times faster on onnxruntime's CPU provider, and other patterns match MatMul.
    Refuses when:
    1. the summed axes are not the last axes of x, the operands share other axes, an operand repeats a letter, or the
       equation has an ellipsis.
    2. the lengths of the summed axes are not known to be the same, or one is 0.
    3. the provider has no kernel of MatMul for the type.
    """

    exactness = "rounding"
    min_opset = 13
    tags = ("einsum",)
    kernels = {"MatMul": "x"}  # (3)

    def match_pattern(self, g: PatternBuilder, x: Symbol, w: Constant) -> Symbol:
        operands = (w, x) if g.option("swapped") else (x, w)
        return g.op.Einsum(*operands, equation=g.capture("equation"))

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        terms, result = parse(m.equation, 2) or (["", ""], "")
        left, right = reversed(terms) if m.swapped else terms
        summed = [c for c in left if c in right and c not in result]
        rows, columns = left[: len(left) - len(summed)], [c for c in result if c in right]
        apart = {*rows}.isdisjoint(right) and {*right} == {*summed, *columns} and {*rows, *columns} == {*result}
        if not rows or not columns or left != rows + "".join(summed) or not apart:  # (1)
            return self.none(m.nodes[0], msg="not a linear layer")
        given, weight = g.try_infer_shape(m.x), g.static_shape(m.w)
        lengths = dict(zip(right, weight or (), strict=False))
        if not summed or given is None or given[len(rows) :] != tuple(map(lengths.get, summed)) or 0 in lengths.values():  # (2)
            return self.none(m.nodes[0], msg="the lengths of the summed axes may differ")
        order = [right.index(c) for c in (*summed, *columns)]
        perm = [[*rows, *columns].index(c) for c in result]
        return m.derive(rows=len(rows), order=order, perm=perm, lengths=[[lengths[c] for c in t] for t in (summed, columns)])

    def apply_pattern(
        self, g: PatternRewriter, x: str, w: str, rows: int, order: list[int], perm: list[int], lengths: list[list[int]]
    ) -> str:
        summed, columns = lengths
        matrix = constant(g, w).transpose(order).reshape(math.prod(summed), math.prod(columns))
        if len(summed) > 1:
            x = g.op.Reshape(x, shape=[0] * rows + [math.prod(summed)])
        result = g.op.MatMul(x, matrix)
        if len(columns) > 1:
            result = g.op.Reshape(result, shape=[0] * rows + columns)
        return result if perm == sorted(perm) else g.op.Transpose(result, perm=perm)

    examples = (
        Example(
            "agraph (float[b,q,2,1] x) => (float[b,q,3] z) <float[2,1,3] w = {1, 2, 3, 4, 5, 6}> "
            '{ z = Einsum <equation = "bqhk,hkd->bqd"> (x, w) }',
            "<float[2,3] w = {1, 2, 3, 4, 5, 6}, int64[3] s = {0, 0, 2}> { t = Reshape(x, s) z = MatMul(t, w) }",
        ),
        Example(
            "agraph (float[b,s,2] x) => (float[b,3,s,1] z) <float[2,3,1] w = {1, 2, 3, 4, 5, 6}> "
            '{ z = Einsum <equation = "bsd,dhk->bhsk"> (x, w) }',
            "<float[2,3] w = {1, 2, 3, 4, 5, 6}, int64[4] s = {0, 0, 3, 1}> { t = MatMul(x, w) u = Reshape(t, s) "
            "z = Transpose <perm = [0, 2, 1, 3]> (u) }",
        ),
    )
