"""The numbers of models behind something that is shifted and scaled column by column, or multiplied."""

from __future__ import annotations

from typing import Final

import numpy as np

from xoptim.match import Node

from .._folding import Array, rounded
from ._columns import DOMAIN, Steps

_SUMS: Final = ("SUM", "AVERAGE")
_FACTORS: Final = {
    ("TreeEnsembleRegressor", DOMAIN): ("target_weights", "base_values"),
    ("LinearRegressor", DOMAIN): ("coefficients", "intercepts"),
}
"""The attributes of a regressor in which a factor behind it goes."""


def numbers(values: Array) -> list[float]:
    """The value of an attribute."""
    return [float(value) for value in values.ravel()]


def is_moderate(factors: Array) -> bool:
    """Whether products with 32-bit floats overflow and vanish no sooner than those with weights that the factors are put in."""
    return bool(((np.abs(factors) >= 2.0**-63) & (np.abs(factors) <= 2.0**63)).all())


def shifted(weights: Array, intercepts: Array, found: Steps) -> tuple[Array, Array] | None:
    """The coefficients and intercepts of a linear model without the steps in front of it, ``None`` where they lose digits.

    Args:
        weights: coefficients, a row for each class, in double precision.
        intercepts: a number for each class.
        found: the steps.
    """
    scale = found.scale.astype(np.float64)
    shifts = weights * scale * found.offset
    new, terms = intercepts - shifts.sum(1), (intercepts, np.abs(shifts).sum(1))
    fitted = rounded(new, np.dtype(np.float32), terms=terms, beside=np.abs(weights).sum(1))
    factors = rounded(weights * scale, np.dtype(np.float32), summed=1)
    return None if fitted is None or factors is None or not is_moderate(scale) else (factors, fitted)


def scaled_weights(model: Node, number: float) -> dict[str, list[float]] | None:
    """The attributes of a regressor whose result is multiplied, ``None`` where it is not a sum, or the weights lose digits."""
    given = model.attribute
    sums = given.get("aggregate_function", "SUM") in _SUMS and given.get("post_transform", "NONE") == "NONE"
    keys = _FACTORS.get((model.op_type, model.domain), ())
    if not sums or not is_moderate(np.array(number)) or any(key.endswith("as_tensor") for key in given):
        return None
    found = {key: rounded(np.multiply(given[key], number), np.dtype(np.float32), summed=0) for key in keys if key in given}
    new = {key: numbers(values) for key, values in found.items() if values is not None}
    return new if len(new) == len(found) else None
