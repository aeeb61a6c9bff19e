"""Weights that were stacked, which the model holds in memory."""

from typing import Final

import numpy as np

from xoptim.graph.edit import Edit
from xoptim.graph.model import Model
from xoptim.graph.tensors import Tensor

LARGEST: Final = 1 << 29
"""Bytes of stacked weights that a model may have: beyond that, weights in external files are left where they are."""


class StackedTensor(Tensor):
    """Weights of several lanes: a copy, which is counted."""

    __slots__ = ()


def store_stack(edit: Edit, array: np.ndarray) -> str:
    """Add stacked weights to an edit; returns their name."""
    name = edit.names.fresh("stacked")
    edit.add_initializer(name, StackedTensor(array))
    return name


def stacked_bytes(model: Model) -> int:
    """Bytes of the stacked weights of a model, which earlier runs of the passes have made too."""
    tensors = (tensor for graph in model.graphs() for tensor in graph.initializers.values())
    return sum(tensor.nbytes for tensor in tensors if isinstance(tensor, StackedTensor))
