import numpy as np

from xoptim.match import (
    EasyPatternOptimization,
    Example,
    GraphView,
    Match,
    PatternBuilder,
    PatternRewriter,
    Symbol,
)

from .._shapes import expand_target, same_dims


class ShapeBasedExpandPattern(EasyPatternOptimization):
    """Expand(x, computed shape) → Expand(x, constant), or x

    What: writes 1 for dimensions that x keeps, and the size for broadcast dimensions. Drops an
    Expand that keeps the shape.
    Why: the nodes that compute the shape become unused.
    Refuses when:
    1. a shape is unknown, or a dimension is broadcast to a dynamic size.
    2. the shape is constant already, and a dimension is broadcast.
    """

    min_opset = 8
    former_names = ("Expand",)
    before = {"ExpandElementwise": "it may drop the Expand, whatever reads the result"}
    derives = ("target",)

    def match_pattern(self, g: PatternBuilder, x: Symbol, shape: Symbol) -> Symbol:
        return g.op.Expand(x, shape)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        source, result = g.try_infer_shape(m.x), g.try_infer_shape(m.outputs[0])
        if same_dims(source, result):
            return m.derive(target=None)
        if g.is_constant(m.shape):  # (2)
            return self.none(m.nodes[0], msg="the shape is constant already")
        target = None if source is None or result is None else expand_target(source, result)
        if target is None:  # (1)
            return self.none(
                m.nodes[0],
                msg=lambda: f"a shape is unknown, or {source} expands to dynamic {result}",
            )
        return m.derive(target=target)

    def apply_pattern(self, g: PatternRewriter, x: str, target: list[int] | None) -> str:
        return x if target is None else g.op.Expand(x, np.array(target, dtype=np.int64))

    examples = Example.pairs(
        "agraph (float[batch,2,1,seq] x) => (float[batch,2,4,seq] y) <int64[2] n = {2, 4}> { "
        "b = Shape <end = 1> (x) s = Shape <start = 3> (x) t = Concat <axis = 0> (b, n, s) "
        "y = Expand(x, t) }",
        "<int64[4] t = {1, 1, 4, 1}> { y = Expand(x, t) }",
        "agraph (float[a,b] x) => (float[a,b] y) { s = Shape(x) e = Expand(x, s) y = Neg(e) }",
        "{ y = Neg(x) }",
        "agraph (float[a,3] x) => (float[a,3] y) <int64[2] s = {1, 3}> { t = Expand(x, s) "
        "y = Relu(t) }",
        "{ y = Relu(x) }",
    )
