from functools import partial

from onnx import TensorProto

from xoptim.match import (
    Example,
    GraphView,
    MatchResult,
    Node,
    PatternOptimization,
    PatternRewriter,
    runs,
)

from .._folding import Array
from .._masks import mask_of
from .._nodes import is_op
from .._shapes import uniform_value


class NonZeroScatterNDPattern(PatternOptimization):
    """ScatterND(x, Transpose(NonZero(m)), Expand(v)) → Where(m, v, x)

    What: assigns one number where a mask is true. The same for ConstantOfShape instead of Expand.
    torch exports ``x[m] = v`` this way. (The exactness is ``rounding``: onnxruntime's Where makes
    an assigned -0 positive.)
    Why: measured 0.08 of the time for 16 by 64 elements, 0.03 for 256 by 64.
    Refuses when:
    1. the indices are not all positions where a boolean mask is true, or reduction is set.
    2. the mask is not known to have the shape of x. (For a mask of rows, Where was measured to take
       0.6 to 1.4 times as long as ScatterND for 16 rows of 4096, and 0.9 to 3 times for 1024 rows
       of 64. The fewer rows the mask selects, the longer Where takes in comparison.)
    3. the updates are not one number for all positions.
    4. the provider has no kernel of Where for the type.
    """

    anchors = ("ScatterND",)
    min_opset = 11
    phase = "specialize"
    exactness = "rounding"

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        data, indices, updates = node.input
        mask = mask_of(g, indices)
        if mask is None or g.get_attribute(node, "reduction", "none") != "none":  # (1)
            return self.none(node, msg="not the positions of a mask, or reduction is set")
        shape, sizes = g.try_infer_shape(data), g.try_infer_shape(mask)
        if not sizes or shape != sizes:  # (2)
            return self.none(node, msg="the mask is not known to have the shape of the data")
        value, count = _number(g, updates), (g.try_infer_shape(indices) or ())[:1]
        if value is None or g.try_infer_shape(updates) != count:  # (3)
            return self.none(node, msg="the updates are not one number for all positions")
        if g.try_infer_type(mask) != TensorProto.BOOL or not runs(g, "Where", data):  # (1) (4)
            return self.none(node, msg="the mask is not boolean, or there is no kernel of Where")
        return MatchResult(self, [node], partial(_write, mask, value))

    examples = Example.pairs(
        "agraph (float[a,b] x, bool[a,b] m, float v) => (float[a,b] y) <int64[1] z = {0}, "
        "int64[1] o = {1}> { n = NonZero(m) i = Transpose(n) s = Shape(i) k = Slice(s, z, o) "
        "u = Expand(v, k) y = ScatterND(x, i, u) }",
        "{ y = Where(m, v, x) }",
        "agraph (float[a,b] x, bool[a,b] m) => (float[a,b] y) <int64[1] z = {0}, "
        "int64[1] o = {1}> { n = NonZero(m) i = Transpose(n) s = Shape(i) "
        "k = Slice(s, z, o) u = ConstantOfShape <value = float[1] {7}> (k) "
        "y = ScatterND(x, i, u) }",
        "<float v = {7}> { y = Where(m, v, x) }",
    )


def _number(g: GraphView, name: str) -> str | Array | None:
    """The name or the value of the number that all elements of a result are equal to."""
    node = g.node_before(name)
    if is_op(node, "Expand") and g.static_shape(node.input[0]) in ((), (1,)):
        return node.input[0]
    return uniform_value(g, name)


def _write(mask: str, value: str | Array, g: PatternRewriter, *nodes: Node) -> list[Node]:
    (scatter,) = nodes
    number = value if isinstance(value, str) else g.make_initializer("", value)
    return [g.make_node("Where", [mask, number, scatter.input[0]], scatter.output)]
