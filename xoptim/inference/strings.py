"""Operators on strings."""

from onnx import TensorProto

from xoptim.facts.info import Info, Shape
from xoptim.facts.shapes import broadcast_shapes
from xoptim.inference.arguments import integers, known, shape_of, shapes
from xoptim.inference.registry import NodeContext, Results, infers


@shapes("StringNormalizer", dtype=TensorProto.STRING)
def string_normalizer(ctx: NodeContext, shape: Shape | None) -> Shape | None:
    """[C] or [1, C]; removing words (``stopwords``) changes the length, and leaves one empty string at least."""
    if shape is None or len(shape) not in (1, 2):
        return None
    return (*shape[:-1], ctx.fresh() if ctx.attribute("stopwords") else shape[-1])


@shapes("StringConcat", dtype=TensorProto.STRING, operands=(0, 1))
def string_concat(_ctx: NodeContext, a: Shape | None, b: Shape | None) -> Shape | None:
    """Elementwise, with broadcasting."""
    return broadcast_shapes(a, b)


@infers("StringSplit")
def string_split(ctx: NodeContext) -> Results:
    """The pieces on a new last axis, padded to the largest count, and the number of pieces of each string."""
    shape = shape_of(ctx.input(0))
    pieces = None if shape is None else (*shape, ctx.fresh())
    return [Info(TensorProto.STRING, pieces), Info(TensorProto.INT64, shape)]


@shapes("RegexFullMatch", dtype=TensorProto.BOOL)
def regex_full_match(_ctx: NodeContext, shape: Shape | None) -> Shape | None:
    """One truth value per string."""
    return shape


@shapes("TfIdfVectorizer", dtype=TensorProto.FLOAT)
def tf_idf_vectorizer(ctx: NodeContext, shape: Shape | None) -> Shape | None:
    """[C] or [N, C] gives one number per n-gram in place of C."""
    if shape is None or len(shape) not in (1, 2):
        return None
    indexes = integers(ctx, "ngram_indexes")
    return (*shape[:-1], known(ctx, max(indexes) + 1 if indexes else None))
