"""Biases of keys and values: conditions, and where the one of the values goes."""

from typing import Final

import ml_dtypes
import numpy as np

from xoptim.facts.dtypes import is_float, numpy_dtype, tolerance
from xoptim.facts.errors import Declined
from xoptim.match import GraphView, Match

from .._folding import Array, constant, doubles, rounded

_WIDE: Final = 4
"""Bytes of an element whose squares may be summed in its own type."""


def require_moderate(g: GraphView, bias: str, weight: str) -> None:
    """Raise `Declined` unless a bias, stored in the model itself, has the size of the numbers that
    it is added to.

    It does not round their sums then. The input of the layer is taken to be of the size of 1.
    """
    dtype, shape = g.try_infer_type(bias), g.static_shape(weight)
    if (
        not is_float(dtype)
        or shape is None
        or len(shape) != 2
        or not all(map(g.is_stored, (bias, weight)))
    ):
        raise Declined("a bias or a weight is computed, or in external data")
    matrix, largest = constant(g, weight), float(np.abs(doubles(g, bias)).max(initial=0))
    matrix = matrix if matrix.dtype.itemsize >= _WIDE else matrix.astype(np.float32)
    limits = ml_dtypes.finfo(numpy_dtype(dtype))  # type: ignore[no-untyped-call]
    with np.errstate(all="ignore"):  # the sum is NaN or infinite where a weight is
        usual = float(np.einsum("ij,ij->j", matrix, matrix).max(initial=0)) ** 0.5
    most = tolerance(dtype, "rounding").rtol / float(limits.eps)
    if not (usual**2 <= float(limits.max) / 16 and largest <= most * usual):
        raise Declined("a bias or a weight is not finite, or a bias is too large")


def output_bias(g: GraphView, m: Match) -> Array:
    """The bias ``c`` of the output layer with weights ``u``, with the bias ``b`` of the values,
    whose weights are ``w``, in it: b @ u + c.

    Raises `Declined` where a bias is too large, or the sum leaves the range of its type or cancels.
    """
    require_moderate(g, m.b, m.w)
    require_moderate(g, m.c, m.u)
    term, present = doubles(g, m.b).reshape(-1) @ doubles(g, m.u), doubles(g, m.c)
    return rounded(term + present, constant(g, m.c).dtype, terms=(term, present))
