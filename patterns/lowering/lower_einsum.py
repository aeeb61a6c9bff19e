"""Einsum by sums, permutations, MatMul and Mul."""

from collections.abc import Sequence

from xoptim.match import Example, GraphView, Match, PatternBuilder, PatternRewriter, Symbol

from .._equations import EquationOperand, arrange
from .._shapes import may_be_empty
from ._einsum import (
    Contraction,
    Side,
    contraction,
    lengths_of,
    permutation_to,
    summed_alone,
    terms_of,
)
from ._lowering import _Lowering


class _LowerEinsum(_Lowering):
    """An Einsum.

    Why: several providers have no kernel of Einsum, or only for some equations.
    Refuses when:
    1. the ranks are unknown, or a letter occurs twice in one term.
    2. axes with the same letter may have different lengths, or a Reshape would need sizes at run
       time.
    3. a summed axis that only one operand has may be empty.
    """

    min_opset = 13


class LowerEinsumPattern(_LowerEinsum):
    """Einsum(x, y, equation) → Reshape(MatMul(Reshape(Transpose(x)), Reshape(Transpose(y))))

    What: brings the axes of both operands into the order that one MatMul needs, and joins them. If
    there are no common axes to sum, Mul replaces the MatMul. Axes to sum that only one operand has
    are summed first.
    """

    derives = ("plan", "factors")

    def match_pattern(self, g: PatternBuilder, x: Symbol, y: Symbol) -> Symbol:
        return g.op.Einsum(x, y, equation=g.capture("equation"))

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        shapes = [g.try_infer_shape(m.x), g.try_infer_shape(m.y)]
        inferred = [shape for shape in shapes if shape is not None]
        letters = terms_of(m.equation, inferred) if len(inferred) == 2 else None
        if letters is None:  # (1)
            return self.none(
                m.nodes[0], msg="a rank is unknown, or an operand repeats a label of the equation"
            )
        terms, result = letters
        lengths = lengths_of(terms, inferred)
        if lengths is None:  # (2)
            return self.none(m.nodes[0], msg="dimensions with the same label may differ")
        summed = (set(terms[0]) ^ set(terms[1])) - set(result)
        if reason := may_be_empty(g, [lengths[letter] for letter in sorted(summed)]):  # (3)
            return self.none(m.nodes[0], msg=reason)
        if set(terms[0]) & set(terms[1]) - set(result):
            return m.derive(plan=contraction(g, terms, result, lengths), factors=None)  # (2)
        parts = [summed_alone(term, result) for term in terms]
        return m.derive(plan=None, factors=[(a, arrange(left, result)) for a, left in parts])

    def apply_pattern(
        self,
        g: PatternRewriter,
        x: str,
        y: str,
        plan: Contraction | None,
        factors: Sequence[tuple[list[int], EquationOperand]],
    ) -> str:
        if plan is None:
            operands = zip((x, y), factors, strict=True)
            return g.op.Mul(*(_factor(g, name, *changes) for name, changes in operands))
        names = [(x, y)[place] for place in plan.order]
        result = g.op.MatMul(*map(_side, (g, g), names, plan.sides))
        result = g.op.Reshape(result, shape=plan.target) if plan.target is not None else result
        return g.op.Transpose(result, perm=plan.perm) if plan.perm else result

    examples = Example.pairs(
        "agraph (float[b,q,2,4] x, float[b,k,2,4] y) => (float[b,2,q,k] z) "
        '{ z = Einsum <equation = "bqhd,bkhd->bhqk"> (x, y) }',
        "{ t = Transpose <perm = [0, 2, 1, 3]> (x) u = Transpose <perm = [0, 2, 3, 1]> (y) "
        "z = MatMul(t, u) }",
        "agraph (float[b,q,2,4] x, float[2,4,3,5] y) => (float[b,q,3,5] z) { z = Einsum <equation ="
        ' "...hd,hdef"> (x, y) }',
        "<int64[3] s = {0, 0, 8}, int64[2] r = {8, 15}, int64[4] o = {0, 0, 3, 5}> "
        "{ t = Reshape(x, s) u = Reshape(y, r) p = MatMul(t, u) z = Reshape(p, o) }",
        "agraph (float[n,3] x, float[3,m,2] y) => (float[m,3,n] z) { z = Einsum <equation ="
        ' "ni,imk->min"> (x, y) }',
        "<int64[1] k = {2}, int64[1] e = {1}> { t = Transpose <perm = [1, 0]> (x) "
        "u = ReduceSum <keepdims = 0> (y, k) v = Transpose <perm = [1, 0]> (u) "
        "w = Unsqueeze(v, k) z = Mul(t, w) }",
    )


class LowerEinsumOnePattern(_LowerEinsum):
    """Einsum(x, equation) → Transpose(ReduceSum(x))

    What: sums the axes that the result lacks, and permutes the remaining axes.
    Refuses when:
    1. the rank is unknown, or the operand repeats a label of the equation.
    """

    derives = ("side",)

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        return g.op.Einsum(x, equation=g.capture("equation"))

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        shape = g.try_infer_shape(m.x)
        letters = None if shape is None else terms_of(m.equation, [shape])
        if letters is None:  # (1)
            return self.none(
                m.nodes[0],
                msg="the rank is unknown, or the operand repeats a label of the equation",
            )
        axes, left = summed_alone(letters[0][0], letters[1])
        return m.derive(side=Side(axes, permutation_to(left, letters[1]), None))

    def apply_pattern(self, g: PatternRewriter, x: str, side: Side) -> str:
        return _side(g, x, side)

    examples = Example.pairs(
        'agraph (float[a,b,c] x) => (float[c,a] y) { y = Einsum <equation = "ijk->ki"> (x) }',
        "<int64[1] k = {1}> { t = ReduceSum <keepdims = 0> (x, k) "
        "y = Transpose <perm = [1, 0]> (t) }",
        'agraph (float[a,2,3] x) => (float[3,a,2] y) { y = Einsum <equation = "...k->k..."> (x) }',
        "{ y = Transpose <perm = [2, 0, 1]> (x) }",
    )


class LowerEinsumManyPattern(_LowerEinsum):
    """Einsum(x, y, z, equation) → Einsum(Einsum(x, y), z)

    What: combines the first two operands, summed over the letters that no other term has. A second
    Einsum combines the result with the remaining operands.
    Refuses when:
    1. the ranks are unknown, or a letter occurs twice in one term.
    2. axes with the same letter may have different lengths.
    3. an axis that is summed first may be empty.
    """

    derives = ("inner", "outer")

    def match_pattern(self, g: PatternBuilder) -> Symbol:
        return g.op.Einsum(g.variadic("parts", least=3), equation=g.capture("equation"))

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        shapes = [g.try_infer_shape(name) for name in m.parts]
        inferred = [shape for shape in shapes if shape is not None]
        letters = terms_of(m.equation, inferred) if len(inferred) == len(shapes) else None
        if letters is None:  # (1)
            return self.none(
                m.nodes[0], msg="a rank is unknown, or an operand repeats a label of the equation"
            )
        (first, second, *terms), result = letters
        lengths = lengths_of(letters[0], inferred)
        if lengths is None:  # (2)
            return self.none(m.nodes[0], msg="dimensions with the same label may differ")
        later = "".join(terms) + result
        product = "".join(c for c in dict.fromkeys(first + second) if c in later)
        summed = sorted(set(first + second) - set(product))
        if reason := may_be_empty(g, [lengths[letter] for letter in summed]):  # (3)
            return self.none(m.nodes[0], msg=reason)
        operands = ",".join([product, *terms])
        return m.derive(inner=f"{first},{second}->{product}", outer=f"{operands}->{result}")

    def apply_pattern(
        self, g: PatternRewriter, parts: Sequence[str], inner: str, outer: str
    ) -> str:
        return g.op.Einsum(g.op.Einsum(*parts[:2], equation=inner), *parts[2:], equation=outer)

    examples = Example.pairs(
        "agraph (float[a,2] x, float[2,b] y, float[b,c] z) => (float[a,c] r) { r = Einsum <equation"
        ' = "ij,jk,kl"> (x, y, z) }',
        '{ t = Einsum <equation = "ij,jk->ik"> (x, y) r = Einsum <equation = "ik,kl->il"> (t, z) }',
    )


def _side(g: PatternRewriter, name: str, side: Side) -> str:
    result = g.op.ReduceSum(name, axes=side.summed, keepdims=0) if side.summed else name
    result = g.op.Transpose(result, perm=side.perm) if side.perm else result
    return g.op.Reshape(result, shape=side.target) if side.target is not None else result


def _factor(g: PatternRewriter, name: str, summed: list[int], operand: EquationOperand) -> str:
    result = _side(g, name, Side(summed, operand.perm, None))
    return g.op.Unsqueeze(result, axes=operand.axes) if operand.axes else result
