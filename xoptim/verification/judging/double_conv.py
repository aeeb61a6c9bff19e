"""Convolutions in float64, which onnxruntime lacks: an Einsum for each element of the filter, or a
Mul if the convolution is depthwise.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from onnx import FunctionProto, NodeProto, helper

from xoptim.operators.slicing import LAST_END

_LETTERS: Final = "hwd"
_MAX_POSITIONS: Final = 64  # of a kernel
_MAX_GROUPS: Final = 8


class Window(NamedTuple):
    """The form of a convolution; ``pads`` lists the beginnings of all axes, then the ends."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: tuple[int, ...]
    groups: int
    is_depthwise: bool
    has_bias: bool

    @property
    def name(self) -> str:
        """A name for the function of this form."""
        numbers = (
            *self.kernel,
            *self.strides,
            *self.dilations,
            *self.pads,
            self.groups,
            self.is_depthwise,
            self.has_bias,
        )
        return "Conv_" + "_".join(str(int(number)) for number in numbers)


def is_conv(node: NodeProto) -> bool:
    """Whether a node is a convolution of ONNX with a weight."""
    return node.op_type == "Conv" and node.domain in ("", "ai.onnx") and len(node.input) > 1


def window_of(node: NodeProto, weight: Sequence[int] | None) -> Window | None:
    """The form of a Conv with a weight of a known shape; ``None`` if no function computes it."""
    if weight is None or not 3 <= len(weight) <= 2 + len(_LETTERS):
        return None
    attributes = {
        attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute
    }
    if attributes.get("auto_pad", b"NOTSET") not in (b"NOTSET", b"VALID"):
        return None
    axes = len(weight) - 2
    ones, zeros = (1,) * axes, (0,) * (2 * axes)
    groups = int(attributes.get("group", 1))
    is_depthwise = groups > 1 and weight[1] == 1 and weight[0] == groups
    window = Window(
        tuple(weight[2:]),
        tuple(attributes.get("strides", ones)),
        tuple(attributes.get("dilations", ones)),
        tuple(attributes.get("pads", zeros)),
        groups,
        is_depthwise,
        len(node.input) > 2 and bool(node.input[2]),
    )
    count = math.prod(window.kernel)
    is_small = 0 < count <= _MAX_POSITIONS and (is_depthwise or groups <= _MAX_GROUPS)
    return window if is_small and min(window.pads, default=0) >= 0 else None


def conv_function(window: Window, domain: str, opset: int) -> FunctionProto:
    """A function that computes a convolution from ``x``, ``w`` and, with a bias, ``b``."""
    builder = _Builder(window)
    nodes = [*builder.nodes()]
    inputs = ["x", "w", *(["b"] if window.has_bias else [])]
    return helper.make_function(
        domain, window.name, inputs, ["y"], nodes, [helper.make_opsetid("", opset)]
    )


class _Builder:
    """The nodes of one function."""

    def __init__(self, window: Window) -> None:
        self._window = window
        self._axes = list(range(2, 2 + len(window.kernel)))
        self._serial = 0

    def nodes(self) -> Iterator[NodeProto]:
        window = self._window
        rank = len(self._axes)
        yield from self._node(
            "Pad", ["x"], "padded", ints=[[0, 0, *window.pads[:rank], 0, 0, *window.pads[rank:]]]
        )
        parts: list[str] = []
        for position in itertools.product(*map(range, window.kernel)):
            parts.append(self._name("part"))
            yield from self._at(position, parts[-1])
        yield helper.make_node("Sum", parts, ["summed"])
        if not window.has_bias:
            yield helper.make_node("Identity", ["summed"], ["y"])
            return
        yield from self._node("Reshape", ["b"], "bias", ints=[[-1] + [1] * rank])
        yield helper.make_node("Add", ["summed", "bias"], ["y"])

    def _at(self, position: Sequence[int], result: str) -> Iterator[NodeProto]:
        """The terms that one position of the kernel adds to the sum."""
        window, axes = self._window, self._axes
        pairs = list(zip(position, window.kernel, window.dilations, strict=True))
        starts = [at * step for at, _, step in pairs]
        ends = [LAST_END if at == size - 1 else -(size - 1 - at) * step for at, size, step in pairs]
        shifted, weight, flat = self._name("x"), self._name("w"), self._name("w")
        yield from self._node(
            "Slice", ["padded"], shifted, ints=[starts, ends, axes, list(window.strides)]
        )
        yield from self._node(
            "Slice", ["w"], weight, ints=[list(position), [at + 1 for at in position], axes]
        )
        yield from self._node("Squeeze", [weight], flat, ints=[axes])
        if window.is_depthwise:
            column = self._name("w")
            yield from self._node("Reshape", [flat], column, ints=[[-1] + [1] * len(axes)])
            yield helper.make_node("Mul", [shifted, column], [result])
        elif window.groups == 1:
            yield self._mixed(shifted, flat, result)
        else:
            yield from self._grouped(shifted, flat, result)

    def _grouped(self, shifted: str, weight: str, result: str) -> Iterator[NodeProto]:
        """Multiply each group of channels on its own."""
        groups = range(self._window.groups)
        names = {kind: [self._name(kind) for _ in groups] for kind in ("gx", "gw", "gy")}
        yield from self._split(shifted, names["gx"], 1)
        yield from self._split(weight, names["gw"], 0)
        for x, w, y in zip(names["gx"], names["gw"], names["gy"], strict=True):
            yield self._mixed(x, w, y)
        yield helper.make_node("Concat", names["gy"], [result], axis=1)

    def _split(self, name: str, results: Sequence[str], axis: int) -> Iterator[NodeProto]:
        """Equal parts of an axis, whose length is not known here."""
        shape, size, count = self._name("s"), self._name("s"), self._name("s")
        yield helper.make_node("Shape", [name], [shape])
        yield helper.make_node("Constant", [], [count], value_ints=[len(results)])
        length, index = self._name("s"), self._name("s")
        yield helper.make_node("Constant", [], [index], value_ints=[axis])
        yield helper.make_node("Gather", [shape, index], [length], axis=0)
        yield helper.make_node("Div", [length, count], [size])
        sizes = self._name("s")
        yield helper.make_node("Expand", [size, count], [sizes])
        yield helper.make_node("Split", [name, sizes], list(results), axis=axis)

    def _mixed(self, x: str, weight: str, result: str) -> NodeProto:
        letters = _LETTERS[: len(self._axes)]
        return helper.make_node(
            "Einsum", [x, weight], [result], equation=f"nc{letters},oc->no{letters}"
        )

    def _node(
        self, op_type: str, operands: Sequence[str], result: str, ints: Sequence[Sequence[int]]
    ) -> Iterator[NodeProto]:
        """A node whose last operands are lists of integers."""
        names = [self._name("ints") for _ in ints]
        for name, numbers in zip(names, ints, strict=True):
            yield helper.make_node("Constant", [], [name], value_ints=list(numbers))
        yield helper.make_node(op_type, [*operands, *names], [result])

    def _name(self, word: str) -> str:
        self._serial += 1
        return f"{word}{self._serial}"
