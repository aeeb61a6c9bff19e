"""Tree ensembles that absorb the producer of their operand."""

import numpy as np
from onnx import TensorProto

from xoptim.match import Example, GraphView, Match

from .._folding import Array
from ._columns import (
    ColumnOperand,
    Part,
    _AfterColumns,
    extraction_of,
    is_ml,
    numbers,
    operand_of,
    steps_above,
)
from ._trees import STRICT, STUMP, TREES, comparisons, decisions

_INFINITY = int(np.array(np.inf, np.float32).view(np.int32))
"""The position of infinity in the order of all float32 values."""


class _TreeEnsembleOperand(_AfterColumns):
    """A tree ensemble and the producers of its operand."""

    results = TREES


class ExtractorTreeEnsemblePattern(_TreeEnsembleOperand):
    """TreeEnsembleRegressor(ArrayFeatureExtractor(x, i)) → TreeEnsembleRegressor(x). The same for
    Gather.

    What: compares the columns of x instead of their copies. The same for a TreeEnsembleClassifier.
    Why: the columns are not copied. Measured 0.98 of the time of ten trees (1,000 rows) to 0.90
    (one row).
    Refuses when:
    1. x is not a float32 matrix with a known number of columns, or the indices are not constant.
    2. a node compares for equality, or with a threshold that is float64 or not finite.
    """

    derives = ("operands", "attributes")

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        # Leaves compare no column: their index is 0.
        node = m.nodes[0]
        extraction = extraction_of(g, m.x, gathers=True)
        if extraction is None or g.info(extraction.x).dtype != TensorProto.FLOAT:  # (1)
            return self.none(
                node, msg="no node selects columns of a float32 matrix at constant indices"
            )
        nodes = comparisons(node, extraction.indices.size)  # (2)
        columns = [0] * nodes.all_limits.size
        for index, column in zip(
            nodes.inner.tolist(), extraction.indices[nodes.columns].tolist(), strict=True
        ):
            columns[index] = column
        operands = (
            ColumnOperand(
                [Part(extraction.x, None, slice(0, extraction.size))], extraction.size, None
            ),
            [extraction.x],
        )
        return m.derive(
            operands=operands, attributes={**node.attribute, "nodes_featureids": columns}
        )

    _start, _regressor = (
        "agraph (float[a,4] x) => (float[a,1] y)",
        "ai.onnx.ml.TreeEnsembleRegressor",
    )
    examples = Example.only(
        f"{_start} <int64[2] i = {{3, 1}}> {{ t = ai.onnx.ml.ArrayFeatureExtractor(x, i) "
        f"y = {_regressor} <{STUMP}, nodes_values = [0.5, 0.0, 0.0]> (t) }}",
        f"{{ y = {_regressor} <{STUMP}, nodes_values = [0.5, 0.0, 0.0]> (x) }}",
    )


class ImputerTreeEnsemblePattern(_TreeEnsembleOperand):
    """TreeEnsembleRegressor(Imputer(x)) → TreeEnsembleRegressor(x). The same for
    TreeEnsembleClassifier, and after a Concat.

    What: sends NaN, in each comparison, to the branch that the imputed value would take.
    Why: measured 0.96 of the time of ten trees (1,000 rows) to 0.91 (one row).
    Refuses when:
    1. the operand, or a part of it, is not a float32 matrix, or the imputed operand has other
       consumers.
    2. the Imputer replaces another value than NaN, or does not have a finite value for each column.
    3. a node compares for equality, or with a threshold that is float64 or not finite.
    """

    derives = ("operands", "attributes")

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        node = m.nodes[0]
        operand = operand_of(
            g,
            m.x,
            lambda producer: (
                is_ml(producer, "Imputer")
                and bool(np.isnan(producer.attribute.get("replaced_value_float", 0.0)))
            ),
        )
        if operand is None:  # (1) (2)
            return self.none(
                node, msg="no Imputer of NaN in a matrix precedes, or it has other consumers"
            )
        nodes = comparisons(node, operand.size)  # (3)
        column_values = np.full(operand.size, np.nan, np.float32)
        for part in operand.parts:
            if part.node is not None:
                values = np.array(part.node.attribute.get("imputed_value_floats", []), np.float32)
                # (2)
                if (
                    values.size not in (1, column_values[part.columns].size)
                    or not np.isfinite(values).all()
                ):
                    return self.none(
                        part.node, msg="the imputed values are not one finite value per column"
                    )
                column_values[part.columns] = values
        directions = np.array(
            node.attribute.get("nodes_missing_value_tracks_true", np.zeros(nodes.all_limits.size)),
            np.int64,
        )
        if directions.shape != nodes.all_limits.shape:  # (3)
            return self.none(
                node, msg="nodes_missing_value_tracks_true does not have one value per node"
            )
        imputed = column_values[nodes.columns]
        directions[nodes.inner] = np.where(
            np.isnan(imputed), directions[nodes.inner], decisions(nodes, imputed)
        )
        sources = [part.name if part.node is None else part.node.input[0] for part in operand.parts]
        return m.derive(
            operands=(operand, sources),
            attributes={**node.attribute, "nodes_missing_value_tracks_true": directions.tolist()},
        )

    _tree = f"{STUMP}, nodes_values = [0.5, 0.0, 0.0]"
    _start = "agraph (float[a,2] x) => (float[a,1] y) {"
    examples = Example.only(
        f"{_start} t = ai.onnx.ml.Imputer <imputed_value_floats = [1.0, 0.25], "
        f"replaced_value_float = nan> (x) y = ai.onnx.ml.TreeEnsembleRegressor <{_tree}> (t) }}",
        f"{_start} y = ai.onnx.ml.TreeEnsembleRegressor <{_tree}, "
        "nodes_missing_value_tracks_true = [1, 0, 0]> (x) }",
    )


class ScalerTreeEnsemblePattern(_TreeEnsembleOperand):
    """TreeEnsembleRegressor(Scaler(x)) → TreeEnsembleRegressor(x). The same for Add, Mul and Sub,
    and after a Concat.

    What: replaces each threshold by a threshold for the unscaled column, with the same decision for
    every float. The same for a TreeEnsembleClassifier. After a Concat of columns, each part may
    have a Scaler, Add, Mul or Sub of its own.
    Why: measured 0.59 of the time of ten trees (1,000 rows) to 0.90 (one row).
    Refuses when:
    1. the operand, or a part of it, is not a float32 matrix, or the scaled operand has other
       consumers.
    2. a node compares for equality, or with a threshold that is float64 or not finite. Or a scale
       is not positive.
    """

    derives = ("operands", "attributes")

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        # Leaves keep their thresholds, which no comparison reads.
        node = m.nodes[0]
        steps = steps_above(g, m.x)  # (1)
        nodes = comparisons(node, steps.scale.size)  # (2)
        offset, scale = steps.offset[nodes.columns], steps.scale[nodes.columns]
        if not (scale > 0).all():  # (2)
            return self.none(node, msg="a scale is not positive")
        limits = nodes.all_limits.copy()
        limits[nodes.inner] = _thresholds_before(
            limits[nodes.inner], offset, scale, np.isin(nodes.modes, STRICT)
        )
        return m.derive(
            operands=(steps.operand, steps.sources),
            attributes={**node.attribute, "nodes_values": numbers(limits)},
        )

    _start = "agraph (float[a,2] x) => (float[a,1] y) {"
    examples = Example.only(
        f"{_start} t = ai.onnx.ml.Scaler <offset = [1.0, 0.5], scale = [1.0, 2.0]> (x) "
        f"y = ai.onnx.ml.TreeEnsembleRegressor <nodes_values = [0.5, 0.0, 0.0], {STUMP}> (t) }}",
        f"{_start} y = ai.onnx.ml.TreeEnsembleRegressor <nodes_values = [0.75, 0.0, 0.0], "
        f"{STUMP}> (x) }}",
    )


def _float(keys: Array) -> Array:
    """The float32 values at positions in the order of all floats. 0.0 is at position 0."""
    return (
        np.where(keys < 0, np.int64(-0x80000000) - keys, keys)
        .astype(np.int64)
        .astype(np.int32)
        .view(np.float32)
    )


@np.errstate(all="ignore")
def _thresholds_before(limits: Array, offset: Array, scale: Array, strict: Array) -> Array:
    """The thresholds that decide the same for the operand of the Scaler.

    In float32, ``(x - offset) · scale`` never decreases as x grows: each operation rounds to
    nearest, and the scale is positive. So there is a largest float whose scaled value is at most
    the threshold. For < and >= (``strict``), its scaled value is below the threshold, and the
    result is the next larger float. Bisection finds this float in 33 steps, with the arithmetic of
    the runtime.
    """
    low, high = (np.full(limits.shape, bound, np.int64) for bound in (-_INFINITY, _INFINITY))
    for _ in range(33):
        middle = (low + high + 1) >> 1
        image = (_float(middle) - offset) * scale
        fits = np.where(strict, image < limits, image <= limits)
        low, high = np.where(fits, middle, low), np.where(fits, high, middle - 1)
    return _float(np.where(strict, low + 1, low))
