"""Matrix multiplications: conditions under which onnxruntime's kernels are correct, and layouts."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from xoptim.facts.dims import is_nonzero
from xoptim.match import GraphView, PatternRewriter, runs

MIN_ELEMENTS: Final = 1 << 16
"""Constants of fewer elements are cheap to store twice, or to transpose when a session starts."""


def contracts(g: GraphView, a: str, b: str, attributes: Mapping[str, Any]) -> bool:
    """Whether the summed dimension of a matrix multiplication is known not to be 0.

    If it is 0, onnxruntime's results are wrong: FusedMatMul with a transposed operand returns
    uninitialized memory (before 1.32), and Gemm adds its bias without ``beta``.

    Args:
        g: the graph.
        a: the first operand.
        b: the second operand.
        attributes: may hold ``transA``, ``transB``, ``transBatchA`` and ``transBatchB``.
    """
    first, second = (0 if attributes.get(f"transBatch{side}") else -2 for side in "AB")
    summed_axes = (
        (a, first if attributes.get("transA") else -1),
        (b, -1 if attributes.get("transB") else second),
    )
    shapes = ((g.try_infer_shape(name), axis) for name, axis in summed_axes)
    return any(
        shape is not None and len(shape) >= -axis and is_nonzero(shape[axis])
        for shape, axis in shapes
    )


def can_fuse(g: GraphView, a: str, b: str, attributes: Mapping[str, Any]) -> bool:
    """Whether the provider has a kernel of ``com.microsoft.FusedMatMul`` with correct results."""
    return contracts(g, a, b, attributes) and runs(g, "FusedMatMul", a, "com.microsoft")


def feeds_only(g: GraphView, name: str, *op_types: str) -> bool:
    """Whether all consumers of a result are nodes of these operators."""
    consumers = g.next_nodes(name)
    is_read_elsewhere = g.is_output(name) or g.is_used_by_subgraph(name)
    return not is_read_elsewhere and all(consumer.op_type in op_types for consumer in consumers)


def axis_order(rank: int, attributes: Mapping[str, Any], side: str) -> list[int]:
    """The axes of an operand (``side``: A or B) in the order in which FusedMatMul reads them.

    ``transBatch`` moves the first axis after the batch axes, then ``trans`` swaps the last two.
    """
    has_late_batch = attributes.get(f"transBatch{side}")
    order = [*range(1, rank - 1), 0, rank - 1] if has_late_batch else [*range(rank)]
    return [*order[:-2], order[-1], order[-2]] if attributes.get(f"trans{side}") else order


def order_attributes(order: Sequence[int], side: str) -> dict[str, int] | None:
    """The attributes with which FusedMatMul reads the axes of an operand in ``order``, if any."""
    for batch in (0, 1) if len(order) > 2 else (0,):
        for swap in (0, 1):
            attributes = {f"transBatch{side}": batch, f"trans{side}": swap}
            if axis_order(len(order), attributes, side) == [*order]:
                return attributes
    return None


def elements(g: GraphView, name: str) -> int:
    """Number of elements of a result; 0 if its shape is not static."""
    shape = g.static_shape(name)
    return 0 if shape is None else math.prod(shape)


def why_not(g: GraphView, x: str, w: str) -> str:
    """The reason why Gemm cannot multiply rows of x by the transposed matrix w; empty if it can."""
    if g.info(w).rank != 2 or not elements(g, w):
        return "the second operand is not a matrix of known shape"
    return "" if runs(g, "Gemm", x) else "Gemm has no kernel for this element type"


def times_transposed(g: PatternRewriter, x: str, w: str) -> str:
    """The product of x, with at least three axes, and the transposed matrix w, by a Gemm."""
    shape, (columns, width) = g.get_shape(x), g.static_shape(w) or (0, 0)
    matmul = g.op.Gemm(g.op.Reshape(x, [-1, width]), w, transB=1)
    sizes = [size if isinstance(size, int) else -1 for size in shape[:-1]]
    if sizes.count(-1) < 2 and 0 not in sizes:
        return str(g.op.Reshape(matmul, [*sizes, columns], allowzero=1))
    return str(
        g.op.Reshape(
            matmul, g.op.Concat(g.op.Shape(x, start=0, end=-1), [columns], axis=0), allowzero=1
        )
    )
