from functools import partial
from typing import Final, NamedTuple

import numpy as np
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

from .._bits import packed
from .._folding import Array
from .._nodes import axis_of, is_op, permutation

_BITS: Final[dict[int, int]] = {
    TensorProto.INT4: 4,
    TensorProto.UINT4: 4,
    TensorProto.INT8: 8,
    TensorProto.UINT8: 8,
}
_MAX_SCALE: Final = 2.0**100
"""The largest float32 scale: all weights are finite."""
_MAX_HALF_SCALE: Final = 2.0**7
"""The largest float16 scale: all weights are finite in float16."""
_SIGNED: Final = (TensorProto.INT4, TensorProto.INT8)


class _Weights(NamedTuple):
    """Block-wise quantized weights, with a row for each column of the MatMul.

    Attributes:
        integers: unsigned, of shape (columns, terms).
        scales: of shape (columns, blocks).
        zeros: zero points, in the shape of the scales; ``None`` for 2^(bits - 1), the default.
        bits: bits of an integer.
        block: number of terms of a block.
    """

    integers: Array
    scales: Array
    zeros: Array | None
    bits: int
    block: int


class MatMulNBitsPattern(PatternOptimization):
    """MatMul(x, DequantizeLinear(w, s, z, block_size=b)) → com.microsoft.MatMulNBits(x, w, s, z)

    What: dequantizes 4-bit or 8-bit weights block by block during a MatMul in float32 or float16. A
    Transpose may follow the DequantizeLinear. A Gemm becomes the operator and an Add.
    Why: the original dequantizes all weights at each run. With ORT graph optimizations disabled,
    one thread takes 0.15 of the time for one row, and 0.51 for 128 rows (768 by 768). With them, it
    takes 0.84 for 128 rows, but 2.27 for one row: onnxruntime then fuses the same operator with
    `accuracy_level` 4. This level quantizes x to 8 bits and changes results by about 1 %. So the
    pattern is in no preset.
    Refuses when:
    1. a Gemm has alpha, beta, transA or transB set. Or the weights are not a constant matrix in
       complete blocks of 16, 32, 64, ... terms along the summed axis.
    2. scales or zero points are not constant, or so large that a weight might not be finite. Or the
       types are not float32 or float16, and 4-bit or 8-bit integers.
    3. the weights have other consumers: they would be stored twice.
    4. the provider has no kernel, or x is not known to have at least two axes.
    """

    phase = "target"
    exactness = "rounding"
    min_opset = 21
    produces = ("com.microsoft",)
    providers = ("cpu", "webgpu", "cuda")
    tags = ("onnxruntime", "extra")
    anchors = ("MatMul", "Gemm")
    near = ("DequantizeLinear", "Transpose")

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        if is_op(node, "Gemm") and not _is_plain(node):  # (1)
            return self.none(node, msg="the Gemm has alpha, beta, transA or transB set")
        x, name = node.input[:2]
        producer = g.node_before(name)
        is_transposed = is_op(producer, "Transpose")
        if (
            is_op(producer, "Transpose")
            and permutation(g, producer) == [1, 0]
            and g.is_exclusive(name)
        ):
            name = producer.input[0]
            producer = g.node_before(name)
        if not is_op(producer, "DequantizeLinear"):
            return self.none(node, msg="the weights are not the result of a DequantizeLinear")
        if not g.is_exclusive(name) or len(g.next_nodes(producer.input[0])) != 1:  # (3)
            return self.none(producer, msg="the weights have other consumers")
        weights = _weights(g, producer, 1 if is_transposed else 0)
        if weights is None:  # (1) (2)
            return self.none(
                producer, msg="the weights are not constant and block-wise along the summed axis"
            )
        rank = g.info(x).rank
        dtype = TensorProto.FLOAT16 if weights.scales.dtype == np.float16 else TensorProto.FLOAT
        if rank is None or rank < 2 or g.try_infer_type(x) != dtype:  # (2) (4)
            return self.none(
                node, msg="the input may be a vector, or does not have the type of the scales"
            )
        if not runs(g, "MatMulNBits", x, "com.microsoft"):  # (4)
            return self.none(node, msg="no kernel for this element type")
        return MatchResult(self, [node], partial(self._pack, weights))

    def _pack(self, weights: _Weights, g: PatternRewriter, node: Node) -> list[Node]:
        columns, terms = weights.integers.shape
        blocks = packed(weights.integers.reshape(-1, weights.block), weights.bits).reshape(
            columns, terms // weights.block, -1
        )
        arrays = [blocks, weights.scales]
        if weights.zeros is not None:
            arrays.append(packed(weights.zeros, weights.bits))
        names = ("weights", "scales", "zero_points")
        stored = [
            g.make_initializer("", array, source=name)
            for name, array in zip(names, arrays, strict=False)
        ]
        sizes = {"N": columns, "K": terms, "bits": weights.bits, "block_size": weights.block}
        bias = node.input[2] if len(node.input) > 2 else ""
        result = g.unique_name(node.output[0]) if bias else node.output[0]
        matmul = g.make_node(
            "MatMulNBits", [node.input[0], *stored], [result], domain="com.microsoft", **sizes
        )
        return [matmul, g.make_node("Add", [result, bias], node.output)] if bias else [matmul]

    _ones = ", ".join(["1"] * 16)
    _more = ", ".join(["129"] * 16)
    examples = (
        *Example.only(
            f"agraph (float[n,16] x) => (float[n,1] y) <int8[16,1] w = {{{_ones}}}, "
            "float[1,1] s = {0.5}> { d = DequantizeLinear <axis = 0, block_size = 16> (w, s) "
            "y = MatMul(x, d) }",
            f"<uint8[1,1,16] w = {{{_more}}}, float[1,1] s = {{0.5}}> {{ "
            "y = com.microsoft.MatMulNBits <K = 16, N = 1, bits = 8, block_size = 16> (x, w, s) }",
            opset=21,
        ),
        # ONNX text has the bits of float16 numbers: 14336 is 0.5.
        *Example.only(
            f"agraph (float16[n,16] x, float16[1] b) => (float16[n,1] y) "
            f"<int8[16,1] w = {{{_ones}}}, float16[1,1] s = {{14336}}> {{ "
            "d = DequantizeLinear <axis = 0, block_size = 16> (w, s) y = Gemm(x, d, b) }",
            f"<uint8[1,1,16] w = {{{_more}}}, float16[1,1] s = {{14336}}> {{ "
            "p = com.microsoft.MatMulNBits <K = 16, N = 1, bits = 8, block_size = 16> (x, w, s) "
            "y = Add(p, b) }",
            opset=21,
        ),
    )


def _is_plain(node: Node) -> bool:
    """Whether a Gemm computes x · w + b."""
    factors = [node.get_attribute(name, 1.0) for name in ("alpha", "beta")]
    transposes = [node.get_attribute(name, 0) for name in ("transA", "transB")]
    return factors == [1.0, 1.0] and not any(transposes)


def _weights(g: GraphView, node: Node, axis: int) -> _Weights | None:
    """The weights that a DequantizeLinear reads, if MatMulNBits can hold them."""
    block, dtype = node.get_attribute("block_size"), g.try_infer_type(node.input[0])
    integers, scales = (g.get_computed_constant(name) for name in node.input[:2])
    zero_points = node.input[2] if len(node.input) > 2 else ""
    zeros = g.get_computed_constant(zero_points)
    if integers is None or integers.ndim != 2 or axis_of(g, node) != axis or dtype not in _BITS:
        return None
    if (
        not block
        or block < 16
        or block & (block - 1)
        or integers.shape[axis] % block
        or not integers.size
    ):
        return None
    if (
        scales is None
        or scales.dtype not in (np.float32, np.float16)
        or (zero_points and zeros is None)
        or node.get_attribute("output_dtype")
    ):
        return None
    max_scale = _MAX_SCALE if scales.dtype == np.float32 else _MAX_HALF_SCALE
    if not (np.abs(scales.astype(np.float32)) <= max_scale).all():  # NaN fails the comparison
        return None
    middle = 1 << (_BITS[dtype] - 1)
    shift = middle if dtype in _SIGNED else 0
    if zeros is None and not shift:
        zeros = np.zeros(scales.shape, np.int64)

    def rows(array: Array) -> Array:
        unsigned = (array.astype(np.int64) + shift).astype(np.uint8)
        return unsigned if axis else unsigned.T

    zero_rows = (
        None if zeros is None or (zeros.astype(np.int64) + shift == middle).all() else rows(zeros)
    )
    return _Weights(rows(integers), scales if axis else scales.T, zero_rows, _BITS[dtype], block)
