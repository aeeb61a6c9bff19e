import numpy as np
from onnx import TensorProto

from xoptim.facts.dtypes import numpy_dtype
from xoptim.match import Example, GraphView, Match, PatternBuilder, PatternRewriter, Symbol

from ._lowering import _Lowering

_MAX_ELEMENTS = 1 << 20
"""Maximum number of elements of the constant."""


class LowerEyeLikePattern(_Lowering):
    """EyeLike(x) → constant

    What: writes the matrix as a constant, since it depends on the shape of ``x`` alone.
    Why: several providers have no kernel of EyeLike.
    Refuses when:
    1. the shape is not static, or the matrix has more than a million elements.
    2. the type is unknown, or of strings.
    """

    exactness = "exact"
    min_opset = 9
    derives = ("matrix",)

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        return g.op.EyeLike(x, k=g.capture("k"), dtype=g.capture("dtype", optional=True))

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        shape = g.static_shape(m.x)
        if shape is None or len(shape) != 2 or shape[0] * shape[1] > _MAX_ELEMENTS:  # (1)
            return self.none(m.nodes[0], msg="the shape is not static, or is large")
        dtype = m.dtype or g.try_infer_type(m.x)
        if dtype in (0, TensorProto.STRING):  # (2)
            return self.none(m.nodes[0], msg="the type is unknown, or of strings")
        return m.derive(matrix=np.eye(*shape, m.k).astype(numpy_dtype(dtype)))

    def apply_pattern(self, g: PatternRewriter, matrix: np.ndarray) -> str:
        return g.make_initializer("eye", matrix)

    examples = Example.pairs(
        "agraph (float[2,3] x) => (float[2,3] y) { t = EyeLike <k = 1> (x) y = Add(x, t) }",
        "<float[2,3] t = {0, 1, 0, 0, 0, 1}> { y = Add(x, t) }",
        "agraph (float[2,2] x, int64[2] z) => (int64[2,2] y) { t = EyeLike <dtype = 7> (x) "
        "y = Mul(t, z) }",
        "<int64[2,2] t = {1, 0, 0, 1}> { y = Mul(t, z) }",
    )
