"""Operators of ``ai.onnx.ml`` for which the onnx package infers no or incomplete facts."""

from __future__ import annotations

from typing import Final

import onnx
from onnx import TensorProto

from xoptim.facts.dims import Dim
from xoptim.facts.info import Info
from xoptim.inference.arguments import dtype_of, integers, known, natural, shape_of
from xoptim.inference.registry import NodeContext, Results, infers

DOMAIN: Final = "ai.onnx.ml"
_FLIPPED: Final[dict[int, int]] = {TensorProto.STRING: TensorProto.INT64, TensorProto.INT64: TensorProto.STRING}
_LABELS: Final[dict[str, int]] = {
    "values_strings": TensorProto.STRING,
    "values_int64s": TensorProto.INT64,
    "values_floats": TensorProto.FLOAT,
}


@infers("Scaler", "Normalizer", domain=DOMAIN)
def scaler(ctx: NodeContext) -> Results:
    """Numbers of any type become floats."""
    return [Info(TensorProto.FLOAT, shape_of(ctx.input(0)))]


@infers("Imputer", domain=DOMAIN)
def imputer(ctx: NodeContext) -> Results:
    """Type and shape of the input."""
    x = ctx.input(0)
    return [Info(dtype_of(x), shape_of(x))]


@infers("LabelEncoder", domain=DOMAIN)
def label_encoder(ctx: NodeContext) -> Results:
    """One label per element: text for numbers and numbers for text in version 1, the type in an attribute since version 2."""
    x = ctx.input(0)
    dtype = 0
    if ctx.opset < 2:
        dtype = _FLIPPED.get(dtype_of(x), 0)
    else:
        given = [kind for name, kind in _LABELS.items() if ctx.attribute(name) is not None]
        values = ctx.attribute("values_tensor")
        if len(given) == 1 and values is None:
            dtype = given[0]
        elif isinstance(values, onnx.TensorProto) and not given:
            dtype = values.data_type
    return [Info(dtype, shape_of(x))]


def _rows(ctx: NodeContext) -> Dim:
    """Number of examples: the first of two axes; one axis is one example."""
    shape = shape_of(ctx.input(0))
    if shape is None or len(shape) not in (1, 2):
        return ctx.fresh()
    return shape[0] if len(shape) == 2 else 1


@infers("LinearRegressor", domain=DOMAIN)
def linear_regressor(ctx: NodeContext) -> Results:
    """(examples, targets)."""
    return [Info(TensorProto.FLOAT, (_rows(ctx), known(ctx, natural(ctx, "targets", 1))))]


@infers("SVMRegressor", domain=DOMAIN)
def svm_regressor(ctx: NodeContext) -> Results:
    """(examples, 1)."""
    return [Info(TensorProto.FLOAT, (_rows(ctx), 1))]


@infers("SVMClassifier", domain=DOMAIN)
def svm_classifier(ctx: NodeContext) -> Results:
    """A label per example, and scores: one per class or, without probabilities, per pair of classes."""
    dtype = TensorProto.STRING if ctx.attribute("classlabels_strings") else TensorProto.INT64
    rows = _rows(ctx)
    return [Info(dtype, (rows,)), Info(TensorProto.FLOAT, (rows, ctx.fresh()))]


@infers("TreeEnsembleRegressor", domain=DOMAIN)
def tree_ensemble_regressor(ctx: NodeContext) -> Results:
    """(examples, targets)."""
    return [Info(TensorProto.FLOAT, (_rows(ctx), known(ctx, natural(ctx, "n_targets"))))]


@infers("TreeEnsembleClassifier", domain=DOMAIN)
def tree_ensemble_classifier(ctx: NodeContext) -> Results:
    """A label and a score per class for each example."""
    names, numbers = (ctx.attribute(f"classlabels_{kind}") for kind in ("strings", "int64s"))
    labels = names or numbers
    count = len(labels) if isinstance(labels, (list, tuple)) and not (names and numbers) else None
    rows = _rows(ctx)
    return [
        Info(TensorProto.STRING if names else TensorProto.INT64, (rows,)),
        Info(TensorProto.FLOAT, (rows, known(ctx, count))),
    ]


@infers("ArrayFeatureExtractor", domain=DOMAIN)
def array_feature_extractor(ctx: NodeContext) -> Results:
    """As many columns as indices, of which there may be a number without axes; one axis is one example."""
    x, places = ctx.input(0), ctx.input(1)
    shape, given = shape_of(x), shape_of(places)
    if not shape:
        return [Info(dtype_of(x))]
    count = None if given is None or len(given) > 1 else given[0] if given else 1
    return [Info(dtype_of(x), (*(shape[:-1] or (1,)), known(ctx, count)))]


@infers("FeatureVectorizer", domain=DOMAIN)
def feature_vectorizer(ctx: NodeContext) -> Results:
    """(examples, features of all inputs together)."""
    sizes = integers(ctx, "inputdimensions", len(ctx.inputs))
    return [Info(TensorProto.FLOAT, (_rows(ctx), known(ctx, None if sizes is None else sum(sizes))))]
