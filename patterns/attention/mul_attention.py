from typing import Any

from xoptim.match import (
    EasyPatternOptimization,
    Example,
    GraphView,
    Match,
    PatternBuilder,
    PatternRewriter,
)
from xoptim.match.trace import Scalar, Symbol, Variadic

from .._folding import scaled
from .._shapes import broadcasts_to
from ._formula import WEIGHTS


class MulAttentionPattern(EasyPatternOptimization):
    """Attention(q · s, k, v) → Attention(q, k, v), the scale multiplied by s; q / s likewise

    What: moves the factor of the queries into the attribute ``scale``.
    Why: saves one pass over the queries. Exporters often multiply both queries and keys by the
    square root of the scale.
    Refuses when:
    1. the attribute ``scale`` is absent, and the head size, which gives its default, is unknown.
    2. the new scale is not a positive number within the range of the attribute, or s has more axes
       than q.
    3. the Attention also returns scores from before the Softmax.
    4. the provider has no kernel: onnxruntime then replaces the operator by its function body,
       which rounds the scale to float32.
    """

    phase = "specialize"
    priority = 1
    exactness = "rounding"
    min_opset = 23
    kernels = {"Attention": "q"}  # (4)
    derives = ("new_attributes",)

    def match_pattern(self, g: PatternBuilder, q: Symbol, s: Scalar, others: Variadic) -> Symbol:
        scaling = g.op.Div if g.option("division") else g.op.Mul
        return g.op.Attention(
            scaling(q, s),
            others,
            outputs=g.variadic("results"),
            attributes=g.capture("attributes"),
        )

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        attributes, shape = dict(m.attributes), g.try_infer_shape(m.q)
        if (scale := attributes.pop("scale", None)) is None:
            features = shape[-1] if shape else None
            heads = attributes.get("q_num_heads", 1) if shape and len(shape) == 3 else 1
            size = features // heads if isinstance(features, int) and heads > 0 else 0
            if size <= 0:  # (1)
                return self.none(m.nodes[1], msg="the head size is unknown")
            scale = size**-0.5
        scale = scaled(g, m.q, scale, m.s, division=m.division)
        if scale <= 0 or not broadcasts_to(g, m.s, m.q):  # (2)
            return self.none(m.nodes[0], msg="the scale is not a positive scalar, or adds axes")
        # (3)
        if any(m.results[3:]) and attributes.get("qk_matmul_output_mode") != WEIGHTS:
            return self.none(
                m.nodes[1], msg="the Attention also returns scores from before the Softmax"
            )
        return m.derive(new_attributes={**attributes, "scale": scale})

    def apply_pattern(
        self,
        g: PatternRewriter,
        q: str,
        others: tuple[str, ...],
        results: tuple[str, ...],
        new_attributes: dict[str, Any],
    ) -> tuple[str, ...]:
        names = [name and g.unique_name("attention_out") for name in results]
        g.op.Attention(q, *others, outputs=names, **new_attributes)
        return tuple(names)

    _start = "agraph (float[b,2,3,4] q, float[b,2,5,4] k, float[b,2,5,6] v) => (float[b,2,3,6] y)"
    _shown = _start.replace("6] y)", "6] y, float[b,2,3,5] w)")
    examples = Example.pairs(
        f"{_start} <float two = {{2}}> {{ x = Mul(two, q) y = Attention(x, k, v) }}",
        "{ y = Attention <scale = 1.0> (q, k, v) }",
        f"{_start} <float two = {{2}}> {{ x = Div(q, two) y = Attention <scale = 0.5> (x, k, v) }}",
        "{ y = Attention <scale = 0.25> (q, k, v) }",
        f"{_shown} <float two = {{2}}> {{ x = Mul(two, q) "
        "y, , , w = Attention <qk_matmul_output_mode = 3> (x, k, v) }",
        "{ y, , , w = Attention <scale = 1.0, qk_matmul_output_mode = 3> (q, k, v) }",
        opset=23,
    )
