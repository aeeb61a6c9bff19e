import itertools
import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from xoptim.match import (
    Constant,
    EasyPatternOptimization,
    Example,
    GraphView,
    Match,
    PatternBuilder,
    PatternRewriter,
    Symbol,
)

from .._equations import EquationOperand, arrange, parse
from .._folding import constant


class EinsumOperands(NamedTuple):
    """A plan to compute an Einsum by one MatMul.

    Attributes:
        order: indices of the left and of the right operand among the operands of the Einsum.
        operands: the changes of the left and the right operand.
        broadcast: letters of axes along which MatMul broadcasts an operand. onnxruntime cannot
            broadcast to size 0.
        squeeze: axis of the result to drop; ``None`` for none.
        perm: permutation of the remaining axes; ``None`` for none.
        cost: number of further nodes; a permutation counts as `PERMUTATION_COST`.
    """

    order: tuple[int, int]
    operands: tuple[EquationOperand, EquationOperand]
    broadcast: str
    squeeze: int | None
    perm: list[int] | None
    cost: int


PERMUTATION_COST = 4


def matmuls(
    letters: Sequence[str], result: str, constant: Sequence[bool]
) -> Iterator[EinsumOperands]:
    """All plans to compute an Einsum of two tensors by one MatMul.

    Changes of constants cost nothing, because they are folded.

    Args:
        letters: the letters of both operands.
        result: the letters of the result.
        constant: whether each operand is constant.
    """
    a, b = letters
    summed = [c for c in a if c in b and c not in result]
    if len(summed) != 1 or set(a + b) - set(result) != set(summed):
        return
    k = summed[0]
    for order in ((0, 1), (1, 0)):
        left, right = letters[order[0]], letters[order[1]]
        rows = [c for c in left if c not in right] or [""]
        columns = [c for c in right if c not in left] or [""]
        for m, n in itertools.product(rows, columns):
            if m or n:
                yield _matmul(order, (left, right), (k, m, n), result, constant)


def _matmul(
    order: tuple[int, int],
    letters: tuple[str, str],
    roles: tuple[str, str, str],
    result: str,
    constant: Sequence[bool],
) -> EinsumOperands:
    k, m, n = roles
    batch = [c for c in result if c not in (m, n)]
    operands = arrange(letters[0], [*batch, m, k]), arrange(letters[1], [*batch, k, n])
    squeeze = None if m and n else len(batch) + bool(m)
    lacking = [{c for c in batch if c not in term} for term in letters]
    if len(lacking[1]) == len(batch):  # a matrix on the right is not repeated
        lacking[1] = set()
    axes = [c for c in (*batch, m, n) if c]
    perm = [axes.index(c) for c in result]
    permuted = perm != sorted(perm)
    cost = PERMUTATION_COST * permuted + (squeeze is not None)
    for index, operand in zip(order, operands, strict=True):
        if not constant[index]:
            cost += PERMUTATION_COST * (operand.perm is not None) + bool(operand.axes)
    return EinsumOperands(
        order, operands, "".join(lacking[0] | lacking[1]), squeeze, perm if permuted else None, cost
    )


class _Einsum(EasyPatternOptimization):
    """An Einsum whose equation other operators can compute."""

    min_opset = 13
    tags = ("einsum",)


class _TwoOperands(_Einsum):
    """An Einsum of two tensors."""

    exactness = "rounding"  # Even a product without a sum may change the sign of a zero.

    def match_pattern(self, g: PatternBuilder, x: Symbol, y: Symbol) -> Symbol:
        return g.op.Einsum(x, y, equation=g.capture("equation"))


class EinsumDensePattern(_Einsum):
    """Einsum(x, w, "bqhk,hkd->bqd") → MatMul(Reshape(x), w')

    What: merges the summed axes, and the axes that the constant adds, so that one MatMul remains,
    possibly with a Transpose.
    Why: 1.1 times as fast on onnxruntime's CPU provider, and other patterns match MatMul.
    Refuses when:
    1. the summed axes are not the last axes of x, operands share other axes or repeat a letter, or
       there is an ellipsis.
    2. the sizes of the summed axes are not known to be equal in both operands, or one is 0.
    3. the provider has no kernel of MatMul for the type.
    """

    exactness = "rounding"
    kernels = {"MatMul": "x"}  # (3)
    derives = ("rows", "order", "perm", "lengths")

    def match_pattern(self, g: PatternBuilder, x: Symbol, w: Constant) -> Symbol:
        operands = (w, x) if g.option("swapped") else (x, w)
        return g.op.Einsum(*operands, equation=g.capture("equation"))

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        terms, result = parse(m.equation, 2) or (["", ""], "")
        left, right = reversed(terms) if m.swapped else terms
        summed = [c for c in left if c in right and c not in result]
        rows, columns = left[: len(left) - len(summed)], [c for c in result if c in right]
        is_linear = (
            {*rows}.isdisjoint(right)
            and {*right} == {*summed, *columns}
            and {*rows, *columns} == {*result}
        )
        if not rows or not columns or left != rows + "".join(summed) or not is_linear:  # (1)
            return self.none(m.nodes[0], msg="the equation is not that of a linear layer")
        shape, weight = g.try_infer_shape(m.x), g.static_shape(m.w)
        lengths = dict(zip(right, weight or (), strict=False))
        # (2)
        if (
            not summed
            or shape is None
            or shape[len(rows) :] != tuple(map(lengths.get, summed))
            or 0 in lengths.values()
        ):
            return self.none(m.nodes[0], msg="the summed dimensions may differ or be 0")
        order = [right.index(c) for c in (*summed, *columns)]
        perm = [[*rows, *columns].index(c) for c in result]
        return m.derive(
            rows=len(rows),
            order=order,
            perm=perm,
            lengths=[[lengths[c] for c in t] for t in (summed, columns)],
        )

    def apply_pattern(
        self,
        g: PatternRewriter,
        x: str,
        w: str,
        rows: int,
        order: list[int],
        perm: list[int],
        lengths: list[list[int]],
    ) -> str:
        summed, columns = lengths
        matrix = constant(g, w).transpose(order).reshape(math.prod(summed), math.prod(columns))
        if len(summed) > 1:
            x = g.op.Reshape(x, shape=[0] * rows + [math.prod(summed)])
        result = g.op.MatMul(x, matrix)
        if len(columns) > 1:
            result = g.op.Reshape(result, shape=[0] * rows + columns)
        return result if perm == sorted(perm) else g.op.Transpose(result, perm=perm)

    examples = Example.pairs(
        "agraph (float[b,q,2,1] x) => (float[b,q,3] z) <float[2,1,3] w = {1, 2, 3, 4, 5, 6}> "
        '{ z = Einsum <equation = "bqhk,hkd->bqd"> (x, w) }',
        "<float[2,3] w = {1, 2, 3, 4, 5, 6}, int64[3] s = {0, 0, 2}> { t = Reshape(x, s) "
        "z = MatMul(t, w) }",
        "agraph (float[b,s,2] x) => (float[b,3,s,1] z) <float[2,3,1] w = {1, 2, 3, 4, 5, 6}> "
        '{ z = Einsum <equation = "bsd,dhk->bhsk"> (x, w) }',
        "<float[2,3] w = {1, 2, 3, 4, 5, 6}, int64[4] s = {0, 0, 3, 1}> { t = MatMul(x, w) "
        "u = Reshape(t, s) z = Transpose <perm = [0, 2, 1, 3]> (u) }",
    )


class EinsumMatMulPattern(_TwoOperands):
    """Einsum(x, y, "bqd,bkd->bqk") → MatMul(x, Transpose(y))

    What: writes an Einsum that sums one axis as a MatMul, with a Transpose, Unsqueeze or Squeeze if
    needed.
    Why: 1.05 to 1.46 times as fast on onnxruntime's CPU provider, and other patterns match MatMul.
    Refuses when:
    1. no axis or more than one is summed, or the equation has an ellipsis or repeats a letter.
    2. the sizes of the summed axis are not known to be equal in both operands.
    3. more than one permutation of a computed tensor would be needed, or one permutation and more
       than one other node. Or an operand would be broadcast along an axis whose size may be 0,
       which onnxruntime's MatMul cannot.
    4. the provider has no kernel of MatMul for the type.
    """

    kernels = {"MatMul": "x"}  # (4)
    derives = ("plan",)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        names, equation = (m.x, m.y), parse(m.equation, 2)
        plans = (
            list(matmuls(*equation, [g.is_constant(name) for name in names]))
            if equation is not None
            else []
        )
        if equation is None or not plans:  # (1)
            return self.none(m.nodes[0], msg="the equation does not sum exactly one axis")
        x, y = (
            dict(zip(t, g.try_infer_shape(n) or (), strict=False))
            for t, n in zip(equation[0], names, strict=True)
        )
        if any(
            c not in x or x[c] != y.get(c) for c in set(equation[0][0]) - set(equation[1])
        ):  # (2)
            return self.none(m.nodes[0], msg="the summed dimensions may differ")
        lengths = {**x, **y}
        plans = [
            p
            for p in plans
            if all(isinstance(d := lengths.get(c), int) and d > 0 for c in p.broadcast)
        ]
        plan = min(plans, key=lambda plan: plan.cost, default=None)
        if plan is None or plan.cost > PERMUTATION_COST + 1:  # (3)
            return self.none(
                m.nodes[0], msg="it would take too many nodes, or broadcast an operand"
            )
        return m.derive(plan=plan)

    def apply_pattern(self, g: PatternRewriter, x: str, y: str, plan: EinsumOperands) -> str:
        sides = []
        for index, (perm, axes) in zip(plan.order, plan.operands, strict=True):
            side = (x, y)[index]
            side = g.op.Transpose(side, perm=perm) if perm else side
            sides.append(g.op.Unsqueeze(side, axes=axes) if axes else side)
        result = g.op.MatMul(*sides)
        if plan.squeeze is not None:
            result = g.op.Squeeze(result, axes=[plan.squeeze])
        return g.op.Transpose(result, perm=plan.perm) if plan.perm else result

    examples = Example.pairs(
        "agraph (float[b,q,8] x, float[b,k,8] y) => (float[b,q,k] z) { z = Einsum <equation ="
        ' "bqd,bkd->bqk"> (x, y) }',
        "{ t = Transpose <perm = [0, 2, 1]> (y) z = MatMul(x, t) }",
        "agraph (float[b,q,4] x, float[b,4] y) => (float[b,q] z) { z = Einsum <equation ="
        ' "bqe,be->bq"> (x, y) }',
        "<int64[1] last = {2}> { t = Unsqueeze(y, last) u = MatMul(x, t) z = Squeeze(u, last) }",
        "agraph (float[2,s,2] x, float[4,2,3] w) => (float[2,4,s,3] z) { z = Einsum <equation ="
        ' "bsd,edh->besh"> (x, w) }',
        "<int64[1] one = {1}> { t = Unsqueeze(x, one) z = MatMul(t, w) }",
    )


class EinsumMulPattern(_TwoOperands):
    """Einsum(x, y, "bi,bj->bij") → Unsqueeze(x) · Unsqueeze(y)

    What: writes an outer or elementwise product as a Mul.
    Why: on onnxruntime's CPU provider, outer products are 1.1 times as fast, and elementwise
    products 450 times.
    Refuses when:
    1. an axis is summed or taken from a diagonal, or the equation has an ellipsis.
    2. an operand would need a Transpose.
    3. the provider has no kernel of Mul for the type.
    """

    kernels = {"Mul": "x"}  # (3)
    derives = ("operands",)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        equation = parse(m.equation, 2)
        if equation is None or set("".join(equation[0])) != set(equation[1]):  # (1)
            return self.none(m.nodes[0], msg="the equation sums an axis, or takes a diagonal")
        operands = [arrange(letters, equation[1]) for letters in equation[0]]
        if any(operand.perm for operand in operands):  # (2)
            return self.none(m.nodes[0], msg="an operand would need a Transpose")
        return m.derive(operands=operands)

    def apply_pattern(
        self, g: PatternRewriter, x: str, y: str, operands: list[EquationOperand]
    ) -> str:
        return g.op.Mul(
            *(
                g.op.Unsqueeze(n, axes=o.axes) if o.axes else n
                for n, o in zip((x, y), operands, strict=True)
            )
        )

    examples = Example.pairs(
        "agraph (float[a,b] x, float[a,c] y) => (float[a,b,c] z) { z = Einsum <equation ="
        ' "bi,bj->bij"> (x, y) }',
        "<int64[1] two = {2}, int64[1] one = {1}> { t = Unsqueeze(x, two) u = Unsqueeze(y, one) "
        "z = Mul(t, u) }",
        'agraph (float[a,b] x, float[b] y) => (float[a,b] z) { z = Einsum <equation = "ij,j->ij">'
        " (x, y) }",
        "{ z = Mul(x, y) }",
    )


class EinsumTransposePattern(_Einsum):
    """Einsum(x, "ij->ji") → Transpose(x)

    What: writes an Einsum that only permutes axes as a Transpose.
    Why: 1.4 times as fast on onnxruntime's CPU provider, and other patterns match Transpose.
    Refuses when:
    1. an axis is summed or taken from a diagonal, or the equation has an ellipsis.
    """

    min_opset = 12
    derives = ("perm",)

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        return g.op.Einsum(x, equation=g.capture("equation"))

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        equation = parse(m.equation, 1)
        if equation is None or len(equation[0][0]) != len(equation[1]):  # (1)
            return self.none(m.nodes[0], msg="the equation is not a permutation")
        return m.derive(perm=[equation[0][0].index(letter) for letter in equation[1]])

    def apply_pattern(self, g: PatternRewriter, x: str, perm: list[int]) -> str:
        # The identity needs no node.
        return x if perm == sorted(perm) else g.op.Transpose(x, perm=perm)

    examples = Example.only(
        'agraph (float[a,b,c] x) => (float[c,a,b] y) { y = Einsum <equation = "ijk -> kij"> (x) }',
        "{ y = Transpose <perm = [2, 0, 1]> (x) }",
    )
