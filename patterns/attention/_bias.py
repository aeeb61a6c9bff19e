"""Biases of the keys and of the values of an attention."""

import math
from collections.abc import Sequence
from typing import Final

import ml_dtypes
import numpy as np

from xoptim.facts.dims import Dim
from xoptim.facts.dtypes import is_float, numpy_dtype, tolerance
from xoptim.match import GraphView, Node

from .._folding import constant, doubles

_WIDE: Final = 4
"""Bytes of an element whose squares may be summed in its own type."""


def is_last_axis(g: GraphView, softmax: Node, axis: int) -> bool:
    """Whether a Softmax is along the last axis of its result."""
    rank = g.info(softmax.output[0]).rank
    return axis == -1 or (rank is not None and axis == rank - 1)


def spreads_over_heads(g: GraphView, bias: str, biased: str, heads: Sequence[Dim]) -> bool:
    """Whether a bias is one number for each feature of a linear layer, which are split into heads and features of a head.

    Args:
        g: the graph.
        bias: the bias.
        biased: the result of the layer, of rank 3.
        heads: the number of heads, and the number of features of each, after the Reshape.
    """
    shape, given = g.static_shape(bias), g.try_infer_shape(biased)
    if not shape or given is None or len(given) != 3 or len(heads) != 2 or not all(isinstance(dim, int) for dim in heads):
        return False
    features = math.prod(int(str(dim)) for dim in heads)
    return len(shape) <= 3 and math.prod(shape) == shape[-1] == given[-1] == features > 0


def is_moderate(g: GraphView, bias: str, weight: str) -> bool:
    """Whether a bias, stored in the model itself, is of the size of the numbers it is added to: it does not round their sums.

    Args:
        g: the graph.
        bias: the bias.
        weight: the matrix of the linear layer, whose input is taken to be of the size of 1.
    """
    dtype, shape = g.try_infer_type(bias), g.static_shape(weight)
    if not is_float(dtype) or shape is None or len(shape) != 2 or not all(map(g.is_stored, (bias, weight))):
        return False
    matrix, largest = constant(g, weight), float(np.abs(doubles(g, bias)).max(initial=0))
    matrix = matrix if matrix.dtype.itemsize >= _WIDE else matrix.astype(np.float32)
    limits = ml_dtypes.finfo(numpy_dtype(dtype))  # type: ignore[no-untyped-call]
    with np.errstate(all="ignore"):  # the sum is NaN or infinite where a weight is
        usual = float(np.einsum("ij,ij->j", matrix, matrix).max(initial=0)) ** 0.5
    most = tolerance(dtype, "rounding").rtol / float(limits.eps)
    return usual**2 <= float(limits.max) / 16 and largest <= most * usual
