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
from .._shapes import same_dims


class UnsqueezeGatherReshapePattern(EasyPatternOptimization):
    """Reshape(Gather(Unsqueeze(x), i)) → Gather(x, i). The same for Squeeze(Gather(...)).

    What: gathers from the tensor without the new axes.
    Why: two nodes fewer. torch exports ``x[None, i]`` and the tokens of experts this way.
    Refuses when:
    1. a shape is unknown, or the Gather is along a new axis.
    2. the result is not known to have the shape of the new Gather.
    """

    interior = "keep"
    min_opset = 5
    derives = ("source_axis",)

    def match_pattern(self, g: PatternBuilder, x: Symbol, i: Symbol, target: Symbol) -> Symbol:
        gathered = g.op.Gather(g.op.Unsqueeze(x, axes=g.capture("axes")), i, axis=g.capture("axis"))
        if g.option("squeezed"):
            return g.op.Squeeze(gathered, axes=g.capture("dropped"))
        return g.op.Reshape(gathered, target, attributes=ANY)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        x_shape, i_shape, unsqueezed_shape = (
            g.try_infer_shape(m.x),
            g.try_infer_shape(m.i),
            g.try_infer_shape(m.nodes[0].output[0]),
        )
        # (1)
        if (
            x_shape is None
            or i_shape is None
            or unsqueezed_shape is None
            or m.axis % len(unsqueezed_shape) in {axis % len(unsqueezed_shape) for axis in m.axes}
        ):
            return self.none(
                m.nodes[1], msg="a shape is unknown, or the Gather is along a new axis"
            )
        rank = len(unsqueezed_shape)
        source_axis = m.axis % rank
        source_axis -= sum(axis % rank < source_axis for axis in m.axes)
        shape = (*x_shape[:source_axis], *i_shape, *x_shape[source_axis + 1 :])
        # (2)
        if not same_dims(shape, g.try_infer_shape(m.outputs[0])) or not reshapes_as_inferred(
            g, m.nodes[2]
        ):
            return self.none(m.nodes[2], msg="the result has another shape")
        return m.derive(source_axis=source_axis)

    def apply_pattern(self, g: PatternRewriter, x: str, i: str, source_axis: int) -> str:
        return g.op.Gather(x, i, axis=source_axis)

    examples = Example.only(
        "agraph (float[9,4] x, int64[n] i) "
        "=> (float[n,4] y) <int64[1] k = {0}, int64[2] t = {-1, 4}> { u = Unsqueeze(x, k) "
        "g = Gather <axis = 1> (u, i) y = Reshape(g, t) }",
        "{ y = Gather <axis = 0> (x, i) }",
        ranges=(("i", 0, 8),),
    )
