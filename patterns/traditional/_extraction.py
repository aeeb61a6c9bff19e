"""Columns that an ArrayFeatureExtractor or a Gather takes."""

from typing import NamedTuple

import numpy as np

from xoptim.match import GraphView, Node

from .._axes import axis_of
from .._folding import Array
from .._nodes import is_op
from ._columns import is_ml


class Extraction(NamedTuple):
    """The columns that a node takes of a tensor x of two axes, counted from the front, and how many columns x has."""

    node: Node
    x: str
    places: Array
    size: int


def extraction_of(g: GraphView, name: str, *, gathers: bool = False) -> Extraction | None:
    """The ArrayFeatureExtractor (or Gather, with ``gathers``) with constant indices that takes a result from a matrix."""
    node = g.node_before(name)
    if node is None or not (
        is_ml(node, "ArrayFeatureExtractor") or (gathers and is_op(node, "Gather") and axis_of(g, node) == 1)
    ):
        return None
    shape = g.try_infer_shape(node.input[0])
    places = g.get_computed_constant(node.input[1])
    size = shape[1] if shape is not None and len(shape) == 2 else None
    if places is None or not isinstance(size, int) or not places.size or g.info(name).rank != 2:
        return None
    lowest = 0 if node.domain else -size
    if not ((places >= lowest) & (places < size)).all():
        return None
    return Extraction(node, node.input[0], places.ravel().astype(np.int64) % size, size)
