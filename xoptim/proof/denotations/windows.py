"""Operators whose results are computed from windows that move over an image."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from xoptim.facts.dims import Dim, ceil_div
from xoptim.facts.dtypes import is_float
from xoptim.proof.calls import Call, denotes, settled_tensor
from xoptim.proof.denotations.movement import number_of
from xoptim.proof.denotations.sums import collected, is_covered, marked, real
from xoptim.proof.elements import ONE, ZERO, Element, function, inverse, of_dim
from xoptim.proof.indices import CaseFacts, Unproved
from xoptim.proof.laws import power_of
from xoptim.proof.tensors import Indices, Tensor, require_equal, require_vector, total, where_inside

Compute = Callable[[Sequence[Dim], Sequence[Dim]], Element]
"""Takes the position in an image and the offset in the window."""


@dataclass(frozen=True, slots=True)
class Window:
    """A window over the spatial axes of an image; one number for each axis.

    ``low`` and ``high`` are the pads before and after the image. With ``reaches_beyond``, windows
    may reach beyond these pads, as under ``ceil_mode``.
    """

    kernel: Sequence[Dim]
    strides: Sequence[int]
    dilations: Sequence[int]
    low: Sequence[int]
    high: Sequence[int]
    reaches_beyond: bool = False

    def summed(
        self, case: CaseFacts, sizes: Sequence[Dim], start: Indices, compute: Compute
    ) -> Element:
        """The sum over all positions of the window that are in the image, for one result."""

        def along(axis: int, place: list[Dim], offset: list[Dim]) -> Element:
            if axis == len(self.kernel):
                return compute(place, offset)

            def at(k: Dim) -> Element:
                position = start[axis] * self.strides[axis] + k * self.dilations[axis]
                position = position - self.low[axis]
                last = sizes[axis] - 1 - position
                is_open = bool(self.high[axis]) or self.reaches_beyond
                conditions = [position] * bool(self.low[axis]) + [last] * is_open
                return where_inside(
                    case,
                    conditions,
                    lambda: along(axis + 1, [*place, position], [*offset, k]),
                    ZERO,
                )

            return total(case, self.kernel[axis], at)

        return along(0, [], [])


def window_of(call: Call, sizes: Sequence[Dim], kernel: Sequence[Dim]) -> Window | None:
    """The window of a node over an image of some sizes.

    ``None`` where the pads of ``SAME_UPPER`` or ``SAME_LOWER`` depend on symbolic sizes.
    """
    count = len(kernel)
    strides = list(call.attribute("strides") or [1] * count)
    dilations = list(call.attribute("dilations") or [1] * count)
    pads = list(call.attribute("pads") or [0] * 2 * count)
    auto = call.attribute("auto_pad", "NOTSET")
    if auto == "VALID":
        pads = [0] * 2 * count
    elif auto != "NOTSET":
        is_known = all(isinstance(size, int) for size in (*sizes, *kernel))
        if not is_known and not (
            all(isinstance(size, int) for size in kernel) and {*strides} == {1}
        ):
            return None
        needs = [
            _total_pad(*values) for values in zip(sizes, kernel, strides, dilations, strict=True)
        ]
        halves = [need // 2 for need in needs]
        rests = [need - half for need, half in zip(needs, halves, strict=True)]
        pads = [*halves, *rests] if auto == "SAME_UPPER" else [*rests, *halves]
    is_ceil = bool(call.attribute("ceil_mode", 0))
    return Window(kernel, strides, dilations, pads[:count], pads[count:], is_ceil)


def _total_pad(size: Dim, kernel: Dim, stride: int, dilation: int) -> int:
    """The pads along an axis with which a result has ``ceil(size / stride)`` elements."""
    assert isinstance(kernel, int)
    if stride == 1:
        return (kernel - 1) * dilation
    assert isinstance(size, int)
    count = ceil_div(size, stride)
    assert isinstance(count, int)
    return max((count - 1) * stride + (kernel - 1) * dilation + 1 - size, 0)


@denotes("Conv")
def conv(call: Call) -> Tensor | None:
    """Sums over the channels and positions of a kernel that moves over an image."""
    if not is_covered(call, 0, 1):
        return None
    bias = call.operand(2) if call.has(2) else None
    return convolved(call, call.operand(0), call.operand(1), bias)


def convolved(call: Call, x: Tensor, w: Tensor, bias: Tensor | None = None) -> Tensor | None:
    """The convolution of image ``x`` with kernel ``w`` under the attributes of a node."""
    case, groups, channels = call.case, call.attribute("group", 1), w.shape[1]
    window = window_of(call, x.shape[2:], w.shape[2:])
    if window is None:
        return None
    _require_kernel(call, x, w, bias, groups)

    def read(indices: Indices) -> Element:
        batch, channel, *start = indices
        base: Dim = 0
        if groups > 1:
            group, _ = case.divided(channel, _quotient(w.shape[0], groups))
            base = group * channels

        def at(place: Sequence[Dim], offset: Sequence[Dim]) -> Element:
            return total(
                case,
                channels,
                lambda c: x.at([batch, base + c, *place]) * w.at([channel, c, *offset]),
            )

        value = real(window.summed(case, x.shape[2:], tuple(start), at))
        return value if bias is None else value + real(bias.at([channel]))

    return Tensor((x.shape[0], w.shape[0], *call.shape()[2:]), x.dtype, read)


def _require_kernel(call: Call, x: Tensor, w: Tensor, bias: Tensor | None, groups: int) -> None:
    """Raise where the channels of an image, a kernel and a bias do not fit."""
    require_equal(x.shape[1], w.shape[1] * groups, or_one=False)
    if bias is not None:
        require_equal(bias.shape[0], w.shape[0], or_one=False)
    kernel = call.node.attribute.get("kernel_shape")
    if kernel is not None and tuple(kernel) != w.shape[2:]:
        raise Unproved("a kernel of another shape")


def _quotient(size: Dim, divisor: int) -> Dim:
    quotient = size // divisor
    require_equal(quotient * divisor, size, or_one=False)
    return quotient


@denotes("AveragePool")
def average_pool(call: Call) -> Tensor | None:
    """The mean of the positions of a window in the image; ``count_include_pad`` counts all."""
    kernel = call.attribute("kernel_shape")
    includes_pads = call.attribute("count_include_pad", 0)
    if not is_covered(call, 0) or not kernel or (includes_pads and call.attribute("ceil_mode", 0)):
        return None
    x = call.operand(0)
    window = window_of(call, x.shape[2:], kernel)
    if window is None:
        return None
    case, sizes = call.case, x.shape[2:]
    size = 1
    for number in kernel:
        size *= number

    def read(indices: Indices) -> Element:
        outer, start = indices[:2], indices[2:]
        value = window.summed(case, sizes, start, lambda place, _: real(x.at([*outer, *place])))
        count = of_dim(size)
        if not includes_pads:
            count = window.summed(case, sizes, start, lambda *_: ONE)
        return value * inverse(count)

    return Tensor(call.shape(), x.dtype, read)


@denotes("MaxPool")
def max_pool(call: Call) -> Tensor | None:
    """The maximum of the positions of a window that are in the image."""
    kernel = call.attribute("kernel_shape")
    if not is_covered(call, 0) or any(call.node.output[1:]):
        return None
    if not kernel or call.attribute("storage_order", 0):
        return None
    x = settled_tensor(call.operand(0))
    if (window := window_of(call, x.shape[2:], kernel)) is None:
        return None

    def read(indices: Indices) -> Element:
        outer, start = indices[:2], indices[2:]
        marked_sum = window.summed(
            call.case,
            x.shape[2:],
            start,
            lambda place, _: marked("ReduceMax", real(x.at([*outer, *place]))),
        )
        return function("ReduceMax", args=[marked_sum])

    return Tensor(call.shape(), x.dtype, read)


@denotes("GlobalMaxPool")
def global_max_pool(call: Call) -> Tensor | None:
    """The maximum over the pixels of an image."""
    if not is_covered(call, 0) or not is_float(call.dtype()):
        return None
    x = call.operand(0)
    return collected(call.case, x, [*range(2, x.rank)], "ReduceMax", keeps=True)


@denotes("LRN")
def local_response_normalization(call: Call) -> Tensor | None:
    """``x / (bias + alpha / size * sum of squares of close channels) ^ beta``."""
    if not is_covered(call, 0):
        return None
    x, size = call.operand(0), call.attribute("size")
    alpha, beta, bias = (
        number_of(call, x.dtype, call.attribute(name, default))
        for name, default in (("alpha", 1e-4), ("beta", 0.75), ("bias", 1.0))
    )
    window = Window([size], [1], [1], [(size - 1) // 2], [size // 2])

    def read(indices: Indices) -> Element:
        batch, channel, *pixel = indices

        def square(place: Sequence[Dim], _: object) -> Element:
            value = real(x.at([batch, *place, *pixel]))
            return value * value

        squares = window.summed(call.case, x.shape[1:2], (channel,), square)
        base = bias + alpha * inverse(of_dim(size)) * squares
        power = power_of(base, beta)
        if power is None:
            raise Unproved("an exponent of LRN")
        return real(x.at(indices)) * inverse(power)

    return Tensor(x.shape, x.dtype, read)


@denotes("ConvTranspose")
def transposed_convolution(call: Call) -> Tensor | None:
    """Sums of what each pixel adds to a window of the result."""
    is_plain = call.attribute("auto_pad", "NOTSET") in ("NOTSET", "VALID")
    if not is_covered(call, 0, 1) or not is_plain or call.attribute("output_shape"):
        return None
    x, w = call.operand(0), call.operand(1)
    groups = call.attribute("group", 1)
    require_equal(x.shape[1], w.shape[0], or_one=False)
    window = window_of(call, x.shape[2:], w.shape[2:])
    if window is None:
        return None
    channels = w.shape[0] // groups
    require_equal(channels * groups, w.shape[0], or_one=False)
    if call.has(2):
        require_vector(call.operand(2), w.shape[1] * groups)
    case = call.case

    def read(indices: Indices) -> Element:
        batch, channel, *start = indices
        group, inner = case.divided(channel, w.shape[1]) if groups > 1 else (0, channel)

        def along(axis: int, place: list[Dim], offset: list[Dim]) -> Element:
            if axis == x.rank - 2:
                return total(
                    case,
                    channels,
                    lambda c: (
                        real(x.at([batch, group * channels + c, *place]))
                        * real(w.at([group * channels + c, inner, *offset]))
                    ),
                )

            def at(k: Dim) -> Element:
                position = start[axis] + window.low[axis] - k * window.dilations[axis]
                conditions = [position]
                if window.strides[axis] != 1:
                    position, rest = case.divided(position, window.strides[axis])
                    conditions.append(-rest)
                conditions.append(x.shape[axis + 2] - 1 - position)
                inner_sum = partial(along, axis + 1, [*place, position], [*offset, k])
                return where_inside(case, conditions, inner_sum, ZERO)

            return total(case, w.shape[axis + 2], at)

        value = along(0, [], [])
        return value + real(call.operand(2).at([channel])) if call.has(2) else value

    return Tensor((x.shape[0], w.shape[1] * groups, *call.shape()[2:]), x.dtype, read)
