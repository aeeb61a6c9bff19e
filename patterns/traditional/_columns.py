"""Nodes before a model that take or change columns of its operand, also those before a
Concat of columns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Final, NamedTuple

import numpy as np
from onnx import TensorProto

from xoptim.facts.dims import Dim
from xoptim.facts.errors import Declined
from xoptim.match import (
    ANY,
    EasyPatternOptimization,
    GraphView,
    Node,
    PatternBuilder,
    PatternRewriter,
    Symbol,
)

from .._folding import Array, rounded
from .._nodes import axis_of, is_op
from ._trees import scores_every_target

DOMAIN: Final = "ai.onnx.ml"
NEAR: Final = ("Concat", "ai.onnx.ml::Scaler", "Add", "Mul", "Sub")
"""The nodes that may precede a model for `steps_above` to find steps."""


class _AfterColumns(EasyPatternOptimization):
    """The common part of patterns that derive other attributes, ``given``, for a model that reads
    other columns.

    The nodes before the model are found by `operand_of`; what they computed is not read any
    more.
    """

    results: ClassVar[Mapping[str, int]]
    """The number of results of each model: classifiers give labels and scores."""

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Any:
        name = g.choice("model", *self.results)
        return getattr(g.op, name)(x, domain=DOMAIN, attributes=ANY, outputs=self.results[name])

    def apply_pattern(
        self,
        g: PatternRewriter,
        model: str,
        read: tuple[ColumnOperand, list[str]],
        given: dict[str, Any],
    ) -> Any:
        operand, sources = read
        return getattr(g.op, model)(
            operand.rewired(g, sources), domain=DOMAIN, outputs=self.results[model], **given
        )


class Part(NamedTuple):
    """An operand of a model, or of the Concat before it.

    Attributes:
        name: a matrix of 32-bit floats.
        node: what computes it, ``None`` for an operand that stays as it is.
        columns: the columns of the operand of the model that it gives.
    """

    name: str
    node: Node | None
    columns: slice


class ColumnOperand(NamedTuple):
    """The operand of a model: its parts, their number of columns, and the Concat that puts several
    parts together.
    """

    parts: Sequence[Part]
    size: int
    concat: Node | None

    def rewired(self, g: PatternRewriter, sources: Sequence[str]) -> str:
        """The operand with other parts, which have as many columns.

        The nodes are added to those that were created.
        """
        return sources[0] if self.concat is None else g.op.Concat(*sources, axis=1)

    def nodes(self, parts: Sequence[Part]) -> list[Node]:
        """The nodes of some parts, and the Concat."""
        return [
            *[part.node for part in parts if part.node is not None],
            *([] if self.concat is None else [self.concat]),
        ]


def is_ml(node: Node | None, *op_types: str) -> bool:
    """Whether the node exists and is one of these operators of ``ai.onnx.ml``."""
    return node is not None and node.domain == DOMAIN and node.op_type in op_types


def operand_of(g: GraphView, name: str, fits: Callable[[Node], bool]) -> ColumnOperand | None:
    """The operand of a model, if a node computes it, or a part of it, that fits and that nothing
    else reads.

    Returns:
        Parts without a node where no such node computes them; ``None`` where that is so of all, or
        where the numbers of columns
        are unknown.
    """
    node = g.node_before(name)
    if node is None or not g.is_exclusive(name):
        return None
    split = is_op(node, "Concat") and g.info(name).rank == 2 and axis_of(g, node) == 1
    names = node.input if split else [name]
    parts: list[Part] = []
    place = 0
    for each in names:
        columns = _columns(g, each)
        maker = g.node_before(each)
        if not isinstance(columns, int):
            return None
        fitting = maker if maker is not None and g.is_exclusive(each) and fits(maker) else None
        parts.append(Part(each, fitting, slice(place, place + columns)))
        place += columns
    return (
        ColumnOperand(parts, place, node if split else None)
        if any(part.node is not None for part in parts)
        else None
    )


def _columns(g: GraphView, name: str) -> Dim | None:
    """The number of columns of a matrix of 32-bit floats, ``None`` for another result."""
    info = g.info(name)
    return (
        info.shape[1]
        if info.dtype == TensorProto.FLOAT and info.shape is not None and len(info.shape) == 2
        else None
    )


class ColumnSteps(NamedTuple):
    """The nodes that shift and scale columns of a model: ``(x - offset) · scale``.

    Attributes:
        operand: the operand of the model.
        sources: the name of each part before its step.
        offset: a number for each column of the operand, in single precision; finite.
        scale: likewise.
    """

    operand: ColumnOperand
    sources: list[str]
    offset: Array
    scale: Array

    @property
    def nodes(self) -> list[Node]:
        """The nodes that are replaced."""
        return self.operand.nodes(self.operand.parts)


def steps_above(g: GraphView, name: str) -> ColumnSteps:
    """The last Scaler, Add, Mul or Sub with constants before each part of an operand.

    Raises `Declined` without any.
    """
    operand = operand_of(g, name, lambda node: _step(g, node) is not None)
    if operand is None:
        raise Declined("no Scaler of a matrix precedes, or it has other consumers")
    offset, scale = np.zeros(operand.size, np.float32), np.ones(operand.size, np.float32)
    sources = [part.name for part in operand.parts]
    for place, part in enumerate(operand.parts):
        step = None if part.node is None else _step(g, part.node)
        if step is not None:
            sources[place], offset[part.columns], scale[part.columns] = step
    return ColumnSteps(operand, sources, offset, scale)


def _step(g: GraphView, node: Node) -> tuple[str, Array, Array] | None:
    """The operand of a step, its offsets and scales."""
    if is_ml(node, "Scaler"):
        offset, scale = (
            np.array(node.attribute.get(each, []), np.float32) for each in ("offset", "scale")
        )
        found = (
            (node.input[0], offset, scale) if offset.shape == scale.shape and offset.size else None
        )
    else:
        found = _arithmetic(g, node)
    size = None if found is None else _columns(g, found[0])
    if (
        found is None
        or not isinstance(size, int)
        or not np.isfinite(found[1:]).all()
        or found[1].size not in (1, size)
    ):
        return None
    return found[0], np.broadcast_to(found[1], (size,)), np.broadcast_to(found[2], (size,))


def _arithmetic(g: GraphView, node: Node) -> tuple[str, Array, Array] | None:
    if not is_op(node, "Add", "Mul", "Sub"):
        return None
    place = next((i for i in (1, 0) if g.is_constant(node.input[i])), None)
    value = None if place is None else g.get_computed_constant(node.input[place])
    if place is None or value is None or (node.op_type == "Sub" and place == 0):
        return None
    if value.dtype != np.float32 or value.ndim > 2 or value.size != (value.shape or (1,))[-1]:
        return None
    numbers = value.ravel()
    if node.op_type == "Mul":
        return node.input[0 if place else 1], np.zeros_like(numbers), numbers
    return (
        node.input[0 if place else 1],
        -numbers if node.op_type == "Add" else numbers,
        np.ones_like(numbers),
    )


class Extraction(NamedTuple):
    """The columns that a node takes of a tensor x of two axes, counted from the front, and how many
    columns x has.
    """

    node: Node
    x: str
    places: Array
    size: int


def extraction_of(g: GraphView, name: str, *, gathers: bool = False) -> Extraction | None:
    """The ArrayFeatureExtractor (or Gather, with ``gathers``) with constant indices that takes a
    result from a matrix.
    """
    node = g.node_before(name)
    if node is None or not (
        is_ml(node, "ArrayFeatureExtractor")
        or (gathers and is_op(node, "Gather") and axis_of(g, node) == 1)
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
    """Whether products with 32-bit floats overflow and vanish no sooner than those with weights
    that the factors are put in.
    """
    return bool(((np.abs(factors) >= 2.0**-63) & (np.abs(factors) <= 2.0**63)).all())


def shifted(weights: Array, intercepts: Array, found: ColumnSteps) -> tuple[Array, Array]:
    """The coefficients, a row for each class, and intercepts of a linear model without the steps in
    front of it.

    Raises:
        Declined: when the new numbers lose digits.
    """
    scale = found.scale.astype(np.float64)
    shifts = weights * scale * found.offset
    new, terms = intercepts - shifts.sum(1), (intercepts, np.abs(shifts).sum(1))
    fitted = rounded(new, np.dtype(np.float32), terms=terms, other=np.abs(weights).sum(1))
    factors = rounded(weights * scale, np.dtype(np.float32), summed=1)
    if not is_moderate(scale):
        raise Declined("a scale is very large or small")
    return factors, fitted


def is_a_sum(model: Node) -> bool:
    """Whether a regressor adds numbers of 32 bits up, and gives the sum, or the mean of the trees,
    as it is.
    """
    given = model.attribute
    sums = (
        given.get("aggregate_function", "SUM") in _SUMS
        and given.get("post_transform", "NONE") == "NONE"
    )
    return sums and not any(key.endswith("as_tensor") for key in given)


def scaled_weights(model: Node, number: float) -> dict[str, list[float]]:
    """The attributes of a regressor whose result is multiplied.

    Raises:
        Declined: when it is not a sum, or the weights lose digits.
    """
    given = model.attribute
    keys = [key for key in _FACTORS.get((model.op_type, model.domain), ()) if key in given]
    if not keys or not is_a_sum(model) or not is_moderate(np.array(number)):
        raise Declined("the regressor does not sum its trees, or the factor is very large or small")
    return {
        key: numbers(rounded(np.multiply(given[key], number), np.dtype(np.float32), summed=0))
        for key in keys
    }


def shifted_results(model: Node, values: Array) -> dict[str, list[float]]:
    """The attribute of a regressor to whose result numbers are added.

    Raises:
        Declined: when it is not a sum, or the numbers do not fit.
    """
    name, count = (
        ("intercepts", "targets")
        if model.op_type == "LinearRegressor"
        else ("base_values", "n_targets")
    )
    targets = model.attribute.get(count, 1)
    before = np.array(model.attribute.get(name, np.zeros(targets)), np.float64)
    if not is_a_sum(model) or before.size != targets or values.size not in (1, targets):
        raise Declined("the regressor does not sum trees, or there is not one value per target")
    if is_ml(model, "TreeEnsembleRegressor") and not scores_every_target(model):
        raise Declined("a row may have no weight for a target")
    return {
        name: numbers(
            rounded(
                before + values, np.dtype(np.float32), terms=(before, values.astype(np.float64))
            )
        )
    }
