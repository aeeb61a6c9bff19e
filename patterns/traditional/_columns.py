"""Nodes that select, shift or scale columns of a model's operand, directly or before a Concat.

A *model* is a linear model, a tree ensemble or a Gemm. Its operand is a matrix with a row per
sample and a column per feature.
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

from .._channels import affine_of, varying_operand
from .._folding import Array, rounded
from .._nodes import axis_of, is_op
from ._trees import scores_every_target

DOMAIN: Final = "ai.onnx.ml"
NEAR: Final = ("Concat", "ai.onnx.ml::Scaler", "Add", "Mul", "Sub")
"""The producers in which `steps_above` finds steps."""


class _AfterColumns(EasyPatternOptimization):
    """Base of the patterns that derive new ``operands`` and ``attributes`` of a model."""

    results: ClassVar[Mapping[str, int]]
    """The number of outputs of each model: classifiers return labels and scores."""

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Any:
        name = g.choice("model", *self.results)
        return getattr(g.op, name)(x, domain=DOMAIN, attributes=ANY, outputs=self.results[name])

    def apply_pattern(
        self,
        g: PatternRewriter,
        model: str,
        operands: tuple[ColumnOperand, list[str]],
        attributes: dict[str, Any],
    ) -> Any:
        operand, sources = operands
        return getattr(g.op, model)(
            operand.rewired(g, sources), domain=DOMAIN, outputs=self.results[model], **attributes
        )


class Part(NamedTuple):
    """An operand of a model, or of the Concat before it.

    Attributes:
        name: a float32 matrix.
        node: its producer, ``None`` for a part that stays as it is.
        columns: the columns of the model's operand that the part fills.
    """

    name: str
    node: Node | None
    columns: slice


class ColumnOperand(NamedTuple):
    """The operand of a model: its parts, its number of columns, and the Concat of the parts."""

    parts: Sequence[Part]
    size: int
    concat: Node | None

    def rewired(self, g: PatternRewriter, sources: Sequence[str]) -> str:
        """The name of the operand after each part is replaced by a source with as many columns."""
        return sources[0] if self.concat is None else g.op.Concat(*sources, axis=1)

    def nodes(self, parts: Sequence[Part]) -> list[Node]:
        """The producers of the parts, and the Concat."""
        return [
            *[part.node for part in parts if part.node is not None],
            *([] if self.concat is None else [self.concat]),
        ]


def is_ml(node: Node | None, *op_types: str) -> bool:
    """Whether a node exists and is one of the operators ``op_types`` of ``ai.onnx.ml``."""
    return node is not None and node.domain == DOMAIN and node.op_type in op_types


def operand_of(g: GraphView, name: str, fits: Callable[[Node], bool]) -> ColumnOperand | None:
    """The operand of a model, and the producers that fit and have no other consumer.

    Returns:
        ``None`` if no producer fits, or a number of columns is unknown.
    """
    node = g.node_before(name)
    if node is None or not g.is_exclusive(name):
        return None
    split = is_op(node, "Concat") and g.info(name).rank == 2 and axis_of(g, node) == 1
    names = node.input if split else [name]
    parts: list[Part] = []
    start = 0
    for operand in names:
        columns = _columns(g, operand)
        producer = g.node_before(operand)
        if not isinstance(columns, int):
            return None
        fitting = (
            producer
            if producer is not None and g.is_exclusive(operand) and fits(producer)
            else None
        )
        parts.append(Part(operand, fitting, slice(start, start + columns)))
        start += columns
    return (
        ColumnOperand(parts, start, node if split else None)
        if any(part.node is not None for part in parts)
        else None
    )


def _columns(g: GraphView, name: str) -> Dim | None:
    """The number of columns of a float32 matrix, ``None`` for another tensor."""
    info = g.info(name)
    return (
        info.shape[1]
        if info.dtype == TensorProto.FLOAT and info.shape is not None and len(info.shape) == 2
        else None
    )


class ColumnSteps(NamedTuple):
    """The nodes that shift and scale the columns of an operand: ``(x - offset) · scale``.

    Attributes:
        operand: the operand of the model.
        sources: the name of each part before its step.
        offset: a finite float32 for each column of the operand.
        scale: a finite float32 for each column of the operand.
    """

    operand: ColumnOperand
    sources: list[str]
    offset: Array
    scale: Array

    @property
    def nodes(self) -> list[Node]:
        """The nodes to replace."""
        return self.operand.nodes(self.operand.parts)


def steps_above(g: GraphView, name: str) -> ColumnSteps:
    """The Scaler, Add, Mul or Sub with constants that computes each part of an operand.

    Raises:
        Declined: if no such node precedes.
    """
    operand = operand_of(g, name, lambda node: _step(g, node) is not None)
    if operand is None:
        raise Declined("no Scaler of a matrix precedes, or it has other consumers")
    offset, scale = np.zeros(operand.size, np.float32), np.ones(operand.size, np.float32)
    sources = [part.name for part in operand.parts]
    for index, part in enumerate(operand.parts):
        step = None if part.node is None else _step(g, part.node)
        if step is not None:
            sources[index], offset[part.columns], scale[part.columns] = step
    return ColumnSteps(operand, sources, offset, scale)


def _step(g: GraphView, node: Node) -> tuple[str, Array, Array] | None:
    """The operand of a Scaler, Add, Mul or Sub, and the offset and scale of each column."""
    if is_ml(node, "Scaler"):
        offset, scale = (
            np.array(node.attribute.get(key, []), np.float32) for key in ("offset", "scale")
        )
        step = (
            (node.input[0], offset, scale) if offset.shape == scale.shape and offset.size else None
        )
    else:
        step = _arithmetic(g, node)
    size = None if step is None else _columns(g, step[0])
    if (
        step is None
        or not isinstance(size, int)
        or not np.isfinite(step[1:]).all()
        or step[1].size not in (1, size)
    ):
        return None
    return step[0], np.broadcast_to(step[1], (size,)), np.broadcast_to(step[2], (size,))


def _arithmetic(g: GraphView, node: Node) -> tuple[str, Array, Array] | None:
    if not is_op(node, "Add", "Mul", "Sub"):
        return None
    operand = varying_operand(g, node)
    columns = _columns(g, operand)
    if not isinstance(columns, int):
        return None
    try:
        affine = affine_of(g, node, operand, rank=2, channels=columns)
    except Declined:
        return None
    return operand, -affine.shift, affine.scale


class Extraction(NamedTuple):
    """The indices of the columns of a matrix x that a node selects; ``size`` is the width of x."""

    node: Node
    x: str
    indices: Array
    size: int


def extraction_of(g: GraphView, name: str, *, gathers: bool = False) -> Extraction | None:
    """The columns of a matrix that an ArrayFeatureExtractor selects by constant indices.

    With ``gathers``, also the columns that a Gather selects.
    """
    node = g.node_before(name)
    if node is None or not (
        is_ml(node, "ArrayFeatureExtractor")
        or (gathers and is_op(node, "Gather") and axis_of(g, node) == 1)
    ):
        return None
    shape = g.try_infer_shape(node.input[0])
    indices = g.get_computed_constant(node.input[1])
    size = shape[1] if shape is not None and len(shape) == 2 else None
    if indices is None or not isinstance(size, int) or not indices.size or g.info(name).rank != 2:
        return None
    lowest = 0 if node.domain else -size
    if not ((indices >= lowest) & (indices < size)).all():
        return None
    return Extraction(node, node.input[0], indices.ravel().astype(np.int64) % size, size)


_SUMS: Final = ("SUM", "AVERAGE")
_FACTORS: Final = {
    ("TreeEnsembleRegressor", DOMAIN): ("target_weights", "base_values"),
    ("LinearRegressor", DOMAIN): ("coefficients", "intercepts"),
}
"""The attributes of a regressor that change if a factor after the regressor moves into them."""


def numbers(values: Array) -> list[float]:
    """The elements of an array as the value of an attribute."""
    return [float(value) for value in values.ravel()]


def is_moderate(factors: Array) -> bool:
    """Whether factors can be folded into float32 weights without new overflow or underflow."""
    return bool(((np.abs(factors) >= 2.0**-63) & (np.abs(factors) <= 2.0**63)).all())


def shifted(weights: Array, intercepts: Array, steps: ColumnSteps) -> tuple[Array, Array]:
    """The coefficients (a row per class) and intercepts of a linear model that absorbs the steps.

    Raises:
        Declined: if the new numbers lose digits.
    """
    scale = steps.scale.astype(np.float64)
    shifts = weights * scale * steps.offset
    sums, terms = intercepts - shifts.sum(1), (intercepts, np.abs(shifts).sum(1))
    fitted = rounded(sums, np.dtype(np.float32), terms=terms, other=np.abs(weights).sum(1))
    factors = rounded(weights * scale, np.dtype(np.float32), summed=1)
    if not is_moderate(scale):
        raise Declined("a scale is very large or small")
    return factors, fitted


def is_a_sum(model: Node) -> bool:
    """Whether a regressor returns the sum or the mean of float32 weights without a transform."""
    attributes = model.attribute
    sums = (
        attributes.get("aggregate_function", "SUM") in _SUMS
        and attributes.get("post_transform", "NONE") == "NONE"
    )
    return sums and not any(key.endswith("as_tensor") for key in attributes)


def scaled_targets(model: Node, number: float) -> dict[str, list[float]]:
    """The changed attributes of a regressor whose result is multiplied by a number.

    Raises:
        Declined: if the result is not a sum or mean, or the weights lose digits.
    """
    attributes = model.attribute
    keys = [key for key in _FACTORS.get((model.op_type, model.domain), ()) if key in attributes]
    if not keys or not is_a_sum(model) or not is_moderate(np.array(number)):
        raise Declined("the regressor does not sum its trees, or the factor is very large or small")
    return {
        key: numbers(rounded(np.multiply(attributes[key], number), np.dtype(np.float32), summed=0))
        for key in keys
    }


def shifted_results(model: Node, values: Array) -> dict[str, list[float]]:
    """The changed attribute of a regressor to whose result ``values`` are added.

    Raises:
        Declined: if the result is not a sum or mean, or the numbers do not fit.
    """
    name, count = (
        ("intercepts", "targets")
        if model.op_type == "LinearRegressor"
        else ("base_values", "n_targets")
    )
    targets = model.attribute.get(count, 1)
    biases = np.array(model.attribute.get(name, np.zeros(targets)), np.float64)
    if not is_a_sum(model) or biases.size != targets or values.size not in (1, targets):
        raise Declined("the regressor does not sum trees, or there is not one value per target")
    if is_ml(model, "TreeEnsembleRegressor") and not scores_every_target(model):
        raise Declined("a row may have no weight for a target")
    return {
        name: numbers(
            rounded(
                biases + values, np.dtype(np.float32), terms=(biases, values.astype(np.float64))
            )
        )
    }
