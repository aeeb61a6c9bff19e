"""Residual sums with a following normalization, as one contrib operator."""

from collections.abc import Sequence
from typing import ClassVar

from onnx import TensorProto

from xoptim.match import (
    EasyPatternOptimization,
    Example,
    GraphView,
    Match,
    PatternBuilder,
    PatternRewriter,
    runs,
)
from xoptim.match.trace import Optional, Symbol


class _SkipNormalization(EasyPatternOptimization):
    """A sum of two or three tensors and its normalization, as one `operator` of onnxruntime."""

    phase = "target"
    priority = 2
    exactness = "rounding"
    min_opset = 7
    produces = ("com.microsoft",)
    providers = ("cuda",)
    tags = ("onnxruntime",)
    operator: ClassVar[str]
    derives = ("alone",)

    def total(self, g: PatternBuilder, x: Symbol, skip: Symbol, added: Symbol) -> Symbol:
        """The sum, with its terms in any order; the sum may have other consumers."""
        return (
            g.op.Add(x, skip, added, associative=True) if g.option("biased") else g.op.Add(x, skip)
        )

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        rank = g.info(m.x).rank
        # (1)
        if rank not in (2, 3) or not self.adds(g, m.x, m.skip) or m.axis not in (-1, rank - 1):
            return self.none(
                m.nodes[0], msg="not a sum of two tensors of equal shape, of rank 2 or 3"
            )
        vectors = (m.scale, m.get("bias"), m.added if m.biased else "")
        if any(g.try_infer_shape(name) != g.get_shape(m.x)[-1:] for name in vectors if name):  # (2)
            return self.none(m.nodes[-1], msg="scale or bias is not a vector of the same length")
        # (3)
        if g.try_infer_type(m.x) == TensorProto.DOUBLE or not runs(
            g, self.operator, m.x, "com.microsoft"
        ):
            return self.none(m.nodes[-1], msg="no kernel for this element type")
        return m.derive(alone=g.is_exclusive(m.outputs[0]))

    def adds(self, g: GraphView, x: str, skip: str) -> bool:
        """Whether the operator adds a tensor to x."""
        return g.same_shape(x, skip)

    def fused(
        self, g: PatternRewriter, operands: Sequence[str | None], epsilon: float, alone: bool
    ) -> tuple[str | None, str]:
        """Write the operator; returns the sum (``None`` if ``alone``) and the normalized tensor.

        The fourth output is the sum, which is not needed without other consumers (``alone``). The
        second and third outputs are for training.
        """
        outputs = [g.unique_name("normalized"), "", "", g.unique_name("sum")]
        names = outputs[:1] if alone else outputs
        getattr(g.op, self.operator)(
            *operands, domain="com.microsoft", outputs=names, epsilon=epsilon
        )
        return (None if alone else outputs[3]), outputs[0]


class SkipLayerNormalizationPattern(_SkipNormalization):
    """LayerNormalization(x + skip [+ b], scale, bias) → com.microsoft.SkipLayerNormalization(x,
    skip, scale, bias, [b])

    What: one operator instead of two or three, which returns the sum as well.
    Why: one kernel launch instead of two or three. On the CPU, the operator takes 8 times as long,
    so the pattern is for CUDA only.
    Refuses when:
    1. the operands of the sum are not known to have the same shape of rank 2 or 3. (The batch
       dimension of one operand may be 1 or missing.) Or the normalization is not along the last
       axis.
    2. scale, bias or b are not vectors as long as the last axis.
    3. the provider has no kernel for the type.
    """

    operator = "SkipLayerNormalization"

    def adds(self, g: GraphView, x: str, skip: str) -> bool:
        """Accept a second tensor without batch dimension as well, such as position embeddings."""
        shape, skip_shape = g.try_infer_shape(x), g.try_infer_shape(skip)
        repeated = (
            shape is not None and len(shape) == 3 and skip_shape in (shape[1:], (1, *shape[1:]))
        )
        return repeated or super().adds(g, x, skip)

    def match_pattern(
        self,
        g: PatternBuilder,
        x: Symbol,
        skip: Symbol,
        added: Symbol,
        scale: Symbol,
        bias: Optional,
    ) -> tuple[Symbol, Symbol]:
        total = self.total(g, x, skip, added)
        return total, g.op.LayerNormalization(
            total, scale, bias, axis=g.capture("axis"), epsilon=g.capture("epsilon")
        )

    def apply_pattern(
        self,
        g: PatternRewriter,
        x: str,
        skip: str,
        scale: str,
        bias: str,
        added: str | None,
        epsilon: float,
        alone: bool,
    ) -> tuple[str | None, str]:
        return self.fused(g, (x, skip, scale, bias or None, added), epsilon, alone)

    _start = "agraph (float[a,b,4] x, float[a,b,4] r, float[4] s, float[4] c) =>"
    examples = Example.pairs(
        f"{_start} (float[a,b,4] y, float[a,b,4] z) {{ z = Add(x, r) "
        "y = LayerNormalization <epsilon = 0.001> (z, s, c) }",
        '{ y, "", "", z = com.microsoft.SkipLayerNormalization <epsilon = 0.001> (x, r, s, c) }',
        "agraph (float[a,4] x, float[a,4] r, float[4] s) "
        "=> (float[a,4] y) <float[4] b = {1, 2, 3, 4}> { t = Add(x, b) z = Add(t, r) "
        "y = LayerNormalization <epsilon = 0.001> (z, s) }",
        "<float[4] b = {1, 2, 3, 4}> { y = com.microsoft.SkipLayerNormalization <epsilon = 0.001>"
        ' (x, r, s, "", b) }',
        "agraph (float[a,b,4] x, float[1,b,4] r, float[4] s) => (float[a,b,4] y) "
        "{ z = Add(r, x) y = LayerNormalization <epsilon = 0.001> (z, s) }",
        "{ y = com.microsoft.SkipLayerNormalization <epsilon = 0.001> (x, r, s) }",
    )


class SkipSimplifiedLayerNormalizationPattern(_SkipNormalization):
    """RMSNormalization(x + skip [+ b], scale) → com.microsoft.SkipSimplifiedLayerNormalization(x,
    skip, scale, [b])

    What: one operator instead of two or three, which returns the sum as well. The same for
    SimplifiedLayerNormalization, an operator of onnxruntime.
    Why: one kernel launch instead of two or three. On the CPU, the operator takes twice as long, so
    the pattern is for CUDA only.
    Refuses when:
    1. the operands of the sum are not known to have the same shape of rank 2 or 3, or the
       normalization is not along the last axis.
    2. scale or b are not vectors as long as the last axis.
    3. the provider has no kernel for the type.
    """

    operator = "SkipSimplifiedLayerNormalization"

    def match_pattern(
        self, g: PatternBuilder, x: Symbol, skip: Symbol, added: Symbol, scale: Symbol
    ) -> tuple[Symbol, Symbol]:
        normalize = getattr(
            g.op, g.choice("normalization", "RMSNormalization", "SimplifiedLayerNormalization")
        )
        total = self.total(g, x, skip, added)
        return total, normalize(total, scale, axis=g.capture("axis"), epsilon=g.capture("epsilon"))

    def apply_pattern(
        self,
        g: PatternRewriter,
        x: str,
        skip: str,
        scale: str,
        added: str | None,
        epsilon: float,
        alone: bool,
    ) -> tuple[str | None, str]:
        return self.fused(g, (x, skip, scale, added), epsilon, alone)

    _start = "agraph (float[a,b,4] x, float[a,b,4] r, float[4] s) =>"
    examples = (
        Example(
            f"{_start} (float[a,b,4] y, float[a,b,4] z) {{ z = Add(x, r) "
            "y = RMSNormalization <epsilon = 0.001> (z, s) }",
            '{ y, "", "", z = com.microsoft.SkipSimplifiedLayerNormalization <epsilon = 0.001> (x,'
            " r, s) }",
            opset=23,
        ),
        Example(
            f"{_start} (float[a,b,4] y) <float[4] b = {{1, 2, 3, 4}}> {{ t = Add(x, b) "
            "z = Add(t, r) y = SimplifiedLayerNormalization <axis = -1, epsilon = 0.001> (z, s) }",
            "<float[4] b = {1, 2, 3, 4}> { "
            "y = com.microsoft.SkipSimplifiedLayerNormalization <epsilon = 0.001> (x, r, s, b) }",
        ),
    )
