"""Biases of the keys and of the values of an attention."""

from __future__ import annotations

import math
from collections.abc import Sequence

import ml_dtypes
import numpy as np

from xoptim.facts.dims import Dim
from xoptim.facts.dtypes import is_float, numpy_dtype, tolerance
from xoptim.match import GraphView

from .._folding import doubles


def spreads_over_heads(g: GraphView, bias: str, biased: str, heads: Sequence[Dim]) -> bool:
    """Whether a bias is one number for each feature of a linear layer, which are split into heads and features of a head.

    Args:
        g: the graph.
        bias: the bias.
        biased: the result of the layer, of rank 3.
        heads: the number of heads, and the number of features of each, behind the Reshape.
    """
    shape, given = g.static_shape(bias), g.try_infer_shape(biased)
    if not shape or given is None or len(given) != 3 or len(heads) != 2 or not all(isinstance(dim, int) for dim in heads):
        return False
    features = math.prod(int(str(dim)) for dim in heads)
    return len(shape) <= 3 and math.prod(shape) == shape[-1] == given[-1] == features > 0


def is_moderate(g: GraphView, bias: str, weight: str) -> bool:
    """Whether a bias is of the size of the numbers it is added to, so that it does not determine how their sums are rounded.

    Args:
        g: the graph.
        bias: the bias.
        weight: the matrix of the linear layer, whose input is taken to be of the size of 1.
    """
    dtype, shape = g.try_infer_type(bias), g.static_shape(weight)
    if not is_float(dtype) or shape is None or len(shape) != 2:
        return False
    matrix, added = doubles(g, weight), doubles(g, bias)
    if not np.isfinite(matrix).all() or not np.isfinite(added).all():
        return False
    limits = ml_dtypes.finfo(numpy_dtype(dtype))  # type: ignore[no-untyped-call]
    usual = np.sqrt(np.square(matrix).sum(axis=0)).max()
    most = tolerance(dtype, "rounding").rtol / float(limits.eps)
    return bool(np.abs(added).max() <= most * usual) and usual**2 <= float(limits.max) / 16
