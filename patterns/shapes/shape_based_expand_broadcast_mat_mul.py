from xoptim.facts.dims import is_nonzero
from xoptim.facts.shapes import broadcast_shapes
from xoptim.match import (
    EasyPatternOptimization,
    Example,
    GraphView,
    Match,
    PatternBuilder,
    PatternRewriter,
    Symbol,
)

from .._shapes import same_dims


class ShapeBasedExpandBroadcastMatMulPattern(EasyPatternOptimization):
    """MatMul(Expand(a), b) → MatMul(a, b), on either side

    What: drops an Expand of batch axes, which the MatMul broadcasts.
    Why: saves a copy of the operand for each matrix of the batch.
    Refuses when:
    1. a shape is unknown, or an operand is a vector.
    2. the Expand changes the last two axes as well.
    3. without the Expand, the result may have another batch shape. Or a batch dimension may be 0,
       which onnxruntime's MatMul does not broadcast.
    """

    interior = "keep"
    min_opset = 8

    def match_pattern(self, g: PatternBuilder, a: Symbol, b: Symbol, shape: Symbol) -> Symbol:
        return (
            g.op.MatMul(g.op.Expand(a, shape), b)
            if g.option("left")
            else g.op.MatMul(a, g.op.Expand(b, shape))
        )

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        matmul = m.nodes[-1]
        a, b, result = (
            g.try_infer_shape(m.a),
            g.try_infer_shape(m.b),
            g.try_infer_shape(matmul.output[0]),
        )
        if a is None or b is None or result is None or min(len(a), len(b)) < 2:  # (1)
            return self.none(matmul, msg="a shape is unknown, or an operand is a vector")
        expanded = g.try_infer_shape(m.nodes[0].output[0])
        if expanded is None or expanded[-2:] != (a if m.left else b)[-2:]:  # (2)
            return self.none(matmul, msg="the last two axes are expanded as well")
        batch = broadcast_shapes(a[:-2], b[:-2])
        fits = same_dims(batch, result[:-2]) and all(map(is_nonzero, batch or ()))
        # (3)
        return fits or self.none(
            matmul, msg="the result may have another batch shape, or a batch dimension may be 0"
        )

    def apply_pattern(self, g: PatternRewriter, a: str, b: str) -> str:
        return g.op.MatMul(a, b)

    examples = Example.only(
        "agraph (float[1,3,2] a, float[5,2,m] b) => (float[5,3,m] y) <int64[3] s = {5, 3, 2}> "
        "{ e = Expand(a, s) y = MatMul(e, b) }",
        "{ y = MatMul(a, b) }",
    )
