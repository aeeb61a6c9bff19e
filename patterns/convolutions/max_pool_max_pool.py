from functools import partial

from xoptim.match import Example, GraphView, MatchResult, Node, PatternOptimization, PatternRewriter

from .._nodes import renamed


class MaxPoolMaxPoolPattern(PatternOptimization):
    """MaxPool(x, 5), MaxPool(x, 9) → y = MaxPool(x, 5), MaxPool(y, 5)

    What: computes the maximum of the wide window from the maxima of the narrow one. Both have
    stride 1 and keep the spatial size.
    Why: 5x5 comparisons instead of 9x9. Object detectors pool one tensor with windows of 5, 9 and
    13 (SPP), which then takes 0.3 of the time on onnxruntime's CPU provider.
    Refuses when:
    1. the window is even, has strides or dilations, or changes the spatial size.
    2. no other MaxPool of the same tensor has a smaller window of this kind.
    """

    anchors = ("MaxPool",)
    phase = "target"
    exactness = "finite"  # a NaN in a window hides elements before or after it
    min_opset = 8
    providers = ("cpu",)

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        window = _window(node)
        if window is None:  # (1)
            return self.none(
                node,
                msg="the window is even, has strides or dilations, or changes the spatial size",
            )
        windows = [
            (size, reader)
            for reader in g.next_nodes(node.input[0])
            if (size := _window(reader)) is not None
        ]
        smaller_windows = [
            pair
            for pair in windows
            if pair[0] != window
            and len(pair[0]) == len(window)
            and all(map(int.__le__, pair[0], window))
        ]
        if not smaller_windows:  # (2)
            return self.none(node, msg="no other MaxPool of the same tensor has a smaller window")
        size, narrow = max(smaller_windows, key=lambda pair: pair[0])
        kernel = [wide - small + 1 for wide, small in zip(window, size, strict=True)]
        return MatchResult(self, [narrow, node], partial(self._write, kernel))

    def _write(self, kernel: list[int], g: PatternRewriter, narrow: Node, wide: Node) -> list[Node]:
        """A copy of the narrow MaxPool, and a MaxPool of its result with the window ``kernel``."""
        pads = [size // 2 for size in kernel] * 2
        second = g.make_node(
            "MaxPool", narrow.output[:1], wide.output, kernel_shape=kernel, pads=pads
        )
        return [*renamed(g, [narrow], {}), second]

    _start = "agraph (float[n,2,9,h] x) => (float[n,2,9,h] a, float[n,2,9,h] b"
    _five = "a = MaxPool <kernel_shape = [5, 5], pads = [2, 2, 2, 2]> (x)"
    examples = Example.pairs(
        f"{_start}, float[n,2,9,h] c) {{ {_five} "
        "b = MaxPool <kernel_shape = [9, 9], pads = [4, 4, 4, 4]> (x) "
        "c = MaxPool <kernel_shape = [13, 13], pads = [6, 6, 6, 6]> (x) }",
        f"{{ {_five} b = MaxPool <kernel_shape = [5, 5], pads = [2, 2, 2, 2]> (a) "
        "c = MaxPool <kernel_shape = [5, 5], pads = [2, 2, 2, 2]> (b) }",
        f"{_start}) {{ b = MaxPool <kernel_shape = [5, 7], pads = [2, 3, 2, 3]> (x) {_five} }}",
        f"{{ {_five} b = MaxPool <kernel_shape = [1, 3], pads = [0, 1, 0, 1]> (a) }}",
    )


def _window(node: Node) -> tuple[int, ...] | None:
    """The window of a MaxPool with stride 1 that keeps the spatial size; ``None`` for others."""
    if node.op_type != "MaxPool" or node.domain or any(node.output[1:]):
        return None
    sizes = node.get_attribute("kernel_shape")
    padding, pads = node.get_attribute("auto_pad"), list(node.get_attribute("pads") or ())
    # With another value of auto_pad, runtimes ignore the pads that are written next to it.
    padded = padding == "SAME_UPPER" or (
        padding == "NOTSET" and pads == [size // 2 for size in sizes] * 2
    )
    plain = all(
        step == 1 for name in ("strides", "dilations") for step in node.get_attribute(name) or ()
    )
    return tuple(sizes) if padded and plain and all(size % 2 for size in sizes) else None
