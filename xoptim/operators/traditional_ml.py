"""Operators of ``ai.onnx.ml`` for which the onnx package infers no or incomplete facts."""

from typing import Final

import onnx
from onnx import TensorProto

from xoptim.facts.dims import Dim
from xoptim.facts.shapes import Info, Shape
from xoptim.operators.inference.arguments import (
    dtype_of,
    integers,
    known,
    natural,
    shape_of,
    shapes,
)
from xoptim.operators.inference.shared import like_first, same_shape
from xoptim.operators.protocols import Indices, NodeContext, Results
from xoptim.operators.registry import Trait, infers, kinks, register, takes

DOMAIN: Final = "ai.onnx.ml"
_TREES: Final = ("TreeEnsemble", "TreeEnsembleClassifier", "TreeEnsembleRegressor")
register(Trait.TREES, *_TREES, domain=DOMAIN)
for _name in _TREES:
    kinks(_name, "nodes_values", "nodes_values_as_tensor", "nodes_splits", domain=DOMAIN)
takes({1: Indices(0, -1)}, "ArrayFeatureExtractor", domain=DOMAIN)
kinks("Binarizer", "threshold", domain=DOMAIN)
kinks("Imputer", "replaced_value_float", "replaced_value_int64", domain=DOMAIN)
_FLIPPED: Final[dict[int, int]] = {
    TensorProto.STRING: TensorProto.INT64,
    TensorProto.INT64: TensorProto.STRING,
}
_LABELS: Final[dict[str, int]] = {
    "values_strings": TensorProto.STRING,
    "values_int64s": TensorProto.INT64,
    "values_floats": TensorProto.FLOAT,
}


@infers("LabelEncoder", domain=DOMAIN)
def label_encoder(ctx: NodeContext) -> Results:
    """One label per element: text for numbers and numbers for text in version 1, the type in an
    attribute since version 2.
    """
    x = ctx.input(0)
    dtype = 0
    if ctx.opset < 2:
        dtype = _FLIPPED.get(dtype_of(x), 0)
    else:
        dtypes = [code for name, code in _LABELS.items() if ctx.attribute(name) is not None]
        values = ctx.attribute("values_tensor")
        if len(dtypes) == 1 and values is None:
            dtype = dtypes[0]
        elif isinstance(values, onnx.TensorProto) and not dtypes:
            dtype = values.data_type
    return [Info(dtype, shape_of(x))]


def _rows(ctx: NodeContext, x: Shape | None) -> Dim:
    """Number of examples: the first of two axes; one axis is one example."""
    if x is None or len(x) not in (1, 2):
        return ctx.fresh()
    return x[0] if len(x) == 2 else 1


@shapes(
    "LinearRegressor",
    "TreeEnsembleRegressor",
    "SVMRegressor",
    dtype=TensorProto.FLOAT,
    domain=DOMAIN,
)
def regressor(ctx: NodeContext, x: Shape | None) -> Shape | None:
    """(examples, targets)."""
    rows = _rows(ctx, x)
    if ctx.op_type == "SVMRegressor":
        return (rows, 1)
    return (
        rows,
        known(
            ctx,
            (
                natural(ctx, "targets", 1)
                if ctx.op_type == "LinearRegressor"
                else natural(ctx, "n_targets")
            ),
        ),
    )


@infers("SVMClassifier", domain=DOMAIN)
def svm_classifier(ctx: NodeContext) -> Results:
    """A label per example, and scores: one per class or, without probabilities, per pair of
    classes.
    """
    dtype = TensorProto.STRING if ctx.attribute("classlabels_strings") else TensorProto.INT64
    rows = _rows(ctx, shape_of(ctx.input(0)))
    return [Info(dtype, (rows,)), Info(TensorProto.FLOAT, (rows, ctx.fresh()))]


@infers("TreeEnsembleClassifier", domain=DOMAIN)
def tree_ensemble_classifier(ctx: NodeContext) -> Results:
    """A label and a score per class for each example."""
    names, numbers = (ctx.attribute(f"classlabels_{kind}") for kind in ("strings", "int64s"))
    labels = names or numbers
    count = len(labels) if isinstance(labels, (list, tuple)) and not (names and numbers) else None
    rows = _rows(ctx, shape_of(ctx.input(0)))
    return [
        Info(TensorProto.STRING if names else TensorProto.INT64, (rows,)),
        Info(TensorProto.FLOAT, (rows, known(ctx, count))),
    ]


@shapes("ArrayFeatureExtractor", operands=(0, 1), domain=DOMAIN)
def array_feature_extractor(
    ctx: NodeContext, x: Shape | None, indices: Shape | None
) -> Shape | None:
    """As many columns as indices; a scalar is one index. Data with one axis is one example."""
    if not x:
        return None
    count = None if indices is None or len(indices) > 1 else indices[0] if indices else 1
    return (*(x[:-1] or (1,)), known(ctx, count))


@shapes("FeatureVectorizer", dtype=TensorProto.FLOAT, domain=DOMAIN)
def feature_vectorizer(ctx: NodeContext, x: Shape | None) -> Shape | None:
    """(examples, features of all inputs together)."""
    sizes = integers(ctx, "inputdimensions", len(ctx.inputs))
    return (_rows(ctx, x), known(ctx, None if sizes is None else sum(sizes)))


infers("Imputer", domain=DOMAIN)(like_first)
shapes("Scaler", "Normalizer", dtype=TensorProto.FLOAT, domain=DOMAIN)(same_shape)
