import numpy as np
from onnx import TensorProto

from xoptim.facts.dtypes import numpy_dtype
from xoptim.match import Example, GraphView, Match, PatternBuilder, PatternRewriter, Symbol, runs
from xoptim.match.trace import Optional

from ._lowering import _Lowering


class LowerTriluPattern(_Lowering):
    """Trilu(x, k) → Where(mask, x, 0)

    What: selects the triangle with a constant mask. The same for com.microsoft.Trilu. (A product
    with the mask would keep NaN outside of the triangle.)
    Why: several providers have no kernel of Trilu.
    Refuses when:
    1. the last two axes are not static, or the diagonal is not constant.
    2. the type is unknown, or of strings, or the provider has no kernel of Where for the type.
    """

    exactness = "rounding"
    min_opset = 14
    derives = ("mask", "zero")

    def match_pattern(self, g: PatternBuilder, x: Symbol, k: Optional) -> Symbol:
        domain = g.choice("domain", "", "com.microsoft")
        return g.op.Trilu(x, k, upper=g.capture("upper"), domain=domain)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        shape, diagonal = g.try_infer_shape(m.x), g.get_constant_scalar(m.k) if m.k else 0
        if shape is None or len(shape) < 2 or not isinstance(diagonal, int):  # (1)
            return self.none(m.nodes[0], msg="the rank is unknown, or the diagonal is not constant")
        rows, columns = shape[-2:]
        if not isinstance(rows, int) or not isinstance(columns, int):  # (1)
            return self.none(m.nodes[0], msg="the last two axes are not static")
        dtype = g.try_infer_type(m.x)
        if dtype in (0, TensorProto.STRING) or not runs(g, "Where", m.x):  # (2)
            return self.none(m.nodes[0], msg="no kernel of Where for this element type")
        distances = np.arange(columns)[None, :] - np.arange(rows)[:, None]
        mask = distances >= diagonal if m.upper else distances <= diagonal
        return m.derive(mask=mask, zero=np.zeros((), numpy_dtype(dtype)))

    def apply_pattern(self, g: PatternRewriter, x: str, mask: np.ndarray, zero: np.ndarray) -> str:
        return g.op.Where(mask, x, zero)

    examples = Example.pairs(
        "agraph (float[n,2,3] x) => (float[n,2,3] y) { y = Trilu(x) }",
        "<bool[2,3] m = {1, 1, 1, 0, 1, 1}, float o = {0}> { y = Where(m, x, o) }",
        "agraph (int64[2,2] x) => (int64[2,2] y) <int64 k = {-1}> { y = Trilu <upper = 0> (x, k) }",
        "<bool[2,2] m = {0, 0, 1, 0}, int64 o = {0}> { y = Where(m, x, o) }",
        "agraph (float[n,2,2] x) => (float[n,2,2] y) { y = com.microsoft.Trilu <upper = 0> (x) }",
        "<bool[2,2] m = {1, 0, 1, 1}, float o = {0}> { y = Where(m, x, o) }",
        "agraph (float16[n,2,2] x) => (float16[n,2,2] y) <int64 k = {1}> { y = Trilu(x, k) }",
        "<bool[2,2] m = {0, 1, 0, 0}, float16 o = {0}> { y = Where(m, x, o) }",
    )
