from typing import Any

from onnx import TensorProto

from xoptim.facts.operators import has_kernel
from xoptim.match import (
    EasyPatternOptimization,
    Example,
    GraphView,
    Match,
    PatternBuilder,
    PatternRewriter,
    Symbol,
    Variadic,
)
from xoptim.operators.registry import Trait, operators_with

_SHAPE_PRESERVING = tuple(sorted(operators_with(Trait.SAME_SHAPE)))


class ShapeUnaryPattern(EasyPatternOptimization):
    """Shape(f(x)) → Shape(x), if f keeps the shape

    What: reads the shape of a preceding tensor. The same for Size.
    Why: a tensor that is only read for its shape is not computed any more. Other tensors can be
    freed earlier.
    Refuses when:
    1. f is not an operator whose first result has the shape of its first operand.
    2. the provider has no kernel for the type of the preceding tensor, such as Size for bfloat16.
    """

    interior = "keep"

    def match_pattern(self, g: PatternBuilder, x: Symbol, rest: Variadic) -> Symbol:
        # (1)
        y = getattr(g.op, g.choice("operator", *_SHAPE_PRESERVING))(
            x, rest, attributes=g.capture("operator_attributes")
        )
        return getattr(g.op, g.choice("reader", "Shape", "Size"))(
            y, attributes=g.capture("attributes")
        )

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        dtype = g.try_infer_type(m.x)
        fits = (
            dtype == TensorProto.FLOAT16
            or has_kernel(g.provider, "", m.reader, dtype, g.main_opset) is not False
        )
        # (2)
        return fits or self.none(
            m.nodes[0], msg="no kernel for the element type of the preceding tensor"
        )

    def apply_pattern(
        self, g: PatternRewriter, x: str, reader: str, attributes: dict[str, Any]
    ) -> str:
        return str(getattr(g.op, reader)(x, **attributes))

    examples = Example.only(
        "agraph (float[a,b] x) => (int64[2] y) { n = NonZero(x) t = Cast <to = 1> (n) r = Exp(t) "
        "y = Shape(r) }",
        "{ n = NonZero(x) y = Shape(n) }",
    )
