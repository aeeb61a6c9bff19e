"""Operators on strings."""

from onnx import TensorProto

from xoptim.facts.shapes import Shape
from xoptim.operators.inference.arguments import shapes
from xoptim.operators.inference.shared import broadcast_operands
from xoptim.operators.protocols import NodeContext


@shapes("StringNormalizer", dtype=TensorProto.STRING)
def string_normalizer(ctx: NodeContext, shape: Shape | None) -> Shape | None:
    """[C] or [1, C]; removing words (``stopwords``) changes the length."""
    if shape is None or len(shape) not in (1, 2):
        return None
    return (*shape[:-1], ctx.fresh() if ctx.attribute("stopwords") else shape[-1])


shapes("StringConcat", dtype=TensorProto.STRING, operands=(0, 1))(broadcast_operands)
