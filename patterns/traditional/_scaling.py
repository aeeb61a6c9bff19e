"""The numbers of a Scaler, (x - offset) · scale for each column, and of the models behind it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final, NamedTuple

import numpy as np
from onnx import TensorProto

from xoptim.match import ANY, GraphView, Node, PatternBuilder, PatternRewriter, Symbol

from .._folding import Array, rounded

DOMAIN: Final = "ai.onnx.ml"
_SUMS: Final = ("SUM", "AVERAGE")
_FACTORS: Final = {
    ("TreeEnsembleRegressor", DOMAIN): ("target_weights", "base_values"),
    ("LinearRegressor", DOMAIN): ("coefficients", "intercepts"),
}
"""The attributes of a regressor in which a factor behind it goes."""


class BehindScaler:
    """The common part of patterns that derive other numbers, ``given``, for a model of `results` behind a Scaler."""

    results: ClassVar[Mapping[str, int]]
    """The number of results of each model: classifiers give labels and scores."""

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Any:
        """Any attributes."""
        name = g.choice("model", *self.results)
        scaled = g.op.Scaler(x, domain=DOMAIN, attributes=ANY)
        return getattr(g.op, name)(scaled, domain=DOMAIN, attributes=ANY, outputs=self.results[name])

    def apply_pattern(self, g: PatternRewriter, x: str, model: str, given: dict[str, Any]) -> Any:
        """The model with its new numbers."""
        return getattr(g.op, model)(x, domain=DOMAIN, outputs=self.results[model], **given)


class Scaler(NamedTuple):
    """A Scaler that one node reads.

    Attributes:
        node: the Scaler.
        offset: a number for each column, in single precision.
        scale: likewise; finite.
    """

    node: Node
    offset: Array
    scale: Array


def scaler_above(g: GraphView, name: str) -> Scaler | None:
    """The Scaler that computes a result from a matrix of 32-bit floats, if nothing else reads the result."""
    node = g.node_before(name)
    if node is None or (node.op_type, node.domain) != ("Scaler", DOMAIN) or not g.is_exclusive(name):
        return None
    x = g.info(node.input[0])
    offset, scale = (np.array(node.attribute.get(each, []), np.float32) for each in ("offset", "scale"))
    if x.dtype != TensorProto.FLOAT or x.shape is None or len(x.shape) != 2 or offset.shape != scale.shape:
        return None
    columns = x.shape[1] if offset.size == 1 else offset.size
    if not isinstance(columns, int) or not offset.size or not np.isfinite([offset, scale]).all():
        return None
    return Scaler(node, np.broadcast_to(offset, (columns,)), np.broadcast_to(scale, (columns,)))


def numbers(values: Array) -> list[float]:
    """The value of an attribute."""
    return [float(value) for value in values.ravel()]


def is_moderate(factors: Array) -> bool:
    """Whether products with 32-bit floats overflow and vanish no sooner than those with weights that the factors are put in."""
    return bool(((np.abs(factors) >= 2.0**-63) & (np.abs(factors) <= 2.0**63)).all())


def shifted(weights: Array, intercepts: Array, found: Scaler) -> tuple[Array, Array] | None:
    """The coefficients and intercepts of a linear model without the Scaler in front of it, ``None`` where they lose digits.

    Args:
        weights: coefficients, a row for each class, in double precision.
        intercepts: a number for each class.
        found: the Scaler.
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
