from onnx import TensorProto

from xoptim.facts.dtypes import FLOATS
from xoptim.match import EasyPatternOptimization, Example, PatternBuilder, PatternRewriter, Symbol


class HardSigmoidMulPattern(EasyPatternOptimization):
    """x · HardSigmoid(x, alpha=1/6, beta=0.5) → HardSwish(x)

    What: one operator instead of two.
    Why: saves one pass over the tensor, on providers with a kernel for it (onnxruntime's CPU provider has none).
    Refuses when:
    1. the attributes differ from these, or the type has more digits than they have.
    2. the provider has no kernel of HardSwish for the type.
    """

    phase = "specialize"
    priority = 1
    exactness = "rounding"
    min_opset = 14
    providers = ("cuda",)
    operand_types = {"x": FLOATS - {TensorProto.DOUBLE}}  # (1)
    kernels = {"HardSwish": "x"}  # (2)

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        # The attribute as 32-bit floats hold it (1).
        return g.op.Mul(x, g.op.HardSigmoid(x, alpha=lambda value: abs(6 * value - 1) < 1e-6, beta=0.5))

    def apply_pattern(self, g: PatternRewriter, x: str) -> str:
        return g.op.HardSwish(x)

    examples = (
        Example(
            "agraph (float[a,b] x) => (float[a,b] y) { t = HardSigmoid <alpha = 0.1666667, beta = 0.5> (x) y = Mul(x, t) }",
            "agraph (float[a,b] x) => (float[a,b] y) { y = HardSwish(x) }",
        ),
    )
