"""Proofs about shapes that several patterns share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from xoptim.facts.dims import Dim, SymbolicDim, is_nonzero
from xoptim.facts.info import Shape
from xoptim.graph.graph import Graph
from xoptim.inference.broadcasting import broadcast_all
from xoptim.match.view import GraphBuilderPatternOptimization

BROADCASTING: Final = (
    *("Add", "Sub", "Mul", "Div", "Pow", "Mod", "Max", "Min", "Sum", "Mean", "Where", "And", "Or", "Xor", "Equal", "Greater"),
    *("GreaterOrEqual", "Less", "LessOrEqual", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitShift"),
)
"""Operators of the standard domain all of whose operands broadcast to the shape of the result (since operator set 8)."""


def given_tensors(graph: Graph) -> Iterator[tuple[str, Shape]]:
    """Inputs of a graph and of those around it that are tensors of known rank, with their shapes."""
    scope: Graph | None = graph
    while scope is not None:
        for name in scope.inputs:
            info = scope.info_of(name)
            if info.shape is not None and info.is_tensor:
                yield name, info.shape
        scope = scope.parent


def measured_tensors(g: GraphBuilderPatternOptimization, node: Node) -> Iterator[tuple[str, Shape]]:
    """Tensors that the sizes which a node computes with come from, with their shapes: what Shape nodes above it read."""
    pending = list(node.input)
    for name in islice(unique(pending), _LOOKED_AT):
        producer = g.node_before(name) if name else None
        if producer is None:
            continue
        if producer.op_type == "Shape":
            shape = g.try_infer_shape(producer.input[0])
            if shape is not None:
                yield producer.input[0], shape
        elif g.info(name).data is not None:
            pending.extend(producer.input)


def is_given(g: GraphBuilderPatternOptimization, dim: Dim) -> bool:
    """Whether a dimension is made of numbers and of symbols in the shapes of the model's inputs only.

    Such a dimension is what the caller says it is; one that depends on data (the number of non-zero elements, ...) may be 0
    unexpectedly.
    """
    if not isinstance(dim, SymbolicDim):
        return True
    if dim.is_anonymous:
        return False
    known: set[str] = set()
    for _, shape in given_tensors(g.graph):
        for axis in shape:
            if isinstance(axis, SymbolicDim):
                known |= axis.symbols
    return dim.symbols <= known


def find_run(shape: Shape, wanted: Sequence[Dim]) -> int | None:
    """First position at which a shape contains the wanted dimensions in a row."""
    count = len(wanted)
    for start in range(len(shape) - count + 1):
        if shape[start : start + count] == tuple(wanted):
            return start
    return None


def reshape_target(g: GraphBuilderPatternOptimization, source: Shape, result: Shape, inferred: Sequence[int] = ()) -> list[int] | None:
    """A constant second operand for a Reshape (without ``allowzero``) between two shapes, ``None`` when there is none.

    Numbers stand for themselves, 0 copies an axis in its place, and -1 stands for one axis at most. onnxruntime refuses -1
    beside an axis of size 0, so that what is copied beside it must be a size that the caller gives.

    Args:
        g: the graph.
        source: shape of the operand.
        result: shape of the result.
        inferred: positions at which the present target has -1.
    """
    target: list[int] = []
    for position, dim in enumerate(result):
        kept = position < len(source) and dim == source[position]
        if isinstance(dim, int) and (dim or not kept):
            if not dim:
                return None
            target.append(dim)
        else:
            target.append(0 if kept else -1)
    unknown = [position for position, size in enumerate(target) if size < 0]
    if len(unknown) > 1:
        return None
    if unknown and not set(unknown) <= set(inferred):
        copied = [source[position] for position, size in enumerate(target) if size == 0]
        if not all(is_nonzero(dim) or (isinstance(dim, SymbolicDim) and is_given(g, dim)) for dim in copied):
            return None
    return target


def expand_target(source: Shape, result: Shape) -> list[int] | None:
    """A constant second operand for an Expand between two shapes, ``None`` when there is none. 1 keeps an axis."""
    lead = len(result) - len(source)
    target: list[int] = []
    for position, dim in enumerate(result):
        if position >= lead and dim == source[position - lead]:
            target.append(1)
        elif isinstance(dim, int):
            target.append(dim)
        else:
            return None
    return target


def same_dims(a: Sequence[Dim] | None, b: Sequence[Dim] | None) -> bool:
    """Whether two shapes are known and equal."""
    return a is not None and b is not None and tuple(a) == tuple(b)


def broadcast_shape(g: GraphBuilderPatternOptimization, names: Sequence[str]) -> Shape | None:
    """Shape that results of these shapes broadcast to, ``None`` when one of them is unknown."""
    return broadcast_all([g.try_infer_shape(name) for name in names])


def unstretched(g: GraphBuilderPatternOptimization, name: str) -> str | None:
    """What a result is the Expand of, or the Tile of where only axes of size 1 are repeated; ``None`` for any other."""
    node = g.node_before(name)
    if node is None or node.domain or node.op_type not in ("Expand", "Tile"):
        return None
    if node.op_type == "Tile":
        source, result = g.try_infer_shape(node.input[0]), g.try_infer_shape(name)
        if source is None or result is None or any(a != 1 and a != b for a, b in zip(source, result, strict=True)):
            return None
    return node.input[0]
