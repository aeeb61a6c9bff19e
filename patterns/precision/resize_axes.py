from typing import Any, Final

import numpy as np

from xoptim.match import (
    EasyPatternOptimization,
    Example,
    GraphView,
    Match,
    PatternBuilder,
    PatternRewriter,
)
from xoptim.match.trace import Optional, Symbol

_CROPPING: Final = "tf_crop_and_resize"


class ResizeAxesPattern(EasyPatternOptimization):
    """Resize(x, sizes=c, axes=(2, 3)) → Resize(x, sizes=Concat(Shape(x, 0, 2), c))

    What: writes scales or sizes for all axes instead of only the last axes.
    Why: onnxruntime 1.32 converts the layout around quantized convolutions to NHWC. It then
    permutes scales and sizes as if they had an element for each axis, and the model does not load,
    or the run fails.
    Refuses when:
    1. the rank is unknown, or the axes are not the last axes in order.
    2. the Resize crops, keeps the aspect ratio, or has neither constant scales nor sizes.
    """

    providers = ("cpu",)
    exactness = "exact"
    onnxruntime = "<1.33"
    min_opset = 18
    tags = ("extra",)
    derives = ("first", "factors")

    def match_pattern(
        self, g: PatternBuilder, x: Symbol, roi: Optional, scales: Optional, sizes: Optional
    ) -> Symbol:
        return g.op.Resize(
            x,
            roi,
            scales,
            sizes,
            axes=g.capture("axes"),
            keep_aspect_ratio_policy=g.any_of(None, "stretch"),  # (2)
            attributes=g.capture("attributes"),
        )

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        node, rank = m.nodes[0], g.get_rank(m.x) if g.has_rank(m.x) else None
        if rank is None or [axis % rank for axis in m.axes] != [
            *range(rank - len(m.axes), rank)
        ]:  # (1)
            return self.none(node, msg="the rank is unknown, or the axes are not the last ones")
        first = rank - len(m.axes)
        scales = g.get_computed_constant(m.scales) if m.scales else None
        factors = (
            None if scales is None or not scales.size else [1.0] * first + scales.ravel().tolist()
        )
        is_cropped = m.attributes.get("coordinate_transformation_mode") == _CROPPING
        has_sizes = bool(m.sizes) and g.info(m.sizes).rank == 1
        if is_cropped or (factors is None and not has_sizes):  # (2)
            return self.none(
                node, msg="the Resize crops, or has neither constant scales nor a list of sizes"
            )
        return m.derive(first=first, factors=factors)

    def apply_pattern(
        self,
        g: PatternRewriter,
        x: str,
        sizes: str,
        first: int,
        factors: list[float] | None,
        attributes: dict[str, Any],
    ) -> str:
        if factors is not None:
            return g.op.Resize(x, None, np.array(factors, np.float32), **attributes)
        if not first:
            return g.op.Resize(x, None, None, sizes, **attributes)
        all_sizes = g.op.Concat(g.op.Shape(x, end=first), sizes, axis=0)
        return g.op.Resize(x, None, None, all_sizes, **attributes)

    _image = "agraph (float[n,3,h,w] x) => (float[n,3,k,l] y)"
    examples = Example.pairs(
        f'{_image} <int64[2] c = {{8, 11}}> {{ y = Resize <axes = [2, 3], mode = "linear"> '
        "(x, , , c) }",
        f"{_image} <int64[2] c = {{8, 11}}> {{ s = Shape <end = 2> (x) "
        'z = Concat <axis = 0> (s, c) y = Resize <mode = "linear"> (x, , , z) }',
        f"{_image} <float[2] c = {{2, 3}}> {{ y = Resize <axes = [-2, -1]> (x, , c) }}",
        f"{_image} <float[4] c = {{1, 1, 2, 3}}> {{ y = Resize(x, , c) }}",
        "agraph (float[n,h] x, int64[2] c) => (float[k,l] y) { y = Resize <axes = [0, 1]> "
        "(x, , , c) }",
        "agraph (float[n,h] x, int64[2] c) => (float[k,l] y) { y = Resize(x, , , c) }",
        opset=18,
    )
