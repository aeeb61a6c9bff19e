"""Where the axes of results come from, and how a node is written when axes are permuted, inserted,
dropped, split or cut.

Each operator is described once. An axis of a result has a label, a number, as have the axes of
operands that it comes from. The labels determine all changes: operands are permuted like the
result, a part of a result needs the same part of each operand that is not read whole, and
parameters such as ``axis`` name labels. The batching rules of JAX and the indexing maps of MLIR
describe operators in a similar way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

import numpy as np
from onnx import TensorProto

from xoptim.facts.dims import Dim
from xoptim.facts.dtypes import numpy_dtype
from xoptim.facts.shapes import BROADCASTING, ELEMENTWISE, REDUCTIONS, Shape
from xoptim.graph.node import Node
from xoptim.match.create import AT_RUN_TIME
from xoptim.match.view import GraphBuilderPatternOptimization as GraphView, PatternRewriter

Labels = tuple[int, ...]


class Operand(NamedTuple):
    """The axes of an operand."""

    labels: Labels  # one for each axis
    # labels along which a position of the result may need other positions of the operand than its
    # own
    whole: frozenset[int] = frozenset()
    # whether it may have fewer axes than the result: its axes are the last ones then
    broadcasts: bool = False
    is_apart: bool = False  # whether it has only certain axes, in a fixed order, like indices


class Numbers(NamedTuple):
    """A parameter with a number, or one for each side, for each axis of the result."""

    entries: Mapping[int, Any]  # the numbers, by label
    kept: Any  # the number of an axis that keeps its size
    dtype: Any = np.int64  # element type


@dataclass(frozen=True)
class Axes:
    """Where the axes of the results of a node come from."""

    # The axes of each operand; ``None`` for a number, a parameter, or an operand that is left out
    operands: tuple[Operand | None, ...]
    results: tuple[Labels, ...]  # the labels of each result
    last: int = 0  # this many of the last axes of the results must stay the last ones
    swaps: bool = False  # whether the last two may change places if the two operands do
    # axes of the results that replace an axis of the first operand
    blocks: Mapping[int, Labels] = field(default_factory=dict)
    # Parameters that name axes of the first operand, or of the result if only that has them; sets
    # in any order
    names: Mapping[str, int | Labels | frozenset[int]] = field(default_factory=dict)
    # Parameters with numbers for axes, by name, or by place if they are operands
    numbers: Mapping[str | int, Numbers] = field(default_factory=dict)

    @property
    def fixed(self) -> Labels:
        """The labels of the axes that must stay the last ones."""
        return self.results[0][len(self.results[0]) - self.last :]

    def reordered(self, order: Labels) -> Axes | None:
        """The same with the axes of one operand or result in another order.

        ``None`` if the node cannot work so.
        """
        tail = order[len(order) - self.last :]
        if tail != self.fixed and not (self.swaps and tail == self.fixed[::-1]):
            return None
        if self.swaps and any(
            operand is None or len(operand.labels) != len(order) for operand in self.operands
        ):
            return None
        order = tuple(each for label in order for each in (label, *self.blocks.get(label, ())))
        known = [operand for operand in self.operands if operand]
        if known[0].is_apart or not all(
            {label for label in operand.labels if label >= 0} <= {*order} for operand in known
        ):
            return None

        def sort(labels: Labels) -> Labels:
            found = [label for label in order if label in labels]
            for place, label in enumerate(labels):
                # a new axis, not the last one: broadcasting along that is slow
                if label not in found:
                    found.insert(min(place, len(found) - 1), label)
            return tuple(found)

        return self._with(sort)

    def inserted(self, new: int, before: int | None = None) -> Axes | None:
        """The same with a new axis in front of another one, or of all.

        ``None`` if the node cannot work so.
        """
        changing = [operand.labels for operand in self.operands if operand and not operand.is_apart]
        if (
            not changing
            or before in self.fixed[1:]
            or not (before is None or any(before in labels for labels in changing))
        ):
            return None

        def insert(labels: Labels) -> Labels:
            if before is None:
                return (new, *labels)
            return tuple(
                each for label in labels for each in ((new, label) if label == before else (label,))
            )

        return self._with(insert, changes_apart=False)

    def replaced(self, replacing: Mapping[int, Labels]) -> Axes:
        """The same with any number of other axes in place of each of some axes."""
        return self._with(
            lambda labels: tuple(
                each for label in labels for each in replacing.get(label, (label,))
            )
        )

    def _with(self, changed: Callable[[Labels], Labels], changes_apart: bool = True) -> Axes:
        operands = (
            (
                operand._replace(labels=changed(operand.labels))
                if operand and (changes_apart or not operand.is_apart)
                else operand
            )
            for operand in self.operands
        )
        return replace(self, operands=tuple(operands), results=tuple(map(changed, self.results)))

    def parts(
        self, shapes: Sequence[Shape | None], label: int, size: Dim, drops: bool = False
    ) -> dict[int, int] | None:
        """The axis of each operand, by place, that is needed in the same part as the results, whose
        axis ``label`` is cut.

        ``size`` is the size of that axis in the results; ``drops`` says whether the part is one
        position, and the axis goes. ``None`` if the results need more than the parts, or none.
        """
        if drops and (label in self.fixed or label in self.names.values()):
            return None
        longest = max(
            (
                len(operand.labels)
                for operand in self.operands
                if operand and min(operand.labels, default=0) < 0
            ),
            default=0,
        )
        if drops and longest >= len(self.results[0]):  # of a scale
            return None
        found: dict[int, int] = {}
        for place, operand in enumerate(self.operands):
            if operand is None or label not in operand.labels:
                continue
            axis, shape = operand.labels.index(label), shapes[place]
            own = None if shape is None else shape[axis]
            if label in operand.whole:
                if drops:
                    return None
            elif own == size:
                found[place] = axis
            elif drops or own != 1:
                return None
        return found or None


def parameters(
    g: GraphView,
    node: Node,
    axes: Axes,
    entries: Mapping[int, Any] | None = None,
    cut: int | None = None,
) -> dict[str | int, Any]:
    """The parameters that change when a node gets these axes, by name, or by place if they are
    operands.

    ``entries`` are numbers for new labels, for parameters that have one for each axis; ``cut`` is
    the label of an axis that is cut.
    """
    found: dict[str | int, Any] = {}
    for name, label in axes.names.items():
        first, is_set = axes.operands[0], isinstance(label, frozenset)
        owner = axes.results[0] if first is None or node.op_type == "Unsqueeze" else first.labels
        named = axes.results[0] if name == "perm" else (label,) if isinstance(label, int) else label
        places = [owner.index(each) for each in named]
        places = sorted(places) if is_set else places
        if _as_written(g, node, name, len(owner), is_set) == places:
            continue
        if node.op_type == "Slice" and len(node.input) > 1:  # all of its operands have one type
            found[3] = np.array(
                places, numpy_dtype(g.try_infer_type(node.input[1]) or TensorProto.INT64)
            )
        else:
            found[name] = places[0] if isinstance(label, int) else places
    for key, (old, kept, dtype) in axes.numbers.items():
        known = {**old, **(entries or {})} | ({} if cut is None else {cut: kept})
        new = [known.get(label, kept) for label in axes.results[0]]
        if new != [*old.values()]:
            array = np.array(new, dtype).T.ravel()
            found[key] = array if isinstance(key, int) else array.tolist()
    return found


def _as_written(g: GraphView, node: Node, name: str, rank: int, sort: bool) -> list[int]:
    """The axes that a parameter would name in a tensor of this rank if it stayed as it is."""
    value = g.get_argument(node, name)
    if value is None:  # all axes
        return list(range(rank))[:: -1 if name == "perm" else 1]
    found = [
        axis if axis >= 0 else axis + rank
        for axis in (value if isinstance(value, list) else [value])
    ]
    return sorted(found) if sort else found


def rewritten(
    g: PatternRewriter,
    node: Node,
    inputs: Sequence[str],
    outputs: Sequence[str] | int,
    changed: Mapping[str | int, Any],
) -> Node:
    """A node with other operands, results and parameters."""
    operands = [*inputs]
    attributes = dict(node.attribute)
    for key, value in changed.items():
        if isinstance(key, int):
            operands += [""] * (key + 1 - len(operands))
            operands[key] = g.make_initializer("", value, source=operands[key] or "axes")
        else:
            attributes[key] = value
    return g.make_node_check_opset(node.op_type, operands, outputs, "", "", **attributes)


def axis_of(g: GraphView, node: Node) -> int | None:
    """The attribute ``axis`` of a node, or its default, from the front of its first operand.

    ``None`` when it is not known.
    """
    axis = node.get_attribute("axis")
    rank = g.info(node.input[0]).rank
    if not isinstance(axis, int) or (axis < 0 and rank is None):
        return None
    return axis if axis >= 0 or rank is None else axis + rank


def permutation(g: GraphView, node: Node) -> list[int] | None:
    """The permutation of a Transpose, the default included.

    ``None`` for another node or an unknown rank.
    """
    if node.op_type != "Transpose":
        return None
    rank = g.info(node.input[0]).rank
    perm = node.get_attribute("perm")
    return list(range(rank))[::-1] if perm is None and rank is not None else perm


def reduced_axes(g: GraphView, node: Node) -> set[int] | None:
    """The axes that a reduction reduces, counted from the front.

    ``None`` when they or the rank are not known.
    """
    rank = g.info(node.input[0]).rank
    if rank is None:
        return None
    if node.op_type in ("ArgMax", "ArgMin"):
        axis = axis_of(g, node)
        return None if axis is None else {axis}
    if g.get_argument(node, "axes") in (None, []):
        return set() if node.attribute.get("noop_with_empty_axes") else set(range(rank))
    axes = _named(g, node, rank)
    return None if axes is None else set(axes)


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
REDUCING: Final = (*REDUCTIONS, "ArgMax", "ArgMin")
"""Operators that reduce axes."""
_NORMALIZED: Final = ("Softmax", "LogSoftmax", "Hardmax")


def _range(count: int, end: int | None = None) -> Labels:
    """This many labels before an end."""
    return tuple(range(count) if end is None else range(end - count, end))


def _named(g: GraphView, node: Node, rank: int) -> Labels | None:
    """The parameter ``axes``, counted from the front of a tensor of this rank.

    ``None`` if it is not known.
    """
    axes = g.get_argument(node, "axes")
    if not isinstance(axes, list) or not all(-rank <= axis < rank for axis in axes):
        return None
    return tuple(axis % rank for axis in axes)


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
    return Axes((Operand(labels, frozenset(whole)), *[None] * (len(shapes) - 1)), results, **more)


def _broadcast(g: GraphView, node: Node, shapes: _Shapes) -> Axes:
    rank = max(map(len, shapes))
    return Axes(
        tuple(Operand(_range(len(shape), rank), broadcasts=True) for shape in shapes),
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
        return _named(g, node, len(shapes[0]))
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
    scale = None if shape == (1,) else Operand((axis,), is_apart=True)
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
    added = _named(g, node, rank + len(axes)) if isinstance(axes, list) else None
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
    first = Operand(_range(left, rank), frozenset((rank - 1,)), broadcasts=True)
    second = Operand(_range(right, rank), frozenset((rank - 2,)), broadcasts=True)
    if right == 2 < left:
        second = Operand((rank, rank - 1), frozenset((rank,)), broadcasts=True, is_apart=True)
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
    bias = (Operand(_range(len(shape), 2), is_apart=True) for shape in shapes[2:])
    first, second = (
        Operand(a, frozenset((1,)), is_apart=True),
        Operand(b, frozenset((0,)), is_apart=True),
    )
    return Axes((first, second, *bias), ((0, 1),), last=2)


def _gather(g: GraphView, node: Node, shapes: _Shapes) -> Axes | None:
    labels, rank = _range(len(shapes[0])), len(shapes[0])
    axis, found = _axis(g, node, rank), tuple(range(rank, rank + len(shapes[1])))
    if axis is None:
        return None
    operands = Operand(labels, frozenset((axis,))), Operand(found, is_apart=True)
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
        scales.append(Operand(labels, frozenset(range(axis, rank)), is_apart=True))
    return replace(found, operands=(found.operands[0], *scales))


DESCRIBED: Final[Mapping[str, Callable[[GraphView, Node, _Shapes], Axes | None]]] = {
    **dict.fromkeys(
        (*sorted(ELEMENTWISE), "CastLike"), lambda g, node, shapes: _of_first(node, shapes)
    ),
    **dict.fromkeys((*BROADCASTING, "PRelu"), _broadcast),
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
