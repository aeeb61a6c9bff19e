from xoptim.match import Constant, EasyPatternOptimization, Example, GraphView, Match, PatternBuilder, PatternRewriter, Symbol

from .._channels import fixed_normalization, normalization
from .._folding import Array, constant, doubles, rounded


class MatMulReshapeBatchNormalizationPattern(EasyPatternOptimization):
    """BatchNormalization(Flatten(MatMul(x, w))) → Flatten(MatMul(x, w') + b), and so for Reshape

    What: multiplies the columns of the weight by the factors of the normalization, and adds the rest.
    Why: BatchNormalization takes channels along the second axis, so torch merges all other axes before it, and splits them
    after it: LeViT has one after each layer. The movement meets its inverse then.
    Refuses when:
    1. the weight is not a constant matrix stored in the model, or is used elsewhere; there are other axes than
       positions and columns.
    2. a parameter of the normalization is not constant, a variance is negative, a factor is not finite, or
       a mean is very large beside the deviation.
    3. a new constant leaves the range of its type.
    """

    phase = "specialize"
    exactness = "rounding"
    min_opset = 7

    def match_pattern(self, g: PatternBuilder, x: Symbol, w: Constant, t: Symbol) -> Symbol:
        y = g.op.MatMul(x, w)
        y = (
            g.op.Flatten(y, axis=g.capture("axis"))
            if g.option("flat")
            else g.op.Reshape(y, t, allowzero=g.capture("allowzero"))
        )
        return fixed_normalization(g, y)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        # The columns stay in place when all axes but the last are merged.
        shape, flat = g.static_shape(m.w), g.try_infer_shape(m.nodes[1].output[0])
        if shape is None or len(shape) != 2 or not g.is_stored(m.w) or not g.is_exclusive(m.w):  # (1)
            return self.none(m.nodes[0], msg="the weight is not a matrix of the model, or it is used elsewhere")
        if flat is None or len(flat) != 2 or flat[1] != shape[1] or (g.info(m.x).rank or 0) < 2:  # (1)
            return self.none(m.nodes[1], msg="the columns are not the second axis of two")
        (scale, shift), dtype = normalization(g, m.norm, m.epsilon), constant(g, m.w).dtype  # (2)
        weight = rounded(doubles(g, m.w) * scale, dtype, summed=0)  # (3)
        return m.derive(weight=weight, bias=rounded(shift, dtype, terms=()))

    def apply_pattern(
        self, g: PatternRewriter, x: str, weight: Array, bias: Array, flat: bool, t: str, axis: int, allowzero: int
    ) -> str:
        total = g.op.Add(g.op.MatMul(x, weight), bias)
        return g.op.Flatten(total, axis=axis) if flat else g.op.Reshape(total, t, allowzero=allowzero)

    _before = (
        "<float[2,2] w = {1, 2, 3, 4}, float[2] s = {2, 4}, float[2] o = {0, 1}, float[2] m = {1, 0}, float[2] v = {0.75, 3.75}"
    )
    _after = "<float[2,2] w = {2, 4, 6, 8}, float[2] c = {-2, 1}"
    examples = (
        Example(
            f"agraph (float[a,b,2] x) => (float[c,2] y) {_before}> {{ t = MatMul(x, w) f = Flatten <axis = 2> (t) "
            "y = BatchNormalization <epsilon = 0.25> (f, s, o, m, v) }",
            f"agraph (float[a,b,2] x) => (float[c,2] y) {_after}> "
            "{ t = MatMul(x, w) u = Add(t, c) y = Flatten <axis = 2> (u) }",
        ),
        Example(
            f"agraph (float[a,b,2] x) => (float[c,2] y) {_before}, int64[2] z = {{-1, 2}}> {{ t = MatMul(x, w) "
            "f = Reshape(t, z) y = BatchNormalization <epsilon = 0.25> (f, s, o, m, v) }",
            f"agraph (float[a,b,2] x) => (float[c,2] y) {_after}, int64[2] z = {{-1, 2}}> "
            "{ t = MatMul(x, w) u = Add(t, c) y = Reshape(u, z) }",
        ),
    )
