from xoptim.match import EasyPatternOptimization, Example, GraphView, Match, PatternBuilder, PatternRewriter, Symbol

from ._einsum import PERMUTATION_COST, Product, parse, products


class EinsumMatMulPattern(EasyPatternOptimization):
    """Einsum(x, y, "bqd,bkd->bqk") → MatMul(x, Transpose(y))

    What: a product that sums one axis, with a permutation and axes of length 1 where they are needed.
    Why: measured 1.05 to 1.46 times faster on onnxruntime's CPU provider, and other patterns match MatMul.
    Refuses when:
    1. no axis or more than one is summed, or the equation has an ellipsis or repeats a letter.
    2. the lengths of the summed axis are not known to be the same.
    3. more than one permutation of a computed tensor would be needed, or more than two other nodes, or an
       operand is repeated along an axis that may have length 0 (which onnxruntime's MatMul does not do).
    4. the provider has no kernel of MatMul for the type.
    """

    exactness = "rounding"
    priority = 1
    min_opset = 13
    tags = ("einsum",)
    kernels = {"MatMul": "x"}  # (4)

    def match_pattern(self, g: PatternBuilder, x: Symbol, y: Symbol) -> Symbol:
        return g.op.Einsum(x, y, equation=g.capture("equation"))

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        names, found = (m.x, m.y), parse(m.equation, 2)
        plans = list(products(*found, [g.is_constant(name) for name in names])) if found is not None else []
        if found is None or not plans:  # (1)
            return self.none(m.nodes[0], msg="not a product that sums one axis")
        x, y = (dict(zip(t, g.try_infer_shape(n) or (), strict=False)) for t, n in zip(found[0], names, strict=True))
        if any(c not in x or x[c] != y.get(c) for c in set(found[0][0]) - set(found[1])):  # (2)
            return self.none(m.nodes[0], msg="the lengths of the summed axis may differ")
        lengths = {**x, **y}
        plans = [p for p in plans if all(isinstance(d := lengths.get(c), int) and d > 0 for c in p.broadcast)]
        plan = min(plans, key=lambda each: each.cost, default=None)
        if plan is None or plan.cost > PERMUTATION_COST + 1:  # (3)
            return self.none(m.nodes[0], msg="it would take too many nodes, or repeat an operand")
        return m.derive(plan=plan)

    def apply_pattern(self, g: PatternRewriter, x: str, y: str, plan: Product) -> str:
        sides = []
        for place, (perm, axes) in zip(plan.order, plan.operands, strict=True):
            side = (x, y)[place]
            side = g.op.Transpose(side, perm=perm) if perm else side
            sides.append(g.op.Unsqueeze(side, axes=axes) if axes else side)
        result = g.op.MatMul(*sides)
        if plan.squeeze is not None:
            result = g.op.Squeeze(result, axes=[plan.squeeze])
        return g.op.Transpose(result, perm=plan.perm) if plan.perm else result

    examples = (
        Example(
            'agraph (float[b,q,8] x, float[b,k,8] y) => (float[b,q,k] z) { z = Einsum <equation = "bqd,bkd->bqk"> (x, y) }',
            "{ t = Transpose <perm = [0, 2, 1]> (y) z = MatMul(x, t) }",
        ),
        Example(
            'agraph (float[b,q,4] x, float[b,4] y) => (float[b,q] z) { z = Einsum <equation = "bqe,be->bq"> (x, y) }',
            "<int64[1] last = {2}> { t = Unsqueeze(y, last) u = MatMul(x, t) z = Squeeze(u, last) }",
        ),
        Example(
            'agraph (float[2,s,2] x, float[4,2,3] w) => (float[2,4,s,3] z) { z = Einsum <equation = "bsd,edh->besh"> (x, w) }',
            "<int64[1] one = {1}> { t = Unsqueeze(x, one) z = MatMul(t, w) }",
        ),
    )
