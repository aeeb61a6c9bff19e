"""Formulas that operators of several families share."""

from xoptim.facts.shapes import Info, Shape, broadcast_all
from xoptim.operators.inference.arguments import dtype_of, shape_of
from xoptim.operators.protocols import Formula, NodeContext, Results


def like_first_operand(ctx: NodeContext) -> Results:
    """All facts about the first input but its values."""
    inputs = ctx.inputs
    x = inputs[0] if inputs else None
    if x is None or x.data is None:
        return (x,)
    return (Info(x.dtype, x.shape),)


def like(*places: int) -> Formula:
    """For each result, the type and shape of the input at an index, without its values."""

    def infer(ctx: NodeContext) -> Results:
        return [Info(dtype_of(x), shape_of(x)) for x in map(ctx.input, places)]

    return infer


like_first: Formula = like(0)
"""Type and shape of the first input, if it is a tensor."""


def same_shape(_ctx: NodeContext, x: Shape | None) -> Shape | None:
    """The shape of the operand, for a result of another type."""
    return x


def scalar_result(_ctx: NodeContext) -> Shape:
    """The shape of a scalar."""
    return ()


def broadcast_operands(_ctx: NodeContext, *operands: Shape | None) -> Shape | None:
    """The shape to which all operands broadcast."""
    return broadcast_all(operands)
