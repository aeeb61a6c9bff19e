"""MatMuls of a tensor by constant weights, in all forms that exporters and optimizers write."""

from collections.abc import Callable
from typing import ClassVar, NamedTuple

import numpy as np
from onnx import TensorProto

from xoptim.facts.operators import has_kernel
from xoptim.match import (
    ANY,
    EasyPatternOptimization,
    GraphView,
    Match,
    Node,
    Optional,
    PatternBuilder,
    PatternRewriter,
    Symbol,
)
from xoptim.match.block_rounding import Blocks, RoundedWeights
from xoptim.match.quantization import QuantizationPattern
from xoptim.operators.axes import permutation

from .._folding import Array, constant
from .._nodes import is_op
from .._pairs import pair_scales
from ._quantization import QuantizedMatrix, columns_to_int8, is_quantizable

COLUMN = (127, -3, 64, 5, -127, 90, 1, 0, -64, 33, 17, -80, 7, 100, -1, 2)
INTEGERS = ", ".join(f"{n}, {-n}" for n in COLUMN)
"""Two columns of int8 weights for examples; `WEIGHTS` are these integers times 1/2 and 1/4."""
WEIGHTS = ", ".join(f"{n / 2}, {-n / 4}" for n in COLUMN)
FEWEST_TERMS = 16
"""Minimum number of terms of a sum: with fewer, int8 was not measured to be faster."""


class WeightedMatMul(NamedTuple):
    """A MatMul of a tensor by a constant matrix.

    Attributes:
        weights: name of the matrix.
        is_transposed: whether the matrix is stored as (columns, terms).
        terms: number of terms of a sum (K).
        columns: number of columns of the result (N).
    """

    weights: str
    is_transposed: bool
    terms: int
    columns: int

    def matrix(self, g: GraphView) -> Array:
        """The matrix of shape (terms, columns)."""
        stored = constant(g, self.weights)
        return np.ascontiguousarray(stored.T) if self.is_transposed else stored

    def blocks(self, g: GraphView, rounded: RoundedWeights) -> Blocks:
        """The matrix as integers with a scale and a zero point for each block."""
        return rounded.of(self.weights, self.matrix(g), is_transposed=self.is_transposed)


def weighted_matmul(g: GraphView, node: Node) -> WeightedMatMul | None:
    """The MatMul by constant weights that a node computes.

    ``None`` unless it is float32, and without alpha, beta and transA.
    """
    x, name = node.input[:2]
    is_transposed = bool(node.get_attribute("transB", 0))
    producer = g.node_before(name)
    if is_op(producer, "Transpose") and permutation(g, producer) == [1, 0]:
        name, is_transposed = producer.input[0], not is_transposed
    shape, rank = g.static_shape(name), g.info(x).rank
    if not g.is_constant(name) or shape is None or len(shape) != 2 or rank is None or rank < 2:
        return None
    if g.is_constant(x):  # constant folding computes the MatMul
        return None
    scales = [node.get_attribute(key, 1.0) for key in ("alpha", "beta")]
    transposes = [node.get_attribute(key, 0) for key in ("transA", "transBatchA", "transBatchB")]
    if any(scale != 1.0 for scale in scales) or any(transposes):
        return None
    if any(g.try_infer_type(tensor) != TensorProto.FLOAT for tensor in (x, name)):
        return None
    return WeightedMatMul(name, is_transposed, shape[is_transposed], shape[not is_transposed])


class _QuantizedMatMul(QuantizationPattern, EasyPatternOptimization):
    """A MatMul whose operands are quantized. Refusals are numbered as in `Int8OperandsPattern`."""

    phase = "target"
    providers = ("cpu",)
    integers: ClassVar[tuple[int, ...]]
    """The integer types that are dequantized."""
    derives: ClassVar[tuple[str, ...]] = ("matmul",)

    def match_pattern(self, g: PatternBuilder, x: Symbol, w: Symbol, b: Optional) -> Symbol:
        forms: dict[str, Callable[[], Symbol]] = {
            "MatMul": lambda: g.op.MatMul(x, w),
            "Gemm": lambda: g.op.Gemm(x, w, b, attributes=ANY),
            "FusedMatMul": lambda: g.op.FusedMatMul(x, w, attributes=ANY, domain="com.microsoft"),
        }
        return forms[g.choice("operator", *forms)]()

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        node = m.nodes[0]
        matmul = weighted_matmul(g, node)
        if matmul is None:  # (1) (2)
            return self.none(
                node, msg="not a float32 MatMul by a constant matrix without alpha, beta and transA"
            )
        if not self.fits(matmul):  # (1)
            return self.none(
                node, msg=f"weights of {matmul.terms} rows and {matmul.columns} columns do not fit"
            )
        # (3)
        if not all(
            has_kernel(g.provider, "", "DequantizeLinear", dtype, g.main_opset)
            for dtype in self.integers
        ):
            return self.none(node, msg="no kernel of DequantizeLinear for the integer type")
        if not is_quantizable(constant(g, matmul.weights)):  # (1)
            return self.none(node, msg="a weight is not finite, or too large")
        return m.derive(matmul=matmul)

    def apply_pattern(self, g: PatternRewriter, x: str, b: str, matmul: WeightedMatMul) -> str:
        y = self.computed(g, x, matmul)
        return g.op.Add(y, b) if b else y

    def fits(self, matmul: WeightedMatMul) -> bool:
        """Whether weights of this shape can be quantized."""
        raise NotImplementedError

    def computed(self, g: PatternRewriter, x: str, matmul: WeightedMatMul) -> str:
        """The MatMul of quantized operands."""
        raise NotImplementedError


class _Int8MatMul(_QuantizedMatMul):
    """A MatMul whose operands are both quantized to 8 bits."""

    bits = 8
    quantizes_activations = True
    min_opset = 13
    tags = ("int8", "extra")
    integers = (TensorProto.INT8, TensorProto.UINT8)

    def fits(self, matmul: WeightedMatMul) -> bool:
        return matmul.terms >= FEWEST_TERMS

    def weights(self, g: PatternRewriter, matmul: WeightedMatMul) -> str:
        """The dequantized weights.

        The integers are stored in the layout of the float32 weights, so that a tied embedding can
        share them.
        """
        matrix = matmul.matrix(g)
        numbers = columns_to_int8(matrix, pair_scales(g, matrix))
        return g.op.DequantizeLinear(*stored_weights(g, matmul, numbers), axis=1)


def stored_weights(
    g: PatternRewriter, matmul: WeightedMatMul, numbers: QuantizedMatrix
) -> tuple[str, str]:
    """The integers of weights, stored in the layout of the float32 weights, and their scales."""
    integers, source = numbers.integers, matmul.weights
    if matmul.is_transposed:
        transposed = g.make_initializer("", np.ascontiguousarray(integers.T), source=source)
        name = g.op.Transpose(transposed, perm=[1, 0])
    else:
        name = g.make_initializer("", integers, source=source)
    return name, g.make_initializer("", numbers.scales, source=f"{source}_scales")
