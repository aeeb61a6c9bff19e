"""If."""

from __future__ import annotations

from xoptim.inference.registry import NodeContext, Results, infers
from xoptim.inference.union import common
from xoptim.inference.values import values


@infers("If")
def if_(ctx: NodeContext) -> Results:
    """Return the facts common to both branches; the facts of one branch where the condition is known."""
    then_branch, else_branch = ctx.body("then_branch"), ctx.body("else_branch")
    condition = values(ctx, 0)
    if condition is not None and len(condition) == 1 and type(condition[0]) is int:
        return then_branch if condition[0] else else_branch
    return [common(ctx, a, b) for a, b in zip(then_branch, else_branch, strict=False)]
