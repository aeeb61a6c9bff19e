"""Embeddings: constant float32 matrices from which a Gather reads rows."""

from onnx import TensorProto

from xoptim.match import Constant, EasyPatternOptimization, GraphView, Match, PatternBuilder, Symbol
from xoptim.match.quantization import QuantizationPattern

from .._folding import constant
from ._quantization import is_quantizable

ROWS = 256
"""Minimum number of rows of an embedding."""


class _QuantizedEmbedding(QuantizationPattern, EasyPatternOptimization):
    """An embedding to quantize. Refusals are numbered as in `Int8EmbeddingPattern`."""

    phase = "target"
    providers = ("cpu",)
    derives = ("table",)

    def match_pattern(self, g: PatternBuilder, w: Constant, i: Symbol) -> Symbol:
        return g.op.Gather(w, i, axis=g.capture("axis"))

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        shape, node = g.static_shape(m.w), m.nodes[0]
        if shape is None or len(shape) != 2 or g.try_infer_type(m.w) != TensorProto.FLOAT:  # (1)
            return self.none(node, msg="the embedding is not a constant float32 matrix")
        if m.axis not in (0, -2) or shape[0] < ROWS or not self.fits(shape[1]):  # (1)
            return self.none(node, msg="not read by rows, few rows, or an unsupported row length")
        table = constant(g, m.w)
        if not is_quantizable(table):  # (1)
            return self.none(node, msg="a weight is not finite, or too large")
        return m.derive(table=table)

    def fits(self, columns: int) -> bool:
        """Whether rows of this length can be quantized."""
        raise NotImplementedError
