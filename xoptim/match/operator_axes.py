"""Descriptions of the axes of each operator: how those of results depend on those of operands."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from xoptim.facts.shapes import Shape
from xoptim.graph.node import Node
from xoptim.match.axes import (
    Axes,
    AxisOperand,
    Labels,
    Numbers,
    axis_of,
    named_axes,
    permutation,
    reduced_axes,
)
from xoptim.match.create import AT_RUN_TIME
from xoptim.match.view import GraphBuilderPatternOptimization as GraphView
from xoptim.operators.registry import Trait, operators_with


def axes_of(g: GraphView, node: Node, shapes: Mapping[str, Shape] | None = None) -> Axes | None:
    """The axes of a node.

    ``None`` when its operator is not described, or a shape or parameter that matters is not known.

    ``shapes`` are shapes of operands that have others than in the graph.
    """
    describe = None if node.domain else DESCRIBED.get(node.op_type)
    given = shapes or {}
    found = [
        () if not name else given[name] if name in given else g.try_infer_shape(name)
        for name in node.input
    ]
    known = [shape for shape in found if shape is not None]
    return describe(g, node, known) if describe is not None and len(known) == len(found) else None


_Shapes = Sequence[Shape]
REDUCING: Final = operators_with(Trait.REDUCES, Trait.ARG_REDUCES)
"""Operators that reduce axes."""
_NORMALIZED: Final = operators_with(Trait.SOFTMAX)


def _range(count: int, end: int | None = None) -> Labels:
    """This many labels before an end."""
    return tuple(range(count) if end is None else range(end - count, end))


def _axis(g: GraphView, node: Node, rank: int) -> int | None:
    """The attribute ``axis``, if it is an axis of a tensor of this rank."""
    axis = axis_of(g, node)
    return axis if axis is not None and 0 <= axis < rank else None


def _of_first(
    node: Node,
    shapes: _Shapes,
    result: Labels | None = None,
    whole: Iterable[int] = (),
    **more: Any,
) -> Axes:
    """The axes of a node with one operand besides its parameters.

    ``result`` has the same axes if it is left out.
    """
    labels = _range(len(shapes[0]))
    results = (labels if result is None else result,) * len(node.output)
    return Axes(
        (AxisOperand(labels, frozenset(whole)), *[None] * (len(shapes) - 1)), results, **more
    )


def _broadcast(g: GraphView, node: Node, shapes: _Shapes) -> Axes:
    rank = max(map(len, shapes))
    return Axes(
        tuple(AxisOperand(_range(len(shape), rank), broadcasts=True) for shape in shapes),
        (_range(rank),),
    )


def _mixing(g: GraphView, node: Node, shapes: _Shapes) -> Axes | None:
    """Operators that name the axes along which they mix elements.

    Before operator set 13, Softmax flattens its operand.
    """
    axes, rank = _mixed(g, node, shapes), len(shapes[0])
    if (
        axes is None
        or not {*axes} <= {*range(rank)}
        or (node.op_type in _NORMALIZED and node.opset < 13)
    ):
        return None
    drops = node.op_type == "Squeeze" or node.get_attribute("keepdims") == 0
    result = tuple(axis for axis in range(rank) if not drops or axis not in axes)
    is_one, is_set = isinstance(node.get_attribute("axis"), int), drops or node.op_type in REDUCING
    names = (
        {"axis": axes[0]}
        if is_one
        else {"axes": frozenset(axes) if is_set else axes}
        if axes
        else {}
    )
    found = _of_first(node, shapes, result, axes, names=names)
    if node.op_type != "Concat":
        return found
    return (
        replace(found, operands=found.operands[:1] * len(shapes))
        if {*map(len, shapes)} == {rank}
        else None
    )


def _mixed(g: GraphView, node: Node, shapes: _Shapes) -> Labels | None:
    """The axes that a node names.

    Slice and reductions name all where none is given, or as many as there are numbers.
    """
    if node.op_type in REDUCING:
        reduced = reduced_axes(g, node)
        return None if reduced is None else tuple(sorted(reduced))
    if isinstance(node.get_attribute("axis"), int):
        axis = axis_of(g, node)
        return None if axis is None else (axis,)
    if node.op_type != "Slice" or g.get_argument(node, "axes") is not None:
        return named_axes(g, node, len(shapes[0]))
    starts = g.get_argument(node, "starts")
    count = shapes[1][0] if starts is AT_RUN_TIME else len(starts)
    return _range(count) if isinstance(count, int) else None


def _quantized(g: GraphView, node: Node, shapes: _Shapes) -> Axes | None:
    """One scale, or one for each part along an axis; not one for each block."""
    axis, shape = _axis(g, node, len(shapes[0])), shapes[1]
    if len(shape) > 1 or node.attribute.get("block_size"):
        return None
    if not shape or node.opset < 13 or axis is None:
        return _of_first(node, shapes) if shape in ((), (1,)) else None
    found = _of_first(node, shapes, names={"axis": axis})
    scale = None if shape == (1,) else AxisOperand((axis,), is_apart=True)
    return replace(found, operands=(found.operands[0], *[scale] * (len(shapes) - 1)))


def _padded(g: GraphView, node: Node, shapes: _Shapes) -> Axes | None:
    pads, rank = g.get_argument(node, "pads"), len(shapes[0])
    if g.get_argument(node, "axes") is not None:
        return _mixing(g, node, shapes)
    if not isinstance(pads, list) or len(pads) != 2 * rank:
        return None
    sides = dict(enumerate(zip(pads[:rank], pads[rank:], strict=True)))
    whole = (axis for axis, side in sides.items() if side != (0, 0))
    return _of_first(node, shapes, whole=whole, numbers={"pads": Numbers(sides, (0, 0))})


def _unsqueezed(g: GraphView, node: Node, shapes: _Shapes) -> Axes | None:
    axes, rank = g.get_argument(node, "axes"), len(shapes[0])
    added = named_axes(g, node, rank + len(axes)) if isinstance(axes, list) else None
    if added is None or len({*added}) < len(added):
        return None
    old, new = iter(range(rank)), iter(range(rank, rank + len(added)))
    result = tuple(next(new if axis in added else old) for axis in range(rank + len(added)))
    return _of_first(node, shapes, result, names={"axes": frozenset(result) - {*range(rank)}})


def _mat_mul(g: GraphView, node: Node, shapes: _Shapes) -> Axes | None:
    """Rows come from the first operand, columns from the second one.

    A single second matrix works along the last axis only.
    """
    left, right = map(len, shapes)
    rank = max(left, right)
    if min(left, right) < 2:
        return None
    first = AxisOperand(_range(left, rank), frozenset((rank - 1,)), broadcasts=True)
    second = AxisOperand(_range(right, rank), frozenset((rank - 2,)), broadcasts=True)
    if right == 2 < left:
        second = AxisOperand((rank, rank - 1), frozenset((rank,)), broadcasts=True, is_apart=True)
    return Axes(
        (first, second),
        (_range(rank),),
        last=1 if second.is_apart else 2,
        swaps=not second.is_apart,
    )


def _gemm(g: GraphView, node: Node, shapes: _Shapes) -> Axes | None:
    a, b = ((1, 0) if node.get_attribute(name) else (0, 1) for name in ("transA", "transB"))
    if any(len(shape) > 2 for shape in shapes[2:]):
        return None
    bias = (AxisOperand(_range(len(shape), 2), is_apart=True) for shape in shapes[2:])
    first, second = (
        AxisOperand(a, frozenset((1,)), is_apart=True),
        AxisOperand(b, frozenset((0,)), is_apart=True),
    )
    return Axes((first, second, *bias), ((0, 1),), last=2)


def _gather(g: GraphView, node: Node, shapes: _Shapes) -> Axes | None:
    labels, rank = _range(len(shapes[0])), len(shapes[0])
    axis, found = _axis(g, node, rank), tuple(range(rank, rank + len(shapes[1])))
    if axis is None:
        return None
    operands = AxisOperand(labels, frozenset((axis,))), AxisOperand(found, is_apart=True)
    return Axes(
        operands,
        ((*labels[:axis], *found, *labels[axis + 1 :]),),
        blocks={axis: found},
        names={"axis": axis},
    )


def _transposed(g: GraphView, node: Node, shapes: _Shapes) -> Axes | None:
    perm = tuple(permutation(g, node) or ())
    return (
        _of_first(node, shapes, perm, names={"perm": perm})
        if sorted(perm) == [*range(len(shapes[0]))]
        else None
    )


def _reshaped(g: GraphView, node: Node, shapes: _Shapes) -> Axes | None:
    """The first axes stay until the sizes differ; the elements of the others are mixed.

    With ``allowzero``, all are.
    """
    result, target = g.try_infer_shape(node.output[0]), g.get_argument(node, "shape")
    if result is None or not isinstance(target, list) or len(target) != len(result):
        return None
    rank, kept = len(shapes[0]), None if node.get_attribute("allowzero") else 0
    pairs = enumerate(zip(shapes[0], result, strict=False))
    equal = next((axis for axis, (a, b) in pairs if a != b or kept is None), min(rank, len(result)))
    labels = (*range(equal), *range(rank, rank + len(result) - equal))
    numbers = Numbers(dict(zip(labels, target, strict=True)), kept)
    return _of_first(
        node,
        shapes,
        labels,
        range(equal, rank),
        last=len(result) - equal,
        numbers={"shape": numbers},
    )


def _sized(g: GraphView, node: Node, shapes: _Shapes) -> Axes | None:
    """Expand, unless it adds axes, and Tile, whose second operand has a number for each axis."""
    sizes, rank, result = (
        g.get_ints(node.input[1]),
        len(shapes[0]),
        g.try_infer_shape(node.output[0]),
    )
    if sizes is None or len(sizes) > rank or result is None or len(result) != rank:
        return None
    sizes = [1] * (rank - len(sizes)) + sizes
    whole = (axis for axis, (a, b) in enumerate(zip(shapes[0], result, strict=True)) if a != b)
    return _of_first(node, shapes, whole=whole, numbers={1: Numbers(dict(enumerate(sizes)), 1)})


def _resized(g: GraphView, node: Node, shapes: _Shapes) -> Axes | None:
    place = next((place for place in (3, 2) if len(node.input) > place and node.input[place]), None)
    numbers = None if place is None else g.get_computed_constant(node.input[place])
    if node.attribute.get(
        "coordinate_transformation_mode"
    ) == "tf_crop_and_resize" or node.attribute.get("axes"):
        return None
    if place is None or numbers is None or numbers.shape != (len(shapes[0]),):
        return None
    whole = (axis for axis, factor in enumerate(numbers) if place == 3 or factor != 1)
    return _of_first(
        node,
        shapes,
        whole=whole,
        numbers={place: Numbers(dict(enumerate(numbers)), 1, numbers.dtype)},
    )


def _layer_normalization(g: GraphView, node: Node, shapes: _Shapes) -> Axes | None:
    """The last axes are normalized, from ``axis`` on.

    A scale may have axes of size 1 before them, with labels of their own.
    """
    rank = len(shapes[0])
    axis = _axis(g, node, rank)
    if axis is None or any(
        dim != 1 for shape in shapes[1:] for dim in shape[: max(len(shape) - rank + axis, 0)]
    ):
        return None
    found = _of_first(node, shapes, whole=range(axis, rank), last=rank - axis, names={"axis": axis})
    scales = []
    for shape in shapes[1:]:
        labels = tuple(
            label if label >= axis else label - rank for label in _range(len(shape), rank)
        )
        scales.append(AxisOperand(labels, frozenset(range(axis, rank)), is_apart=True))
    return replace(found, operands=(found.operands[0], *scales))


DESCRIBED: Final[Mapping[str, Callable[[GraphView, Node, _Shapes], Axes | None]]] = {
    **dict.fromkeys(
        (*sorted(operators_with(Trait.ELEMENTWISE)), "CastLike"),
        lambda g, node, shapes: _of_first(node, shapes),
    ),
    **dict.fromkeys(sorted(operators_with(Trait.BROADCASTS, Trait.BROADCASTS_SECOND)), _broadcast),
    **dict.fromkeys((*REDUCING, *_NORMALIZED, "Concat", "Slice", "Split", "Squeeze"), _mixing),
    **dict.fromkeys(("DequantizeLinear", "QuantizeLinear"), _quantized),
    **dict.fromkeys(("Expand", "Tile"), _sized),
    **dict.fromkeys(("LayerNormalization", "RMSNormalization"), _layer_normalization),
    "Gather": _gather,
    "Gemm": _gemm,
    "MatMul": _mat_mul,
    "Pad": _padded,
    "Reshape": _reshaped,
    "Resize": _resized,
    "Transpose": _transposed,
    "Unsqueeze": _unsqueezed,
}
"""How each operator is described."""
