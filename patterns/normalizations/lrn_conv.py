import numpy as np
from onnx import TensorProto

from xoptim.facts.dims import is_nonzero
from xoptim.match import (
    EasyPatternOptimization,
    Example,
    GraphView,
    Match,
    PatternBuilder,
    PatternRewriter,
    Symbol,
)

from .._folding import Array


class LRNConvPattern(EasyPatternOptimization):
    """LRN(x, alpha=a, beta=0.75, bias=k, size=n) → x / t ** 0.75 with t = Conv(x², a / n, k) over n
    channels

    What: decomposes the operator, with t ** 0.75 as Sqrt(t) · Sqrt(Sqrt(t)).
    Why: measured 0.12 of the time of onnxruntime's CPU kernel of LRN, which takes half of the time
    of a GoogLeNet. (AveragePool instead of Conv takes longer, and from operator set 19 on ten times
    as long.)
    Refuses when:
    1. beta is not 0.75, t may be 0 or negative, or n is 1 or even.
    2. x is not a float32 tensor of rank 4, or a dimension may be 0.
    """

    phase = "target"
    exactness = "rounding"
    min_opset = 7
    providers = ("cpu",)
    tags = ("onnxruntime",)
    former_names = ("LRNAveragePool",)
    derives = ("weights", "offset")

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        # (1) Absent attributes have the defaults of the schema, which satisfy these conditions.
        alpha = g.capture("alpha", lambda value: value is None or 0 <= value <= 1, optional=True)
        bias = g.capture("bias", lambda value: value is None or value >= 0.01, optional=True)
        return g.op.LRN(
            x,
            size=g.capture("size", lambda n: n > 1 and n % 2),
            alpha=alpha,
            bias=bias,
            beta=g.any_of(None, 0.75),
        )

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        shape = g.try_infer_shape(m.x) or ()
        # (2)
        if (
            len(shape) != 4
            or not all(map(is_nonzero, shape[1:]))
            or g.try_infer_type(m.x) != TensorProto.FLOAT
        ):
            return self.none(
                m.nodes[0], msg="not a float32 tensor of rank 4, or a dimension may be 0"
            )
        weights = np.full(
            (1, 1, m.size, 1, 1), g.get_attribute(m.nodes[0], "alpha") / m.size, np.float32
        )
        return m.derive(
            weights=weights, offset=np.array([g.get_attribute(m.nodes[0], "bias")], np.float32)
        )

    def apply_pattern(
        self, g: PatternRewriter, x: str, size: int, weights: Array, offset: Array
    ) -> str:
        # LRN squares before it multiplies by a as well, so both overflow for the same numbers.
        squares = g.op.Unsqueeze(g.op.Mul(x, x), axes=[1])
        sums = g.op.Conv(
            squares, weights, offset, kernel_shape=[size, 1, 1], pads=[size // 2, 0, 0] * 2
        )
        root = g.op.Sqrt(g.op.Squeeze(sums, axes=[1]))
        return str(g.op.Div(x, g.op.Mul(root, g.op.Sqrt(root))))

    _start = "agraph (float[n,3,4,5] x) => (float[n,3,4,5] y)"
    _conv = "Conv <kernel_shape = [5, 1, 1], pads = [2, 0, 0, 2, 0, 0]> (u, w, k)"
    _weights = "float[1,1,5,1,1] w = {0.05, 0.05, 0.05, 0.05, 0.05}, float[1] k = {2}"
    _after = (
        f"<int64[1] i = {{1}}, {_weights}> {{ q = Mul(x, x) u = Unsqueeze(q, i) "
        f"m = {_conv} t = Squeeze(m, i) r = Sqrt(t) v = Sqrt(r) p = Mul(r, v) y = Div(x, p) }}"
    )
    examples = Example.only(
        f"{_start} {{ y = LRN <size = 5, alpha = 0.25, bias = 2.0> (x) }}", f"{_start} {_after}"
    )
