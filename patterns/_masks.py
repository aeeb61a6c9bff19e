"""Indices of the true elements of a mask, which NonZero computes."""

from xoptim.match import GraphView

from ._nodes import is_op, permutation


def mask_of(g: GraphView, indices: str) -> str | None:
    """The mask whose true elements a matrix of indices lists, one row for each element.

    The mask has one axis or more, and any type that NonZero supports. ``None`` for other indices.
    """
    node = g.node_before(indices)
    if not is_op(node, "Transpose", "Reshape"):
        return None
    positions = g.node_before(node.input[0])
    if not is_op(positions, "NonZero"):
        return None
    mask = positions.input[0]
    rank = g.info(mask).rank
    if is_op(node, "Transpose"):
        return mask if rank and permutation(g, node) == [1, 0] else None
    shape = g.try_infer_shape(indices)
    return mask if rank == 1 and shape is not None and len(shape) == 2 and shape[1] == 1 else None
