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

from .._deductions import determined_target, reshapes_as_inferred
from .._shapes import inserted_ones, reshape_target


class ShapeBasedReshapePattern(EasyPatternOptimization):
    """Reshape(x, computed shape) → Reshape(x, constant), or Unsqueeze, or Squeeze

    What: writes static dimensions as numbers, dimensions of x at the same index as 0, and at most
    one other dimension as -1, since the others determine it. If more are dynamic, but only axes of
    size 1 are added or removed, writes Unsqueeze or Squeeze.
    Why: the nodes that compute the shape, such as Shape, Gather and Concat, become unused.
    Refuses when:
    1. the shape is constant already.
    2. a shape is unknown, or two dimensions are neither static nor copied.
    3. the target would have -1 and a copied dimension that may be 0 at run time: onnxruntime then
       cannot infer the -1.
    4. several computed dimensions may be 0 at run time: in the target, 0 copies a dimension of x.
    """

    min_opset = 5
    derives = ("target", "more", "fewer")

    def match_pattern(self, g: PatternBuilder, x: Symbol, shape: Symbol) -> Symbol:
        # ``allowzero`` needs no check, because the inferred shape of the result considers it.
        return g.op.Reshape(x, shape, attributes=ANY)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        if g.is_constant(m.shape):  # (1)
            return self.none(m.nodes[0], msg="the shape is constant already")
        determined = determined_target(g, m.nodes[0])
        if determined is not None:
            return m.derive(target=determined, more=None, fewer=None)
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
        "agraph (float[2,12] x, float[a,b] z) => (float[2,3,d] y) <int64[2] heads = {2, 3}> { "
        "u = Shape <start = 0, end = 1> (z) v = Shape <start = 1> (z) w = Sub(u, v) "
        "t = Concat <axis = 0> (heads, w) y = Reshape(x, t) }",
        "<int64[3] t = {2, 3, -1}> { y = Reshape(x, t) }",
    )
