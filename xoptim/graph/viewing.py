"""Nodes whose results are views of large stored constants: movements, casts, sums and products, concatenations."""

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Final, TypeAlias

import numpy as np
from onnx import TensorProto

from xoptim.evaluate.kernel_table import axis_of
from xoptim.evaluate.kernels import slice_ranges, split_lengths
from xoptim.facts.dtypes import bits, byte_size, numpy_dtype
from xoptim.graph.constants import EvaluationView
from xoptim.graph.graph import Graph
from xoptim.graph.node import Node
from xoptim.graph.tensors import Tensor
from xoptim.graph.views import Elementwise, Joined, reshaped, sliced, transposed

VIEW_LEAST: Final = 1 << 20
"""Bytes from which on the result of external constants is a view; smaller ones are computed at once."""
_Viewer: TypeAlias = Callable[[EvaluationView, list[Tensor], Sequence[int]], list[Tensor] | None]
"""Takes a node, its operands and the shape of its first result; returns its results, ``None`` when it declines."""
_UFUNCS: Final = {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": np.divide}
_SINGLE, _DOUBLE, _HALF, _BFLOAT16 = TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BFLOAT16
_CASTS: Final = frozenset(
    [(source, target) for source in (_HALF, _BFLOAT16, TensorProto.INT8, TensorProto.UINT8) for target in (_SINGLE, _DOUBLE)]
    + [(_SINGLE, _DOUBLE), (_SINGLE, _HALF), (_SINGLE, _BFLOAT16), (_DOUBLE, _SINGLE)]
)
"""Types between which every number is cast as the standard says, by numpy and onnxruntime alike."""


def views_of(graph: Graph, node: Node, operands: Sequence[Tensor | None]) -> list[Tensor] | None:
    """The results of a node as views, ``None`` when they are to be computed: they are small, or of another kind.

    All operands are stored; ``None`` is one that is left out.
    """
    info = graph.known(node.output[0])
    shape = None if info is None else info.static_shape
    viewer = _VIEWERS.get(node.op_type) if not node.domain else None
    present = [each for each in operands if each is not None]
    if viewer is None or shape is None or len(present) != len(operands) or not any(each.is_external for each in present):
        return None
    if max(each.nbytes for each in present) < VIEW_LEAST or any(bits(each.dtype) < 8 for each in present):
        return None
    try:
        return viewer(EvaluationView(node), present, shape)
    except (ValueError, IndexError, TypeError):  # a malformed node
        return None


def _values(operands: list[Tensor]) -> list[np.ndarray | None]:
    """The operands after the first, which say how it is moved, as arrays."""
    return [None, *(each.numpy() for each in operands[1:])]


def _moved(_: EvaluationView, operands: list[Tensor], shape: Sequence[int]) -> list[Tensor] | None:
    return [reshaped(operands[0], shape)] if np.prod(shape, dtype=object) == operands[0].size else None


def _transposed(node: EvaluationView, operands: list[Tensor], _: Sequence[int]) -> list[Tensor] | None:
    rank = len(operands[0].shape)
    perm = node.attribute("perm") or list(range(rank))[::-1]
    return [transposed(operands[0], perm)] if sorted(perm) == list(range(rank)) else None


def _sliced(node: EvaluationView, operands: list[Tensor], _: Sequence[int]) -> list[Tensor] | None:
    source = operands[0]
    ranges = slice_ranges(node, _values(operands), source.shape)
    if ranges is None:
        return None
    taken = [range(dim)[each] for each, dim in zip(ranges, source.shape, strict=True)]
    return [sliced(source, [r.start for r in taken], [r.step for r in taken], [len(r) for r in taken])] if all(taken) else None


def _parts(node: EvaluationView, operands: list[Tensor], _: Sequence[int]) -> list[Tensor] | None:
    source = operands[0]
    axis = axis_of(node.attribute("axis", 0), len(source.shape))
    lengths = split_lengths(node, _values(operands), source.shape[axis])
    if lengths is None or not all(lengths):
        return None
    found = []
    for end, length in zip(accumulate(lengths), lengths, strict=True):
        starts = [end - length if a == axis else 0 for a in range(len(source.shape))]
        shape = [length if a == axis else dim for a, dim in enumerate(source.shape)]
        found.append(sliced(source, starts, [1] * len(shape), shape))
    return found


def _joined(node: EvaluationView, operands: list[Tensor], _: Sequence[int]) -> list[Tensor] | None:
    axis = axis_of(node.attribute("axis", 1 if node.opset < 4 else None), len(operands[0].shape))
    others = {(each.dtype, each.shape[:axis], each.shape[axis + 1 :]) for each in operands}
    return [Joined(operands, axis)] if len(others) == 1 and all(each.size for each in operands) else None


def _cast(node: EvaluationView, operands: list[Tensor], shape: Sequence[int]) -> list[Tensor] | None:
    target = node.attribute("to")
    if target == operands[0].dtype:
        return [operands[0]]
    if (operands[0].dtype, target) not in _CASTS:
        return None
    dtype = numpy_dtype(target)
    return [Elementwise(lambda x: x.astype(dtype), "Cast", operands, target, shape)]


def _computed(node: EvaluationView, operands: list[Tensor], shape: Sequence[int]) -> list[Tensor] | None:
    shapes = [each.shape for each in operands]
    if {each.dtype for each in operands} - {_SINGLE} and {each.dtype for each in operands} - {_DOUBLE}:
        return None  # onnxruntime computes chains of narrower floats in 32 bits
    if len(operands) != 2 or np.broadcast_shapes(*shapes) != tuple(shape) or (node.opset < 7 and shapes[0] != shapes[1]):
        return None
    is_no_larger = byte_size(operands[0].dtype, int(np.prod(shape, dtype=object))) == max(each.nbytes for each in operands)
    return [Elementwise(_UFUNCS[node.op_type], node.op_type, operands, operands[0].dtype, shape)] if is_no_larger else None


_VIEWERS: Final[dict[str, _Viewer]] = {
    **dict.fromkeys(("Identity", "Reshape", "Flatten", "Squeeze", "Unsqueeze"), _moved),
    **dict.fromkeys(_UFUNCS, _computed),
    "Transpose": _transposed,
    "Slice": _sliced,
    "Split": _parts,
    "Concat": _joined,
    "Cast": _cast,
}
