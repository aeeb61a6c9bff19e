"""Biases of keys and values: conditions for dropping a bias, and the new bias of the output."""

from typing import Final

import ml_dtypes
import numpy as np

from xoptim.facts.dtypes import is_float, numpy_dtype, tolerance
from xoptim.facts.errors import Declined
from xoptim.match import GraphView, Match

from .._folding import Array, constant, doubles, rounded

_FLOAT32_BYTES: Final = 4
"""Weights of fewer bytes become float32 before their squares are summed."""


def require_moderate(g: GraphView, bias: str, weight: str) -> None:
    """Raise `Declined` unless the bias of a linear layer x @ w + b is small compared with x @ w.

    A sum with a large bias loses digits of x @ w. The elements of x are assumed to be about 1. Then
    x @ w is about as large as the norms of the columns of ``weight``. The bias may be 84 times as
    large in float32, and 8 times in float16. Both constants must be finite, and stored in the
    model. The weight must be a matrix.
    """
    dtype, shape = g.try_infer_type(bias), g.static_shape(weight)
    if not is_float(dtype) or shape is None or len(shape) != 2:
        raise Declined("the weight is not a matrix, or the bias is not in floating point")
    if not all(map(g.is_stored, (bias, weight))):
        raise Declined("a bias or a weight is computed, or in more than 2 GiB of external data")
    matrix, largest = constant(g, weight), float(np.abs(doubles(g, bias)).max(initial=0))
    matrix = matrix if matrix.dtype.itemsize >= _FLOAT32_BYTES else matrix.astype(np.float32)
    limits = ml_dtypes.finfo(numpy_dtype(dtype))  # type: ignore[no-untyped-call]
    with np.errstate(all="ignore"):  # the sum is NaN or infinite where a weight is
        norm = float(np.einsum("ij,ij->j", matrix, matrix).max(initial=0)) ** 0.5
    max_ratio = tolerance(dtype, "rounding").rtol / float(limits.eps)
    if not (norm**2 <= float(limits.max) / 16 and largest <= max_ratio * norm):
        raise Declined("a bias or a weight is not finite, or a bias is too large")


def output_bias(g: GraphView, m: Match) -> Array:
    """The bias b @ u + c of the output layer, which includes the bias ``b`` of the values.

    Raises `Declined` where a bias is too large, or the sum leaves the range of its type or cancels.
    """
    require_moderate(g, m.b, m.w)
    require_moderate(g, m.c, m.u)
    terms = (doubles(g, m.b).reshape(-1) @ doubles(g, m.u), doubles(g, m.c))
    return rounded(terms[0] + terms[1], constant(g, m.c).dtype, terms=terms)
