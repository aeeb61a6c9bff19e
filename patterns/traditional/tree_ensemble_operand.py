"""Trees that read other columns, with other comparisons."""

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


class _TreeEnsembleOperand(_AfterColumns):
    """An ensemble of trees and the nodes before it."""

    results = TREES


class ExtractorTreeEnsemblePattern(_TreeEnsembleOperand):
    """TreeEnsembleRegressor(ArrayFeatureExtractor(x, i)) → TreeEnsembleRegressor(x), and so for
    Gather

    What: numbers the columns that are compared as in x, also for a TreeEnsembleClassifier.
    Why: the columns are not copied: measured 0.98 of the time of ten trees (1,000 rows) to 0.90
    (one row).
    Refuses when:
    1. x is not a matrix of 32-bit floats with a known number of columns, or the columns that are
       taken are not constant.
    2. a node compares for equality, or with a number that is not finite or has 64 bits.
    """

    derives = ("read", "given")

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        # Leaves compare nothing; their column is 0.
        node = m.nodes[0]
        found = extraction_of(g, m.x, gathers=True)
        if found is None or g.info(found.x).dtype != TensorProto.FLOAT:  # (1)
            return self.none(node, msg="the operand is not constant columns of a float32 matrix")
        nodes = comparisons(node, found.places.size)  # (2)
        columns = [0] * nodes.all_limits.size
        for place, column in zip(
            nodes.inner.tolist(), found.places[nodes.columns].tolist(), strict=True
        ):
            columns[place] = column
        read = (
            ColumnOperand([Part(found.x, None, slice(0, found.size))], found.size, None),
            [found.x],
        )
        return m.derive(read=read, given={**node.attribute, "nodes_featureids": columns})

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
    """TreeEnsembleRegressor(Imputer(x)) → TreeEnsembleRegressor(x), and so for
    TreeEnsembleClassifier, and after a Concat

    What: a comparison with a missing value, NaN, takes the way that the number takes which the
    Imputer puts in its place.
    Why: measured 0.96 of the time of ten trees (1,000 rows) to 0.91 (one row).
    Refuses when:
    1. the operand, or a part of it, is not a matrix of 32-bit floats, or something else reads the
       one without NaN.
    2. the Imputer replaces another value than NaN, or does not have a finite number for each
       column.
    3. a node compares for equality, or with a number that is not finite or has 64 bits.
    """

    derives = ("read", "given")

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        node = m.nodes[0]
        found = operand_of(
            g,
            m.x,
            lambda each: (
                is_ml(each, "Imputer")
                and bool(np.isnan(each.attribute.get("replaced_value_float", 0.0)))
            ),
        )
        if found is None:  # (1) (2)
            return self.none(
                node, msg="no Imputer of NaN in a matrix precedes, or it has other consumers"
            )
        nodes = comparisons(node, found.size)  # (3)
        numbers = np.full(found.size, np.nan, np.float32)
        for part in found.parts:
            if part.node is not None:
                values = np.array(part.node.attribute.get("imputed_value_floats", []), np.float32)
                # (2)
                if (
                    values.size not in (1, numbers[part.columns].size)
                    or not np.isfinite(values).all()
                ):
                    return self.none(
                        part.node, msg="the imputed values are not one finite value per column"
                    )
                numbers[part.columns] = values
        ways = np.array(
            node.attribute.get("nodes_missing_value_tracks_true", np.zeros(nodes.all_limits.size)),
            np.int64,
        )
        if ways.shape != nodes.all_limits.shape:  # (3)
            return self.none(
                node, msg="nodes_missing_value_tracks_true does not have one value per node"
            )
        instead = numbers[nodes.columns]
        ways[nodes.inner] = np.where(
            np.isnan(instead), ways[nodes.inner], decisions(nodes, instead)
        )
        sources = [part.name if part.node is None else part.node.input[0] for part in found.parts]
        return m.derive(
            read=(found, sources),
            given={**node.attribute, "nodes_missing_value_tracks_true": ways.tolist()},
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
    """TreeEnsembleRegressor(Scaler(x)) → TreeEnsembleRegressor(x), and so for Add, Mul and Sub, and
    after a Concat

    What: replaces each threshold by the one with which the column, not yet scaled, gives the same
    decision for every float, also of a TreeEnsembleClassifier. Of a Concat of columns, each part
    may have a Scaler, Add, Mul or Sub of its own.
    Why: measured 0.59 of the time of ten trees (1,000 rows) to 0.90 (one row).
    Refuses when:
    1. the operand, or a part of it, is not a matrix of 32-bit floats, or something else reads the
       scaled one.
    2. a node compares for equality, or with a number that is not finite or has 64 bits; or a scale
       is not positive.
    """

    derives = ("read", "given")

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        # Leaves keep their numbers, which nothing reads.
        node = m.nodes[0]
        found = steps_above(g, m.x)  # (1)
        nodes = comparisons(node, found.scale.size)  # (2)
        offset, scale = found.offset[nodes.columns], found.scale[nodes.columns]
        if not (scale > 0).all():  # (2)
            return self.none(node, msg="a scale is not positive")
        limits = nodes.all_limits.copy()
        limits[nodes.inner] = _thresholds_before(
            limits[nodes.inner], offset, scale, np.isin(nodes.modes, STRICT)
        )
        return m.derive(
            read=(found.operand, found.sources),
            given={**node.attribute, "nodes_values": numbers(limits)},
        )

    _start = "agraph (float[a,2] x) => (float[a,1] y) {"
    examples = Example.only(
        f"{_start} t = ai.onnx.ml.Scaler <offset = [1.0, 0.5], scale = [1.0, 2.0]> (x) "
        f"y = ai.onnx.ml.TreeEnsembleRegressor <nodes_values = [0.5, 0.0, 0.0], {STUMP}> (t) }}",
        f"{_start} y = ai.onnx.ml.TreeEnsembleRegressor <nodes_values = [0.75, 0.0, 0.0], "
        f"{STUMP}> (x) }}",
    )


def _float(keys: Array) -> Array:
    """The 32-bit floats with these places in the order of all of them, 0 having the place 0."""
    return (
        np.where(keys < 0, np.int64(-0x80000000) - keys, keys)
        .astype(np.int64)
        .astype(np.int32)
        .view(np.float32)
    )


@np.errstate(all="ignore")
def _thresholds_before(limits: Array, offset: Array, scale: Array, strict: Array) -> Array:
    """For each finite threshold the one that the operand of the Scaler has to be compared with for
    the same decision.

    In 32-bit floats, ``(x - offset) · scale`` never falls where x rises, since each operation
    rounds to the nearest number and the scale is positive. So there is a largest float whose image
    is at most the threshold, or below it where x is compared by < or >= (``strict``; the result is
    then the next larger float): 33 steps of bisection find it, with the operations that the runtime
    does.
    """
    low, high = (np.full(limits.shape, end, np.int64) for end in (-_INFINITY, _INFINITY))
    for _ in range(33):
        middle = (low + high + 1) >> 1
        image = (_float(middle) - offset) * scale
        fits = np.where(strict, image < limits, image <= limits)
        low, high = np.where(fits, middle, low), np.where(fits, high, middle - 1)
    return _float(np.where(strict, low + 1, low))
