"""The numbers of models after something that is shifted and scaled column by column, or multiplied."""

from typing import Final

import numpy as np

from xoptim.facts.errors import Declined
from xoptim.match import Node

from .._folding import Array, rounded
from ._columns import DOMAIN, Steps, is_ml
from ._trees import scores_every_target

_SUMS: Final = ("SUM", "AVERAGE")
_FACTORS: Final = {
    ("TreeEnsembleRegressor", DOMAIN): ("target_weights", "base_values"),
    ("LinearRegressor", DOMAIN): ("coefficients", "intercepts"),
}
"""The attributes of a regressor that a factor after it is merged into."""


def numbers(values: Array) -> list[float]:
    """The value of an attribute."""
    return [float(value) for value in values.ravel()]


def is_moderate(factors: Array) -> bool:
    """Whether products with 32-bit floats overflow and vanish no sooner than those with weights that the factors are put in."""
    return bool(((np.abs(factors) >= 2.0**-63) & (np.abs(factors) <= 2.0**63)).all())


def shifted(weights: Array, intercepts: Array, found: Steps) -> tuple[Array, Array]:
    """The coefficients, a row for each class, and intercepts of a linear model without the steps in front of it.

    Raises:
        Declined: when the new numbers lose digits.
    """
    scale = found.scale.astype(np.float64)
    shifts = weights * scale * found.offset
    new, terms = intercepts - shifts.sum(1), (intercepts, np.abs(shifts).sum(1))
    fitted = rounded(new, np.dtype(np.float32), terms=terms, beside=np.abs(weights).sum(1))
    factors = rounded(weights * scale, np.dtype(np.float32), summed=1)
    if not is_moderate(scale):
        raise Declined("a scale is very large or small")
    return factors, fitted


def is_a_sum(model: Node) -> bool:
    """Whether a regressor adds numbers of 32 bits up, and gives the sum, or the mean of the trees, as it is."""
    given = model.attribute
    sums = given.get("aggregate_function", "SUM") in _SUMS and given.get("post_transform", "NONE") == "NONE"
    return sums and not any(key.endswith("as_tensor") for key in given)


def scaled_weights(model: Node, number: float) -> dict[str, list[float]]:
    """The attributes of a regressor whose result is multiplied.

    Raises:
        Declined: when it is not a sum, or the weights lose digits.
    """
    given = model.attribute
    keys = [key for key in _FACTORS.get((model.op_type, model.domain), ()) if key in given]
    if not keys or not is_a_sum(model) or not is_moderate(np.array(number)):
        raise Declined("the regressor is not a sum, or the factor is very large or small")
    return {key: numbers(rounded(np.multiply(given[key], number), np.dtype(np.float32), summed=0)) for key in keys}


def shifted_results(model: Node, values: Array) -> dict[str, list[float]]:
    """The attribute of a regressor to whose result numbers are added.

    Raises:
        Declined: when it is not a sum, or the numbers do not fit.
    """
    name, count = ("intercepts", "targets") if model.op_type == "LinearRegressor" else ("base_values", "n_targets")
    targets = model.attribute.get(count, 1)
    before = np.array(model.attribute.get(name, np.zeros(targets)), np.float64)
    if not is_a_sum(model) or before.size != targets or values.size not in (1, targets):
        raise Declined("the regressor is not a sum, or there is not one number for each target")
    if is_ml(model, "TreeEnsembleRegressor") and not scores_every_target(model):
        raise Declined("a row may have no weight for a target")
    return {name: numbers(rounded(before + values, np.dtype(np.float32), terms=(before, values.astype(np.float64))))}
