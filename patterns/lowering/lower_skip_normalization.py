"""A sum and its normalization, apart."""

from typing import Any

from onnx import TensorProto

from xoptim.match import Example, GraphView, Match, PatternBuilder, PatternRewriter
from xoptim.match.trace import Optional, Symbol

from .._shapes import broadcasts_to
from ._lowering import COMPUTED, _Lowering


class _LowerSkipNormalization(_Lowering):
    """A normalization of a sum of two or three tensors.

    What: the fourth result, the sum, is the one of Add.
    Why: only ONNX Runtime's own providers run it; on its CPU provider the operators apart are
    faster.
    Refuses when:
    1. the mean or the standard deviation is read.
    2. the type is unknown, or bfloat16, which Add often lacks (checked by the matcher).
    3. the second tensor is not known to broadcast to the first: the operator repeats it, or cuts
       it.
    """

    operand_types = {"x": COMPUTED - {TensorProto.BFLOAT16}}  # (2)
    derives = ("number",)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        if any(name and g.is_used(name) for name in m.results[1:3]):  # (1)
            return self.none(m.nodes[0], msg="the mean or the inverse standard deviation is read")
        if not broadcasts_to(g, m.skip, m.x):  # (3)
            return self.none(
                m.nodes[0], msg="the second tensor is not known to broadcast to the first"
            )
        epsilon = m.written.get("epsilon", 1e-12)
        return m.derive(number=epsilon)


def sum_of(g: PatternRewriter, x: str, skip: str, added: str) -> str:
    """The sum of two or three tensors."""
    first = g.op.Add(x, added) if added else x
    return g.op.Add(first, skip)


class LowerSkipLayerNormalizationPattern(_LowerSkipNormalization):
    """com.microsoft.SkipLayerNormalization(x, skip, scale, bias, b) → LayerNormalization(x + b +
    skip, scale, bias)
    """

    min_opset = 17

    def match_pattern(
        self,
        g: PatternBuilder,
        x: Symbol,
        skip: Symbol,
        scale: Symbol,
        bias: Optional,
        added: Optional,
    ) -> Symbol:
        return g.op.SkipLayerNormalization(
            x,
            skip,
            scale,
            bias,
            added,
            domain="com.microsoft",
            outputs=g.variadic("results"),
            attributes=g.capture("written"),
        )

    def apply_pattern(
        self,
        g: PatternRewriter,
        x: str,
        skip: str,
        scale: str,
        bias: str,
        added: str,
        results: tuple[str, ...],
        number: float,
    ) -> Any:
        total = sum_of(g, x, skip, added)
        normal = g.op.LayerNormalization(total, scale, bias or None, axis=-1, epsilon=number)
        return (normal, None, None, total)[: len(results)]

    _start = "agraph (float[a,b,4] x, float[a,b,4] r, float[4] s, float[4] c, float[4] d) =>"
    examples = Example.pairs(
        f'{_start} (float[a,b,4] y, float[a,b,4] z) {{ y, "", "", z ='
        " com.microsoft.SkipLayerNormalization <epsilon = 0.001> (x, r, s, c, d) }",
        "{ a = Add(x, d) z = Add(a, r) y = LayerNormalization <axis = -1, epsilon = 0.001> (z, s, "
        "c) }",
        "agraph (float[a,b,4] x, float[1,b,4] r, float[4] s) => (float[a,b,4] y) "
        "{ y = com.microsoft.SkipLayerNormalization <epsilon = 0.001> (x, r, s) }",
        "{ a = Add(x, r) y = LayerNormalization <axis = -1, epsilon = 0.001> (a, s) }",
        "agraph (float16[a,b,4] x, float16[a,b,4] r, float16[4] s, float16[4] c) "
        "=> (float16[a,b,4] y) { y = com.microsoft.SkipLayerNormalization <epsilon = 0.001> (x, "
        "r, s, c) }",
        "{ a = Add(x, r) y = LayerNormalization <axis = -1, epsilon = 0.001> (a, s, c) }",
    )


class LowerSkipSimplifiedLayerNormalizationPattern(_LowerSkipNormalization):
    """com.microsoft.SkipSimplifiedLayerNormalization(x, skip, scale, b) → RMSNormalization(x + b +
    skip, scale)

    What: below operator set 23 with SimplifiedLayerNormalization, ONNX Runtime's name of
    RMSNormalization.
    """

    min_opset = 7
    unchecked = ("SimplifiedLayerNormalization",)

    def match_pattern(
        self, g: PatternBuilder, x: Symbol, skip: Symbol, scale: Symbol, added: Optional
    ) -> Symbol:
        return g.op.SkipSimplifiedLayerNormalization(
            x,
            skip,
            scale,
            added,
            domain="com.microsoft",
            outputs=g.variadic("results"),
            attributes=g.capture("written"),
        )

    def apply_pattern(
        self,
        g: PatternRewriter,
        x: str,
        skip: str,
        scale: str,
        added: str,
        results: tuple[str, ...],
        number: float,
    ) -> Any:
        total = sum_of(g, x, skip, added)
        is_standard = g.opsets.get("", 1) >= 23
        operator = "RMSNormalization" if is_standard else "SimplifiedLayerNormalization"
        normal = getattr(g.op, operator)(total, scale, axis=-1, epsilon=number)
        return (normal, None, None, total)[: len(results)]

    _start = "agraph (float[a,b,4] x, float[a,b,4] r, float[4] s, float[4] d) =>"
    examples = (
        Example(
            f'{_start} (float[a,b,4] y, float[a,b,4] z) {{ y, "", "", z ='
            " com.microsoft.SkipSimplifiedLayerNormalization <epsilon = 0.001> (x, r, s, d) }",
            "{ a = Add(x, d) z = Add(a, r) y = RMSNormalization <axis = -1, epsilon = 0.001> (z, "
            "s) }",
            opset=23,
        ),
        Example(
            "agraph (float16[a,b,4] x, float16[a,b,4] r, float16[4] s) => (float16[a,b,4] y) "
            "{ y = com.microsoft.SkipSimplifiedLayerNormalization <epsilon = 0.001> (x, r, s) }",
            "{ a = Add(x, r) y = SimplifiedLayerNormalization <axis = -1, epsilon = 0.001> (a, "
            "s) }",
        ),
    )
