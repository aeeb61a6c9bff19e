"""If, Loop, Scan and SequenceMap."""

from collections.abc import Callable, Sequence

from onnx import TensorProto

from xoptim.facts.dims import Dim, dim_max
from xoptim.facts.schema import GRAPH_OPERATORS
from xoptim.facts.shapes import UNKNOWN, Info, normalized
from xoptim.operators.costs import no_operations
from xoptim.operators.inference.arguments import (
    agree,
    dim_of,
    dtype_of,
    integer,
    integers,
    known,
    scalar,
    shape_of,
)
from xoptim.operators.inference.union import Invariant, common, item_of
from xoptim.operators.inference.values import values
from xoptim.operators.protocols import NodeContext, Results
from xoptim.operators.registry import Trait, counts, infers, register, steers, takes

register(Trait.OWNS_GRAPHS, *sorted(GRAPH_OPERATORS))
takes({0: "count", 1: "one"}, "Loop")
steers(0, "Loop")
# the nodes of their bodies are counted
counts("If", "Loop", "Scan")(no_operations)


@infers("If")
def if_(ctx: NodeContext) -> Results:
    """Return the facts common to both branches, or to one branch if the condition is known."""
    then_branch, else_branch = ctx.body("then_branch"), ctx.body("else_branch")
    condition = values(ctx, 0)
    if condition is not None and len(condition) == 1 and type(condition[0]) is int:
        return then_branch if condition[0] else else_branch
    return [common(ctx, a, b) for a, b in zip(then_branch, else_branch, strict=False)]


_ROUNDS = 6
"""Number of rounds after which shapes of carried values are dropped; after as many more, types."""


def settle(
    ctx: NodeContext, initial: Sequence[Info | None], step: Callable[[list[Info]], Sequence[Info]]
) -> Invariant:
    """The invariant of a loop.

    ``initial`` are facts about the carried values before the first iteration. ``step`` returns the
    facts after an iteration, from the facts before it. Its last call gets the invariant itself.
    """
    invariant = Invariant(ctx, initial)
    for dtypes in (False, True):
        for _ in range(_ROUNDS):
            if not invariant.admit(step(invariant.infos)):
                return invariant
        invariant.forget(dtypes=dtypes)
    # the caller reads the outputs of the last step, which must see the invariant
    step(invariant.infos)
    return invariant


@infers("Loop")
def loop(ctx: NodeContext) -> Results:
    """Inputs M, cond, carried values; outputs the carried values, then one tensor per iteration
    along a new first axis.

    The body takes the iteration number, the condition and the carried values, and returns the
    condition first.
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
    # Only M ends the loop if the condition holds at first and the body returns true whenever it
    # holds.
    goes_on = entry is not None and outputs[:1] != [] and outputs[0].data == (1,)
    limit = scalar(ctx, 0) if goes_on and ctx.input(0) is not None else None
    trips = known(ctx, None if limit is None else dim_max(limit, 0))
    return [*invariant.results(), *(stacked(info, trips, 0) for info in outputs[1 + count :])]


def _condition(ctx: NodeContext) -> Info | None:
    """Facts about the condition in an iteration, if it holds at first; else no iteration runs.

    An absent condition holds. In onnxruntime, the condition that the body returns counts even then.
    """
    condition = ctx.input(1)
    if condition is None:
        return Info(TensorProto.BOOL, (), (1,))
    return Info(TensorProto.BOOL, condition.shape, (1,)) if values(ctx, 1) == (1,) else None


def stacked(info: Info, length: Dim, axis: int) -> Info:
    """``length`` tensors with these facts, stacked along a new axis."""
    shape = shape_of(info)
    if shape is None or not -len(shape) - 1 <= axis <= len(shape):
        return Info(dtype_of(info))
    at = axis % (len(shape) + 1)
    return Info(info.dtype, (*shape[:at], length, *shape[at:]))


@infers("Scan")
def scan(ctx: NodeContext) -> Results:
    """Inputs carried values, then tensors read in slices; outputs the carried values, then
    stacked slices.

    In operator set 8 all have a batch axis in front, and an optional first input has the lengths.
    """
    scan_count = integer(ctx, "num_scan_inputs")
    batched = ctx.opset < 9
    values = list(ctx.inputs[1:] if batched else ctx.inputs)
    if scan_count is None or not 0 <= scan_count <= len(values):
        return []
    count = len(values) - scan_count
    if batched:
        return _batched(ctx, values[:count], values[count:])
    axes = integers(ctx, "scan_input_axes", scan_count, 0)
    sequences = values[count:]
    length = known(
        ctx, *(None if axes is None else dim_of(info, axes[i]) for i, info in enumerate(sequences))
    )
    slices = [Info(info.dtype) if info else UNKNOWN for info in sequences]
    if axes is not None:
        slices = [_without(info, axes[i]) for i, info in enumerate(sequences)]
    carried, stacks = _run(ctx, values[:count], slices)
    out_axes = integers(ctx, "scan_output_axes", len(stacks), 0)
    if out_axes is None:
        return [*carried, *(Info(info.dtype) for info in stacks)]
    return [*carried, *(stacked(info, length, out_axes[i]) for i, info in enumerate(stacks))]


def _run(
    ctx: NodeContext, initial: Sequence[Info | None], slices: Sequence[Info]
) -> tuple[list[Info], list[Info]]:
    """Facts about the carried values and about one slice of each other output.

    A carried value has the same shape before and after every iteration, by the definition of the
    operator.
    """
    carried = [
        Info(info.dtype, info.shape) if info and not info.container else UNKNOWN for info in initial
    ]
    outputs = ctx.body("body", [*carried, *slices])
    count = len(carried)
    final = [_agreed(a, b) for a, b in zip(carried, outputs, strict=False)]
    return final + carried[len(final) :], outputs[count:]


def _agreed(before: Info, after: Info) -> Info:
    """Facts about a value for which both arguments hold."""
    if before.shape is None or after.container:
        return Info(before.dtype or after.dtype, before.shape or after.shape)
    shape = before.shape
    if after.shape is not None and len(after.shape) == len(shape):
        shape = tuple(agree(a, b) for a, b in zip(shape, after.shape, strict=True))
    return Info(before.dtype or after.dtype, shape)


def _batched(
    ctx: NodeContext, initial: Sequence[Info | None], sequences: Sequence[Info | None]
) -> Results:
    batch: Dim = known(ctx, *(dim_of(info, 0) for info in [*sequences, *initial]))
    length = known(ctx, *(dim_of(info, 1) for info in sequences))
    carried, stacks = _run(
        ctx,
        [_without(info, 0) for info in initial],
        [_without(_without(info, 0), 0) for info in sequences],
    )
    return [stacked(info, batch, 0) for info in carried] + [
        stacked(stacked(info, length, 0), batch, 0) for info in stacks
    ]


def _without(info: Info | None, axis: int) -> Info:
    shape = shape_of(info)
    at = None if shape is None else normalized(axis, len(shape))
    return Info(
        dtype_of(info), None if shape is None or at is None else shape[:at] + shape[at + 1 :]
    )


@infers("SequenceMap")
def sequence_map(ctx: NodeContext) -> Results:
    """The body gets one item of each sequence, and each tensor; every output is a sequence."""
    inputs = [
        item_of(ctx, info.element) if info is not None and info.container == "sequence" else info
        for info in ctx.inputs
    ]
    return [Info(container="sequence", element=info) for info in ctx.body("body", inputs)]
