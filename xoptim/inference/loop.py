"""Loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from onnx import TensorProto

from xoptim.facts.dims import Dim, dim_max
from xoptim.facts.info import Info
from xoptim.inference.arguments import known, scalar
from xoptim.inference.registry import NodeContext, Results, infers
from xoptim.inference.union import Invariant
from xoptim.inference.values import values

_ROUNDS = 6
"""Rounds after which the shapes of carried values are forgotten, and after as many again their types."""


def settle(ctx: NodeContext, initial: Sequence[Info | None], step: Callable[[list[Info]], Sequence[Info]]) -> Invariant:
    """The invariant of a loop.

    Args:
        ctx: the node.
        initial: facts about the carried values before the first iteration.
        step: facts about them after an iteration, given those before. Its last call is with the invariant itself.
    """
    invariant = Invariant(ctx, initial)
    for dtypes in (False, True):
        for _ in range(_ROUNDS):
            if not invariant.admit(step(invariant.infos)):
                return invariant
        invariant.forget(dtypes=dtypes)
    step(invariant.infos)  # the caller reads the outputs of the last step, which must be that of the invariant
    return invariant


@infers("Loop")
def loop(ctx: NodeContext) -> Results:
    """Inputs M, cond, carried values; outputs the carried values, then one tensor per iteration on a new first axis.

    The body takes the iteration number, the condition and the carried values, and returns the condition first.
    """
    initial = ctx.inputs[2:]
    count = len(initial)
    entry = _condition(ctx)
    outputs: list[Info] = []

    def step(carried: list[Info]) -> Sequence[Info]:
        # Where the argument is None, the body declares the type.
        outputs[:] = ctx.body("body", [None, entry, *carried])
        return outputs[1 : 1 + count]

    invariant = settle(ctx, initial, step)
    # Only M ends the loop if the condition holds at first and the body returns true whenever it holds.
    goes_on = entry is not None and outputs[:1] != [] and outputs[0].data == (1,)
    trips = known(ctx, _limit(ctx) if goes_on else None)
    return [*invariant.results(), *(stacked(info, trips, 0) for info in outputs[1 + count :])]


def _condition(ctx: NodeContext) -> Info | None:
    """Facts about the condition in an iteration when it holds at first: it holds, since no iteration runs otherwise.

    An absent condition holds. The one that the body returns counts even then, at least in onnxruntime.
    """
    given = ctx.input(1)
    if given is None:
        return Info(TensorProto.BOOL, (), (1,))
    return Info(TensorProto.BOOL, given.shape, (1,)) if values(ctx, 1) == (1,) else None


def _limit(ctx: NodeContext) -> Dim | None:
    """Number of iterations of a loop that only M ends."""
    limit = scalar(ctx, 0) if ctx.input(0) is not None else None
    return None if limit is None else dim_max(limit, 0)


def stacked(info: Info, length: Dim, axis: int) -> Info:
    """A tensor of which ``length`` are stacked along a new axis."""
    shape = None if info.container else info.shape
    if shape is None or not -len(shape) - 1 <= axis <= len(shape):
        return Info(0 if info.container else info.dtype)
    at = axis % (len(shape) + 1)
    return Info(info.dtype, (*shape[:at], length, *shape[at:]))
