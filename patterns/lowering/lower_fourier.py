"""Fourier transforms, by matrices of cosines and sines."""

from typing import Any, Final

import numpy as np
from onnx import TensorProto

from xoptim.match import Example, GraphView, Match, PatternBuilder, PatternRewriter, Symbol
from xoptim.match.trace import Optional, Variadic

from .._folding import Array, doubles
from ._flat import reshape_or_none
from ._lowering import _Lowering

_MAX_ELEMENTS: Final = 1 << 22
"""Maximum number of elements of a matrix, which then takes 16 MB."""
_AXIS_IS_OPERAND: Final = 20
"""The operator set from which the axis of DFT is an operand, -2 by default."""
_COMPLEX: Final = (1, 2)
"""Lengths of the last axis: 1 for real numbers, 2 for complex numbers."""


class _LowerFourier(_Lowering):
    """A Fourier transform of a constant length.

    Why: most runtimes lack the operator.
    """

    exactness = "finite"  # the matrices multiply infinity by 0
    min_opset = 17


class LowerDFTPattern(_LowerFourier):
    """DFT(x) → Reshape(MatMul(Reshape(x), matrix))

    What: multiplies the real and imaginary parts along the axis by a matrix of cosines and sines.
    Samples beyond `dft_length` have rows of zeros.
    Refuses when:
    1. the type is not float32 (checked by the matcher).
    2. the axis, its size or `dft_length` is not known, or x is not known to hold real or complex
       numbers.
    3. the inverse gives real numbers (`onesided`), or complex numbers are transformed one-sided.
    4. the matrix would have more than 4 million elements, or a Reshape would need sizes at run
       time.
    """

    operand_types = {"x": frozenset((TensorProto.FLOAT,))}  # (1)
    derives = ("matrix", "perm", "shapes")

    def match_pattern(self, g: PatternBuilder, x: Symbol, others: Variadic) -> Symbol:
        return g.op.DFT(x, others, attributes=g.capture("written"))

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        node, shape = m.nodes[0], g.try_infer_shape(m.x) or ()
        operands = dict(zip(("length", "axis"), m.others, strict=False))
        axis = m.written.get("axis", 1 if g.main_opset < _AXIS_IS_OPERAND else -2)
        if operands.get("axis"):
            axis = g.get_constant_scalar(operands["axis"])
        rank = len(shape)
        if rank < 3 or not isinstance(axis, int) or shape[-1] not in _COMPLEX:  # (2)
            return self.none(node, msg="the axis or the kind of the numbers is unknown")
        axis %= rank
        size = shape[axis]
        length = g.get_constant_scalar(operands["length"]) if operands.get("length") else size
        if axis == rank - 1 or not isinstance(size, int) or not isinstance(length, int):  # (2)
            return self.none(node, msg="the size of the axis or dft_length is unknown")
        parts, is_inverse = int(str(shape[-1])), bool(m.written.get("inverse"))
        onesided = bool(m.written.get("onesided"))
        if onesided and (is_inverse or parts > 1):  # (3)
            return self.none(node, msg="the transform is one-sided, and inverse or complex")
        bins = length // 2 + 1 if onesided else length
        if not 0 < size * parts * bins * 2 <= _MAX_ELEMENTS or length < 1:  # (4)
            return self.none(node, msg="the matrix would be too large")
        matrix = _matrix(size, length, bins, parts, is_inverse=is_inverse)
        perm = [*(a for a in range(rank - 1) if a != axis), axis, rank - 1]
        moved = tuple(shape[a] for a in perm)
        shapes = (
            reshape_or_none(g, moved, (*moved[:-2], size * parts)),
            reshape_or_none(g, (*moved[:-2], bins * 2), (*moved[:-2], bins, 2)),
        )
        return m.derive(matrix=matrix, perm=perm, shapes=shapes)

    def apply_pattern(
        self, g: PatternRewriter, x: str, matrix: Array, perm: list[int], shapes: Any, **_: Any
    ) -> str:
        is_last = perm == sorted(perm)
        moved = x if is_last else g.op.Transpose(x, perm=perm)
        spectrum = g.op.MatMul(g.op.Reshape(moved, shape=shapes[0]), matrix)
        result = g.op.Reshape(spectrum, shape=shapes[1])
        return result if is_last else g.op.Transpose(result, perm=np.argsort(perm).tolist())

    examples = Example.pairs(
        "agraph (float[b,3,1] x) => (float[b,2,2] y) { y = DFT <onesided = 1> (x) }",
        "<int64[2] a = {0, 3}, float[3,4] b = {1, -0, 1, -0, 1, -0, -0.5, -0.8660254, 1, -0, -0.5, "
        "0.8660254}, int64[3] c = {0, 2, 2}> { d = Reshape(x, a) e = MatMul(d, b) y = Reshape(e, "
        "c) }",
        "agraph (float[2,b,2] x) => (float[2,b,2] y) { y = DFT <axis = 0, inverse = 1> (x) }",
        "<int64[2] a = {0, 4}, float[4,4] b = {0.5, 0, 0.5, 0, -0, 0.5, -0, 0.5, 0.5, 0, -0.5, "
        "6.123234e-17, -0, 0.5, -6.123234e-17, -0.5}, int64[3] c = {0, 2, 2}> { d = Transpose "
        "<perm = [1, 0, 2]> (x) e = Reshape(d, a) f = MatMul(e, b) g = Reshape(f, c) y = Transpose "
        "<perm = [1, 0, 2]> (g) }",
        opset=17,
    )


class LowerSTFTPattern(_LowerFourier):
    """STFT(x, step, window) → Reshape(Transpose(Conv(x, matrix · window)))

    What: writes one Conv with a stride of `frame_step`. Its weights are the cosines and sines of
    each frequency, multiplied by the window.
    Refuses when:
    1. the type is not float32 (checked by the matcher).
    2. the step, the window or the length of a frame is not constant. Or the window has another
       length or is not finite.
    3. x is not known to be a batch of real or complex signals.
    4. complex numbers are transformed one-sided.
    5. the weights would have more than 4 million elements.
    """

    operand_types = {"x": frozenset((TensorProto.FLOAT,))}  # (1)
    derives = ("weights", "stride", "bins")

    def match_pattern(
        self, g: PatternBuilder, x: Symbol, step: Symbol, window: Optional, length: Optional
    ) -> Symbol:
        return g.op.STFT(x, step, window, length, onesided=g.capture("onesided", optional=True))

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        node, shape = m.nodes[0], g.try_infer_shape(m.x) or ()
        step = g.get_constant_scalar(m.step)
        window = doubles(g, m.window) if m.window else None
        stated = g.get_constant_scalar(m.length) if m.length else None
        length = stated if m.length else None if window is None else window.size
        if not isinstance(step, int) or not isinstance(length, int) or min(step, length) < 1:  # (2)
            return self.none(node, msg="the step or the length of a frame is not constant")
        if window is not None and window.shape != (length,):  # (2)
            return self.none(node, msg="the window does not have the length of a frame")
        if window is not None and not np.isfinite(window).all():  # (2)
            return self.none(node, msg="the window is infinite or NaN")
        if len(shape) != 3 or shape[2] not in _COMPLEX:  # (3)
            return self.none(node, msg="the signals are not known to be real or complex")
        parts, onesided = int(str(shape[2])), m.onesided != 0
        if onesided and parts > 1:  # (4)
            return self.none(node, msg="complex signals are transformed one-sided")
        bins = length // 2 + 1 if onesided else length
        if length * parts * bins * 2 > _MAX_ELEMENTS:  # (5)
            return self.none(node, msg="the weights would be too large")
        matrix = _matrix(length, length, bins, parts, is_inverse=False, window=window)
        weights = matrix.reshape(length, parts, bins * 2).transpose(2, 1, 0)
        return m.derive(weights=np.ascontiguousarray(weights), stride=step, bins=bins)

    def apply_pattern(
        self, g: PatternRewriter, x: str, weights: Array, stride: int, bins: int, **_: Any
    ) -> str:
        signals = g.op.Transpose(x, perm=[0, 2, 1])
        frames = g.op.Transpose(g.op.Conv(signals, weights, strides=[stride]), perm=[0, 2, 1])
        return g.op.Reshape(frames, shape=[0, 0, bins, 2])

    examples = Example.pairs(
        "agraph (float[b,n,1] x) => (float[b,f,2,2] y) <int64 k = {2}, float[3] w = {0.5, 1, "
        "0.25}> { y = STFT(x, k, w) }",
        "<float[4,1,3] a = {0.5, 1, 0.25, -0, -0, -0, 0.5, -0.5, -0.125, -0, -0.8660254, "
        "0.21650635}, int64[4] b = {0, 0, 2, 2}> { c = Transpose <perm = [0, 2, 1]> (x) d = Conv "
        "<strides = [2]> (c, a) e = Transpose <perm = [0, 2, 1]> (d) y = Reshape(e, b) }",
        opset=17,
    )


def _matrix(
    size: int,
    length: int,
    bins: int,
    parts: int,
    *,
    is_inverse: bool,
    window: Array | None = None,
) -> Array:
    """The matrix that transforms ``size`` samples into ``bins`` frequencies.

    The shape is (size · parts, bins · 2), and the type float32. Samples have ``parts`` parts, and
    frequencies a real and an imaginary part. The transform has ``length`` samples: further samples
    have rows of zeros. A window, if any, multiplies the samples.
    """
    samples, frequencies = np.arange(size)[:, None], np.arange(bins)
    # The product is taken modulo the length, so that the angle keeps its digits.
    angle = 2 * np.pi * (samples * frequencies % length) / length
    cosine, sine = np.cos(angle), np.sin(angle) * (1 if is_inverse else -1)
    factor = (np.arange(size) < length) / (length if is_inverse else 1)
    factor = factor if window is None else factor * window
    real = np.stack([cosine, sine], axis=-1)
    imaginary = np.stack([-sine, cosine], axis=-1)
    rows = np.stack([real, imaginary][:parts], axis=1) * factor[:, None, None, None]
    return rows.reshape(size * parts, bins * 2).astype(np.float32)
