from typing import Any

from xoptim.match import EasyPatternOptimization, Example, GraphView, Match, PatternBuilder, PatternRewriter
from xoptim.match.trace import ANY, Constant, Optional, Symbol

from .._channels import normalization, scale_outputs
from .._folding import Array, constant, doubles, rounded
from ._convolution import any_convolution, same_convolution


class ConvBatchNormalizationPattern(EasyPatternOptimization):
    """BatchNormalization(Conv(x, w, b)) → Conv(x, w', b')

    What: multiplies the weights by the factor of each output channel and moves the rest into the bias; the same for
    ConvTranspose.
    Why: saves one pass over the result, and onnxruntime does it only when all parameters are plain initializers.
    Refuses when:
    1. the weights or the bias of the convolution are not constant.
    2. a parameter of the normalization is not constant, a variance is negative, a factor is not finite, or
       a mean is very large beside the deviation.
    3. a new constant leaves the range of its type.
    """

    phase = "specialize"
    exactness = "rounding"
    min_opset = 7

    def match_pattern(
        self, g: PatternBuilder, x: Symbol, w: Constant, b: Optional, s: Symbol, o: Symbol, m: Symbol, v: Symbol
    ) -> Symbol:
        y = any_convolution(g, x, w, b)
        return g.op.BatchNormalization(y, s, o, m, v, epsilon=g.capture("epsilon"), momentum=ANY)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        if m.b and not g.is_constant(m.b):  # (1), for the weights the annotation says it
            return self.none(m.nodes[0], msg="the bias is not constant")
        found = normalization(g, (m.s, m.o, m.m, m.v), m.epsilon)
        if found is None:  # (2)
            return self.none(m.nodes[1], msg="parameters unknown, not finite, or a mean too large")
        (scale, shift), dtype = found, constant(g, m.w).dtype
        weight = scale_outputs(g, m.w, scale, transposed=m.transposed, group=m.attributes.get("group", 1))
        bias = rounded(doubles(g, m.b) * scale + shift, dtype, terms=())
        if weight is None or bias is None:  # (3)
            return self.none(m.nodes[0], msg="a new constant leaves the range of its type")
        return m.derive(weight=weight, bias=bias)

    def apply_pattern(
        self, g: PatternRewriter, x: str, weight: Array, bias: Array, attributes: dict[str, Any], transposed: bool
    ) -> str:
        return same_convolution(g, x, weight, bias, attributes, transposed)

    _constants = "float[2] s = {2, 4}, float[2] o = {0, 1}, float[2] m = {1, 0}, float[2] v = {0.75, 3.75}"
    _folded = "float[2] b = {-2, 1}"
    _normalize = "y = BatchNormalization <epsilon = 0.25> (c, s, o, m, v)"
    examples = (
        Example(
            f"agraph (float[n,1,h,w] x) => (float[n,2,h,w] y) <float[2,1,1,1] k = {{1, 2}}, {_constants}> "
            f"{{ c = Conv(x, k) {_normalize} }}",
            f"agraph (float[n,1,h,w] x) => (float[n,2,h,w] y) <float[2,1,1,1] k = {{2, 4}}, {_folded}> {{ y = Conv(x, k, b) }}",
        ),
        Example(
            f"agraph (float[n,2,h] x) => (float[n,2,h] y) <float[2,1,1] k = {{1, 2}}, {_constants}> "
            f"{{ c = ConvTranspose <group = 2> (x, k) {_normalize} }}",
            f"agraph (float[n,2,h] x) => (float[n,2,h] y) <float[2,1,1] k = {{2, 4}}, {_folded}> "
            "{ y = ConvTranspose <group = 2> (x, k, b) }",
        ),
    )
