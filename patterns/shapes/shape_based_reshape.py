import numpy as np

from xoptim.match import (
    ANY,
    EasyPatternOptimization,
    Example,
    GraphView,
    Match,
    PatternBuilder,
    PatternRewriter,
    Symbol,
)

from .._deductions import reshapes_as_inferred
from .._shapes import inserted_ones, reshape_target


class ShapeBasedReshapePattern(EasyPatternOptimization):
    """Reshape(x, computed shape) → Reshape(x, constant), or Unsqueeze, or Squeeze

    What: writes sizes that are numbers as numbers, sizes of x in the same place as 0, and at most
    one other as -1. Where more sizes are unknown, but only axes of size 1 are added or removed,
    writes Unsqueeze or Squeeze.
    Why: the chain of Shape, Gather, Concat and similar operators that computes the shape is left
    without a reader.
    Refuses when:
    1. the shape is constant already.
    2. a shape is unknown, or two sizes are neither numbers nor copied.
    3. -1 would come next to a copied size that may be 0 at run time, because onnxruntime cannot
       solve for it then.
    4. a computed size may be 0 at run time: it would copy another size of x in its place.
    """

    min_opset = 5
    derives = ("target", "more", "fewer")

    def match_pattern(self, g: PatternBuilder, x: Symbol, shape: Symbol) -> Symbol:
        # ``allowzero`` is ignored: the inferred shape of the result covers it
        return g.op.Reshape(x, shape, attributes=ANY)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        if g.is_constant(m.shape):  # (1)
            return self.none(m.nodes[0], msg="the shape is constant already")
        if not reshapes_as_inferred(g, m.nodes[0]):  # (4)
            return self.none(
                m.nodes[0], msg="the target shape may contain a 0, which copies an input dimension"
            )
        # A declared shape is not enough: it may follow from a default that a caller overrides.
        source, result = g.try_infer_shape(m.x), g.infer(m.nodes[0])[0].shape
        if source is None or result is None:  # (2)
            return self.none(m.nodes[0], msg="a shape is unknown")
        target = reshape_target(
            g,
            source,
            result,
            [i for i, size in enumerate(g.info(m.shape).data or ()) if size == -1],
        )
        more, fewer = inserted_ones(source, result), inserted_ones(result, source)
        if target is None and more is None and fewer is None:  # (2) (3)
            return self.none(
                m.nodes[0], msg=lambda: f"a constant shape cannot express {result} for {source}"
            )
        return m.derive(target=target, more=more, fewer=fewer)

    def apply_pattern(
        self, g: PatternRewriter, x: str, target: list[int], more: list[int], fewer: list[int]
    ) -> str:
        if target is not None:
            return g.op.Reshape(x, np.array(target, dtype=np.int64))
        return g.op.Squeeze(x, axes=fewer) if more is None else g.op.Unsqueeze(x, axes=more)

    examples = Example.pairs(
        "agraph (float[batch,seq,6] x) => (float[batch,seq,2,3] y) <int64[2] heads = {2, 3}> "
        "{ s = Shape <end = 2> (x) t = Concat <axis = 0> (s, heads) y = Reshape(x, t) }",
        "<int64[4] t = {0, 0, 2, 3}> { y = Reshape(x, t) }",
        "agraph (float[a,b] x) => (float[c] y) { s = Shape <start = 0, end = 1> (x) "
        "u = Shape <start = 1, end = 2> (x) t = Mul(s, u) y = Reshape(x, t) }",
        "<int64[1] t = {-1}> { y = Reshape(x, t) }",
    )
