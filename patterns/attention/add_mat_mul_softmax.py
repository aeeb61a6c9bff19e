from typing import Any

from onnx import TensorProto

from xoptim.match import EasyPatternOptimization, Example, GraphView, Match, PatternBuilder, PatternRewriter
from xoptim.match.trace import ANY, Constant, Symbol

from ._bias import is_last_axis, is_moderate, spreads_over_heads


class AddMatMulSoftmaxPattern(EasyPatternOptimization):
    """Softmax(q @ heads(x @ w + b)ᵀ + mask) → Softmax(q @ heads(x @ w)ᵀ + mask)

    What: drops the bias of the keys. With or without a mask, it adds one number to all scores of a query: Softmax ignores it.
    Why: saves one pass over the keys. It runs last, so that patterns that recognize attention match the bias.
    Refuses when:
    1. the Softmax is not along the last axis.
    2. a shape is unknown, or the bias differs along the axis of the keys.
    3. a weight or the bias is not finite, or not stored in the model itself, or the bias is large: its sums are rounded more.
    4. there is a mask in float16: a score added to the lowest number of 16 bits may be infinite without the bias.
    """

    phase = "target"
    priority = 9
    exactness = "rounding"
    min_opset = 13

    def match_pattern(
        self, g: PatternBuilder, x: Symbol, w: Constant, b: Constant, shape: Symbol, q: Symbol, mask: Symbol
    ) -> Symbol:
        # The heads are split before the keys are transposed, or after.
        keys = g.op.Add(g.op.MatMul(x, w), b)
        if g.option("early"):
            keys = g.op.Reshape(g.op.Transpose(keys, perm=[0, 2, 1]), shape, attributes=ANY)
        else:
            keys = g.op.Transpose(g.op.Reshape(keys, shape, attributes=ANY), perm=[0, 2, 3, 1])
        scores = g.op.MatMul(q, keys)
        return g.op.Softmax(g.op.Add(scores, mask) if g.option("masked") else scores, axis=g.capture("axis"))

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        softmax = m.nodes[-1]
        if not is_last_axis(g, softmax, m.axis):  # (1)
            return self.none(softmax, msg="the Softmax is not along the last axis")
        if m.masked and g.try_infer_type(m.mask) == TensorProto.FLOAT16:  # (4)
            return self.none(softmax, msg="the sum of a score and of a mask of 16 bits may be infinite")
        add, first, second = m.nodes[1:4]
        keys, split = g.try_infer_shape(second.output[0]), g.try_infer_shape(first.output[0])
        heads = None if keys is None or split is None else (keys[1:3] if m.early else split[2:])
        if heads is None or not spreads_over_heads(g, m.b, add.output[0], heads):  # (2)
            return self.none(add, msg="a shape is unknown, or the bias is not one number for each feature of a head")
        if m.early and (keys is None or split is None or len(keys) != 4 or keys[3] != split[2]):  # (2)
            return self.none(second, msg="the bias may differ along the axis of the keys")
        if not is_moderate(g, m.b, m.w):  # (3)
            return self.none(add, msg="the bias or a weight is not finite, or the bias is large")
        return True

    def apply_pattern(self, g: PatternRewriter, x: str, w: str, shape: str, q: str, mask: str | None, early: bool) -> Any:
        keys = g.op.MatMul(x, w)
        if early:
            keys = g.op.Reshape(g.op.Transpose(keys, perm=[0, 2, 1]), shape)
        else:
            keys = g.op.Transpose(g.op.Reshape(keys, shape), perm=[0, 2, 3, 1])
        scores = g.op.MatMul(q, keys)
        return g.op.Softmax(g.op.Add(scores, mask) if mask else scores, axis=-1)

    _given = "<float[3,4] w = {1, 2, 3, 4, 5, 4, 3, 2, 1, 0, 1, 2}"
    _late = "Reshape(k, s) t = Transpose <perm = [0, 2, 3, 1]> (r) m = MatMul(q, t) n = Add(m, mask) y = Softmax (n) }"
    _soon = "Transpose <perm = [0, 2, 1]> (k) t = Reshape(r, s) m = MatMul(q, t) y = Softmax <axis = -1> (m) }"
    _masked = "agraph (float[a,5,3] x, float[a,2,4,2] q, float[a,1,1,5] mask) => (float[a,2,4,5] y)"
    _plain = "agraph (float[a,5,3] x, float[a,2,4,2] q) => (float[a,2,4,5] y)"
    _sizes, _others = "int64[4] s = {0, 0, 2, 2}>", "int64[4] s = {-1, 2, 2, 5}>"
    _bias = "float[4] b = {1, 2, 0.5, 3}"
    examples = (
        Example(
            f"{_masked} {_given}, {_bias}, {_sizes} {{ p = MatMul(x, w) k = Add(p, b) r = {_late}",
            f"{_masked} {_given}, {_sizes} {{ k = MatMul(x, w) r = {_late}",
        ),
        Example(
            f"{_plain} {_given}, {_bias}, {_others} {{ p = MatMul(x, w) k = Add(b, p) r = {_soon}",
            f"{_plain} {_given}, {_others} {{ k = MatMul(x, w) r = {_soon}",
        ),
    )
