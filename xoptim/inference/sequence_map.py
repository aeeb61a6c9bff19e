"""SequenceMap."""

from __future__ import annotations

from xoptim.facts.info import Info
from xoptim.inference.registry import NodeContext, Results, infers
from xoptim.inference.union import item_of


@infers("SequenceMap")
def sequence_map(ctx: NodeContext) -> Results:
    """The body receives one item of each sequence and the whole of each tensor; every output is a sequence."""
    inputs = [item_of(ctx, info.element) if info is not None and info.container == "sequence" else info for info in ctx.inputs]
    return [Info(container="sequence", element=info) for info in ctx.body("body", inputs)]
