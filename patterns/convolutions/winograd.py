"""3x3 convolutions with fewer multiplications, by Winograd's algorithm."""

import math
from collections.abc import Sequence
from typing import Any, ClassVar, Final, NamedTuple

import numpy as np
from onnx import TensorProto

from xoptim.match import (
    EasyPatternOptimization,
    Example,
    GraphView,
    Match,
    PatternBuilder,
    PatternRewriter,
)
from xoptim.match.trace import Constant, Optional, Symbol

from .._folding import Array

_WINDOW_SIZE: Final = 3
"""Height and width of the window."""
_CHANNEL_BLOCK: Final = 16
"""Number of channels that onnxruntime's kernels process at once."""
_MIN_TILES: Final = 16
"""Minimum number of tiles. With fewer, reading the larger weights takes longer than the saved
multiplications.
"""
_MAX_ELEMENTS: Final = 1 << 24
"""Maximum number of transformed elements of an image, which take 64 MiB."""
_SMALL_POINT, _LARGE_POINT = math.sqrt(0.5), math.sqrt(2)
"""Points of interpolation near 1, which have the least rounding error. So do their negatives."""


class Transforms(NamedTuple):
    """The linear maps of Winograd's algorithm.

    A tile of m by m results reads n by n elements, n = m + 2.

    Attributes:
        elements: transforms the elements of a channel; (n², 1, n, n), weights of a convolution.
        weights: transforms the 3x3 weights of an input and an output channel; (n², 9).
        results: transforms the products, summed over the input channels, to results; (m², n²).
        ones: the products that give a tile of ones, to be multiplied by the bias; (n², 1).
    """

    elements: Array
    weights: Array
    results: Array
    ones: Array


def transforms(points: tuple[float, ...]) -> Transforms:
    """The maps for interpolation at ``points`` and at infinity.

    A convolution is a product of polynomials. It is computed from their values at n points: the
    n - 1 different numbers ``points``, and infinity.

    Sources: A. Lavin and S. Gray, *Fast Algorithms for Convolutional Neural Networks*, 2015; for
    any points, the construction of A. Toom and S. Cook. The maps are computed in float64 and
    rounded once.
    """
    x, count = np.array(points), len(points) + 1
    infinity = np.zeros((1, count))  # the row for the point at infinity
    infinity[0, -1] = 1
    results = np.vstack((np.vander(x, count - 2, increasing=True), infinity[:, 2:])).T
    roots = [np.delete(x, index) for index in range(count - 1)]  # all points but one
    factors = np.array([[np.prod(point - root)] for point, root in zip(x, roots, strict=True)])
    weights = np.vstack(
        (np.vander(x, _WINDOW_SIZE, increasing=True) / factors, infinity[:, -_WINDOW_SIZE:])
    )
    elements = np.vstack((*(np.append(np.poly(root)[::-1], 0) for root in roots), np.poly(x)[::-1]))
    # The products for a window that copies its middle element, in an image of ones.
    ones = weights[:, _WINDOW_SIZE // 2] * elements.sum(axis=1)
    return Transforms(
        np.kron(elements, elements).reshape(count**2, 1, count, count).astype(np.float32),
        np.kron(weights, weights).astype(np.float32),
        np.kron(results, results).astype(np.float32),
        np.kron(ones, ones).reshape(-1, 1).astype(np.float32),
    )


class _Tiling(NamedTuple):
    """The sizes of a convolution.

    Attributes:
        out: channels of the result.
        channels: channels of the operand.
        size: height and width of the operand.
        result: height and width of the result.
        tiles: number of tiles along height and width.
        pads: padding of the operand: top, left, bottom, right.
    """

    out: int
    channels: int
    size: Sequence[int]
    result: Sequence[int]
    tiles: Sequence[int]
    pads: Sequence[int]


class _Winograd(EasyPatternOptimization):
    """A 3x3 convolution, computed in tiles.

    Refuses when:
    1. the window is not 3x3, or the convolution has strides, dilations, groups or SAME padding.
    2. the size of the image is unknown, there are fewer than 16 tiles, or the transformed elements
       take more than 64 MiB.
    3. there are few channels, or their number is not a multiple of 16.
    4. the type is not float32.
    """

    phase = "target"
    min_opset = 7
    providers = ("cpu",)
    operand_types = {"x": {TensorProto.FLOAT}}  # (4)
    points: ClassVar[tuple[float, ...]]
    min_multiplications: ClassVar[int]
    """Minimum number of multiplications per transformed number.

    It is c · o / (c + o) for c input channels and o output channels.
    """

    derives = ("tiling",)

    def match_pattern(self, g: PatternBuilder, x: Symbol, w: Constant, b: Optional) -> Symbol:
        return g.op.Conv(x, w, b, attributes=g.capture("attributes"))

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        conv, image, weights = m.nodes[0], g.try_infer_shape(m.x), g.static_shape(m.w)
        # (1)
        if (
            weights is None
            or weights[2:] != (_WINDOW_SIZE, _WINDOW_SIZE)
            or not _moves_by_one(m.attributes)
        ):
            return self.none(
                conv,
                msg=(
                    "the window is not 3 by 3, or there are strides, dilations, groups or SAME "
                    "padding"
                ),
            )
        out, channels = weights[:2]
        # (3)
        if (
            out % _CHANNEL_BLOCK
            or channels % _CHANNEL_BLOCK
            or out * channels < self.min_multiplications * (out + channels)
        ):
            return self.none(
                conv, msg="there are too few channels, or their number is not a multiple of 16"
            )
        size = [dim for dim in (image or ())[2:] if isinstance(dim, int)]
        # auto_pad=VALID means no padding. onnxruntime rejects a Conv that also has pads.
        pads = (
            m.attributes.get("auto_pad", "NOTSET") == "NOTSET" and m.attributes.get("pads")
        ) or [0] * 4
        if len(size) != 2:  # (2)
            return self.none(conv, msg="the spatial dimensions are unknown")
        result = [
            dim + pads[axis] + pads[axis + 2] - _WINDOW_SIZE + 1 for axis, dim in enumerate(size)
        ]
        tiles = [-(-dim // (len(self.points) - 1)) for dim in result]
        if min(result) < 1 or math.prod(tiles) < _MIN_TILES:  # (2)
            return self.none(conv, msg="the image has too few tiles")
        elements = max(out, channels) * (len(self.points) + 1) ** 2 * math.prod(tiles)
        if elements > _MAX_ELEMENTS:  # (2)
            return self.none(conv, msg="the transformed image takes more than 64 MiB")
        return m.derive(tiling=_Tiling(out, channels, size, result, tiles, pads))

    def apply_pattern(self, g: PatternRewriter, x: str, w: str, b: str, tiling: _Tiling) -> str:
        # Transform, multiply, transform back, and drop the results of the last tiles that lie
        # outside the image.
        maps, tile = transforms(self.points), len(self.points) - 1
        out, channels, size, result, tiles, pads = tiling
        # A tile reads a square of ``span`` by ``span`` elements, and has as many pairs of points.
        span, point_pairs, count = tile + _WINDOW_SIZE - 1, len(maps.weights), math.prod(tiles)
        excess = [number * tile - dim for number, dim in zip(tiles, result, strict=True)]
        ends = [pads[0], pads[1], pads[2] + excess[0], pads[3] + excess[1]]
        planes = g.op.Reshape(x, [-1, 1, *size])
        elements = g.op.Conv(
            planes, maps.elements, kernel_shape=[span] * 2, strides=[tile] * 2, pads=ends
        )
        by_pair = g.op.Transpose(
            g.op.Reshape(elements, [-1, channels, point_pairs, count]), perm=[0, 2, 1, 3]
        )
        window = g.op.Transpose(g.op.Reshape(w, [-1, _WINDOW_SIZE**2]), perm=[1, 0])
        weights = g.op.Reshape(g.op.MatMul(maps.weights, window), [-1, channels, 1, 1])
        bias = g.op.Reshape(g.op.Mul(maps.ones, b), [-1]) if b else None
        grouped = g.op.Reshape(by_pair, [-1, point_pairs * channels, *tiles])
        products = g.op.Conv(grouped, weights, bias, group=point_pairs, kernel_shape=[1, 1])
        results = g.op.MatMul(maps.results, g.op.Reshape(products, [-1, point_pairs, out * count]))
        y = g.op.DepthToSpace(g.op.Reshape(results, [-1, tile**2 * out, *tiles]), blocksize=tile)
        return str(g.op.Slice(y, starts=[0, 0], ends=result, axes=[2, 3]) if any(excess) else y)


def _tile_example(points: Sequence[float], channels: int, size: tuple[int, int]) -> Example:
    """A convolution that keeps the size of an image, where the last tiles are incomplete.

    Its weights are sines of squares, which need few characters in the text of the example.
    """
    maps, tile = transforms(tuple(points)), len(points) - 1
    point_pairs, span = len(maps.weights), tile + _WINDOW_SIZE - 1
    height, width = (-(-dim // tile) for dim in size)  # in tiles
    excess = [height * tile - size[0], width * tile - size[1]]
    image = f"float[1,{channels},{size[0]},{size[1]}]"
    start = f"agraph ({image} x) => ({image} y)"
    weights = (
        f"float u = {{0}}, float l = {{{9 * channels**2}}}, float i = {{1}}, int64[4] s = "
        f"{{{channels}, {channels}, 3, 3}}"
    )
    sines = "r = Range(u, l, i) v0 = Mul(r, r) q = Sin(v0) w = Reshape(q, s)"
    targets = {
        "s0": (-1, 1, *size),
        "s1": (-1, channels, point_pairs, height * width),
        "s2": (-1, _WINDOW_SIZE**2),
        "s3": (-1, channels, 1, 1),
        "s4": (-1, point_pairs * channels, height, width),
        "s5": (-1, point_pairs, channels * height * width),
        "s6": (-1, tile**2 * channels, height, width),
        "z": (0, 0),
        "e": size,
        "a": (2, 3),
    }
    constants = [_literal(f"int64[{len(ints)}] {name}", ints) for name, ints in targets.items()]
    for name, array in {"k": maps.elements, "g": maps.weights, "m": maps.results}.items():
        constants.append(
            _literal(f"float[{','.join(map(str, array.shape))}] {name}", array.ravel().tolist())
        )
    conv = (
        f"strides = [{tile}, {tile}], pads = [1, 1, {1 + excess[0]}, {1 + excess[1]}], "
        f"kernel_shape = [{span}, {span}]"
    )
    nodes = (
        f"x0 = Reshape(x, s0) x1 = Conv <{conv}> (x0, k) x2 = Reshape(x1, s1) "
        "x3 = Transpose <perm = [0, 2, 1, 3]> (x2) w0 = Reshape(w, s2) "
        "wt = Transpose <perm = [1, 0]> (w0) w1 = MatMul(g, wt) w2 = Reshape(w1, s3) "
        f"x4 = Reshape(x3, s4) p = Conv <group = {point_pairs}, kernel_shape = [1, 1]> (x4, w2) "
        "f = Reshape(p, s5) h = MatMul(m, f) j = Reshape(h, s6) "
        f"v = DepthToSpace <blocksize = {tile}> (j) y = Slice(v, z, e, a)"
    )
    return Example(
        f"{start} <{weights}> {{ {sines} y = Conv <pads = [1, 1, 1, 1]> (x, w) }}",
        f"<{weights}, {', '.join(constants)}> {{ {sines} {nodes} }}",
    )


def _literal(declared: str, numbers: Sequence[float]) -> str:
    """An initializer in ONNX's textual syntax."""
    return f"{declared} = {{{', '.join(map(str, numbers))}}}"


def _moves_by_one(attributes: dict[str, Any]) -> bool:
    """Whether a convolution has stride 1, no dilation, one group, and explicit or no padding."""
    ones = all(step == 1 for name in ("strides", "dilations") for step in attributes.get(name, ()))
    return (
        ones
        and attributes.get("group", 1) == 1
        and attributes.get("auto_pad", "NOTSET") in ("NOTSET", "VALID")
    )


class ConvWinogradPattern(_Winograd):
    """Conv(x, w of 3 by 3) → DepthToSpace(A · Conv(B · x, G · w, group=16)) in tiles of 2 by 2

    What: Winograd's algorithm. For each tile and pair of channels, it needs 16 multiplications, the
    direct computation 36.
    Why: measured 0.6 to 0.9 of the time of onnxruntime's CPU kernel, although this kernel already
    runs at the peak speed of the processor. The transformed weights take 1.8 times the bytes. The
    option `max_growth` decides whether they are stored, or computed when a session starts.
    """

    after = {"ConvWinograd4x4": "wide tiles save more multiplications"}
    exactness = "finite"  # an infinite element makes all results of its tile NaN
    points = (0.0, 1.0, -1.0)
    min_multiplications = 96

    examples = (_tile_example(points, 192, (9, 7)),)


class ConvWinograd4x4Pattern(_Winograd):
    """Conv(x, w of 3 by 3) → DepthToSpace(A · Conv(B · x, G · w, group=36)) in tiles of 4 by 4

    What: Winograd's algorithm. For each tile and pair of channels, it needs 36 multiplications, the
    direct computation 144.
    Why: measured 0.4 to 0.9 of the time of onnxruntime's CPU kernel. Its relative error is about
    1e-6, five times the error of the direct computation. The transformed weights take 4 times the
    bytes. The option `max_growth` decides whether they are stored.
    """

    exactness = "approximate"  # an infinite element also makes all results of its tile NaN
    points = (0.0, _SMALL_POINT, -_SMALL_POINT, _LARGE_POINT, -_LARGE_POINT)
    min_multiplications = 40

    examples = (_tile_example(points, 80, (13, 16)),)
