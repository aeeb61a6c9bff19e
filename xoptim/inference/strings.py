"""Operators on strings."""

from __future__ import annotations

from onnx import TensorProto

from xoptim.facts.dims import Dim
from xoptim.facts.info import Info
from xoptim.facts.shapes import broadcast_shapes
from xoptim.inference.arguments import integers, known, shape_of
from xoptim.inference.registry import NodeContext, Results, infers


@infers("StringNormalizer")
def string_normalizer(ctx: NodeContext) -> Results:
    """[C] or [1, C]; removing words (``stopwords``) changes the length, and leaves one empty string at least."""
    shape = shape_of(ctx.input(0))
    if shape is None or len(shape) not in (1, 2):
        return [Info(TensorProto.STRING)]
    length: Dim = ctx.fresh() if ctx.attribute("stopwords") else shape[-1]
    return [Info(TensorProto.STRING, (*shape[:-1], length))]


@infers("StringConcat")
def string_concat(ctx: NodeContext) -> Results:
    """Elementwise, with broadcasting."""
    return [Info(TensorProto.STRING, broadcast_shapes(shape_of(ctx.input(0)), shape_of(ctx.input(1))))]


@infers("StringSplit")
def string_split(ctx: NodeContext) -> Results:
    """The pieces on a new last axis, padded to the largest count, and the number of pieces of each string."""
    shape = shape_of(ctx.input(0))
    pieces = None if shape is None else (*shape, ctx.fresh())
    return [Info(TensorProto.STRING, pieces), Info(TensorProto.INT64, shape)]


@infers("RegexFullMatch")
def regex_full_match(ctx: NodeContext) -> Results:
    """One truth value per string."""
    return [Info(TensorProto.BOOL, shape_of(ctx.input(0)))]


@infers("TfIdfVectorizer")
def tf_idf_vectorizer(ctx: NodeContext) -> Results:
    """[C] or [N, C] gives one number per n-gram in place of C."""
    shape = shape_of(ctx.input(0))
    if shape is None or len(shape) not in (1, 2):
        return [Info(TensorProto.FLOAT)]
    indexes = integers(ctx, "ngram_indexes")
    return [Info(TensorProto.FLOAT, (*shape[:-1], known(ctx, max(indexes) + 1 if indexes else None)))]
