from dataclasses import dataclass
from functools import partial
from typing import Final

from onnx import TensorProto

from xoptim.facts.dims import Dim, is_nonnegative
from xoptim.match import Example, GraphView, MatchResult, Node, PatternOptimization, PatternRewriter
from xoptim.operators.slicing import LAST_END

from .._nodes import is_op, size_along
from .._selections import index_of, span_of

_MIN_CHANNELS: Final = 64
"""Minimum number of channels. Mul and ReduceSum were measured to take 1.05 of the time of the
convolution with 16 channels, and 0.8 with 64.
"""
_MAX_KERNEL: Final = 8
_RANK: Final = 3


@dataclass(frozen=True)
class _Window:
    """The positions from which one result of a convolution is computed.

    Attributes:
        data: the operand of the convolution, or the result of a Slice of it that is the window.
        start: the first position of the window in ``data``; ``None`` if ``data`` is the window.
        end: the position after the window.
        keepdims: whether the result keeps the axis.
    """

    data: str
    start: int | None
    end: int
    keepdims: bool


class DepthwiseConvPositionPattern(PatternOptimization):
    """Slice(Conv(x, w, b), one position) → ReduceSum(Mul(its window of x, w)) + b

    What: computes only the used position of a depthwise convolution of one spatial axis. A Slice or
    Gather takes this position, or the operand is as long as the kernel. Decode steps of Mamba, LFM2
    and Qwen3-Next have such convolutions: their state is the window.
    Why: onnxruntime computes a depthwise convolution channel by channel. With kernels of 2 to 8
    positions, measured 0.8 of the time with 64 channels, 0.2 with 1024 and 0.1 with 8192.
    Refuses when:
    1. the convolution is not depthwise with one spatial axis and one output per channel, or has
       strides, dilations or auto_pad.
    2. there are fewer than 64 channels, the kernel has more than 8 positions, or the type is not
       float32.
    3. more than one position of the result is used, or the position is unknown.
    4. the window reaches into the padding.
    """

    anchors = ("Conv",)
    phase = "target"
    exactness = "rounding"
    providers = ("cpu",)
    min_opset = 11

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        weights = g.static_shape(node.input[1])
        if weights is None or not _is_depthwise(g, node, weights):  # (1)
            return self.none(
                node,
                msg="not a depthwise convolution with one spatial axis, or there are strides, "
                "dilations or auto_pad",
            )
        channels, _, kernel = weights
        is_float32 = g.try_infer_type(node.input[0]) == TensorProto.FLOAT
        if channels < _MIN_CHANNELS or kernel > _MAX_KERNEL or not is_float32:  # (2)
            return self.none(node, msg="few channels, a large kernel, or not float32")
        reader, position, keepdims = _only_position(g, node)
        length = size_along(g, node.input[0], 2)
        if position is None or length is None:  # (3)
            return self.none(
                reader, msg="several positions of the result are used, or the position is unknown"
            )
        begin, end = node.attribute.get("pads", [0, 0])
        start = position - begin
        # At an end without padding, the windows of all results lie within the operand.
        is_padded = (begin and not is_nonnegative(start)) or (
            end and not is_nonnegative(length - start - kernel)
        )
        window = _window(g, reader, node.input[0], start, length, kernel, keepdims)
        if is_padded or window is None:  # (4)
            return self.none(node, msg="the window is not known to lie within the operand")
        nodes = [node] if reader is node else [node, reader]
        return MatchResult(self, nodes, partial(_write, window))

    examples = Example.pairs(
        "agraph (float[n,64,4] x, float[64,1,4] w, float[64] b) => (float[n,64,1] y) { "
        "y = Conv <group = 64> (x, w, b) }",
        "<int64[1] one = {1}, int64[1] last = {-1}> { f = Squeeze(w, one) m = Mul(x, f) "
        "s = ReduceSum(m, last) u = Unsqueeze(b, one) y = Add(s, u) }",
        "agraph (float[n,64,3] p, float[n,64,1] x, float[64,1,3] w) "
        "=> (float[n,64,1] y, float[n,64,3] z) <int64[1] near = {-3}, int64[1] last = {-1}, "
        "int64[1] end = {9223372036854775807}, int64[1] two = {2}> { "
        "c = Concat <axis = 2> (p, x) z = Slice(c, near, end, two) "
        "t = Conv <group = 64> (c, w) y = Slice(t, last, end, two) }",
        "<int64[1] near = {-3}, int64[1] end = {9223372036854775807}, int64[1] two = {2}, "
        "int64[1] one = {1}, int64[1] last = {-1}> { c = Concat <axis = 2> (p, x) "
        "z = Slice(c, near, end, two) f = Squeeze(w, one) m = Mul(z, f) y = ReduceSum(m, last) }",
        "agraph (float[n,64,5] x, float[64,1,2] w) => (float[n,64] y) <int64 place = {2}> { "
        "t = Conv <group = 64, pads = [1, 0]> (x, w) y = Gather <axis = 2> (t, place) }",
        "<int64[1] start = {1}, int64[1] end = {3}, int64[1] two = {2}, int64[1] one = {1}, "
        "int64[1] last = {-1}> { z = Slice(x, start, end, two) f = Squeeze(w, one) "
        "m = Mul(z, f) y = ReduceSum <keepdims = 0> (m, last) }",
    )


def _is_depthwise(g: GraphView, node: Node, weights: tuple[int, ...]) -> bool:
    """Whether a convolution is depthwise, without strides, dilations and auto_pad.

    It must have one spatial axis, and one output per channel.
    """
    if len(weights) != _RANK or weights[1] != 1:
        return False
    if weights[0] != node.attribute.get("group", 1):
        return False
    if node.attribute.get("auto_pad", "NOTSET") not in ("NOTSET", b"NOTSET"):
        return False
    steps = (node.attribute.get("strides", [1]), node.attribute.get("dilations", [1]))
    return steps == ([1], [1])


def _only_position(g: GraphView, node: Node) -> tuple[Node, Dim | None, bool]:
    """The only used position of a convolution.

    Returns:
        the node whose result is this position, the position (``None`` if it is not known that there
        is only one), and whether the result keeps the axis.
    """
    result = node.output[0]
    if size_along(g, result, 2) == 1:
        return node, 0, True
    reader = g.next_node(result)
    if reader is None or not g.is_exclusive(result):
        return node, None, True
    index = index_of(g, reader)
    if index is not None and index.axis == 2:
        return reader, index.start, not index.drops
    span = span_of(g, reader) if is_op(reader, "Slice") else None
    if span is None or span[0] != 2 or size_along(g, reader.output[0], 2) != 1:
        return reader, None, True
    return reader, span[1].start, True


def _window(
    g: GraphView, reader: Node, data: str, start: Dim, length: Dim, kernel: int, keepdims: bool
) -> _Window | None:
    """The window from ``start`` on; ``None`` if it may reach beyond ``data`` into the padding.

    A Slice of the model that already takes the window is read instead of a new one.
    """
    tail = length - start - kernel  # positions of ``data`` after the window
    if start == 0 and tail == 0:
        return _Window(data, None, 0, keepdims)
    for node in g.next_nodes(data):
        span = span_of(g, node) if is_op(node, "Slice") else None
        if span is None or not g.is_before(node, reader):
            continue
        axis, first, end = span[0], span[1].start, span[1].end
        if isinstance(end, int) and isinstance(length, int):
            end = min(end, length)
        if (axis, first, end) == (2, start, start + kernel):
            return _Window(node.output[0], None, 0, keepdims)
    if tail == 0:
        return _Window(data, -kernel, LAST_END, keepdims)
    if isinstance(start, int) and isinstance(tail, int) and start >= 0 and tail >= 0:
        return _Window(data, start, start + kernel, keepdims)
    return None


def _write(window: _Window, g: PatternRewriter, conv: Node, *readers: Node) -> list[Node]:
    data = window.data
    if window.start is not None:
        data = g.op.Slice(data, starts=[window.start], ends=[window.end], axes=[2])
    product = g.op.Mul(data, g.op.Squeeze(conv.input[1], axes=[1]))
    keepdims = int(window.keepdims)
    bias = conv.input[2] if len(conv.input) > 2 else ""
    result = (readers or (conv,))[-1].output
    if not bias:
        total = g.make_node_check_opset(
            "ReduceSum", [product], result, axes=[-1], keepdims=keepdims
        )
        return [*g.created, total]
    total_name = g.op.ReduceSum(product, axes=[-1], keepdims=keepdims)
    if window.keepdims:
        bias = g.op.Unsqueeze(bias, axes=[1])
    return [*g.created, g.make_node("Add", [total_name, bias], result)]
