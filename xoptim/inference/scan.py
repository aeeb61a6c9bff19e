"""Scan."""

from __future__ import annotations

from collections.abc import Sequence

from xoptim.facts.dims import Dim
from xoptim.facts.info import UNKNOWN, Info
from xoptim.facts.shapes import normalized
from xoptim.inference.arguments import dim_of, integer, integers, known, shape_of
from xoptim.inference.broadcasting import agree
from xoptim.inference.loop import stacked
from xoptim.inference.registry import NodeContext, Results, infers


@infers("Scan")
def scan(ctx: NodeContext) -> Results:
    """Carried values, then tensors read slice by slice; outputs the carried values, then slices stacked.

    Operator set 8 has a batch axis in front of everything and an optional input with the lengths.
    """
    scanned = integer(ctx, "num_scan_inputs")
    batched = ctx.opset < 9
    values = list(ctx.inputs[1:] if batched else ctx.inputs)
    if scanned is None or not 0 <= scanned <= len(values):
        return []
    count = len(values) - scanned
    if batched:
        return _batched(ctx, values[:count], values[count:])
    axes = _axes(ctx, "scan_input_axes", scanned)
    sequences = values[count:]
    length = known(ctx, *(None if axes is None else dim_of(info, axes[i]) for i, info in enumerate(sequences)))
    slices = [Info(info.dtype) if info else UNKNOWN for info in sequences]
    if axes is not None:
        slices = [_without(info, axes[i]) for i, info in enumerate(sequences)]
    carried, stacks = _run(ctx, values[:count], slices)
    out_axes = _axes(ctx, "scan_output_axes", len(stacks))
    if out_axes is None:
        return [*carried, *(Info(info.dtype) for info in stacks)]
    return [*carried, *(stacked(info, length, out_axes[i]) for i, info in enumerate(stacks))]


def _axes(ctx: NodeContext, name: str, count: int) -> list[int] | None:
    return [0] * count if ctx.attribute(name) is None else integers(ctx, name, count)


def _run(ctx: NodeContext, initial: Sequence[Info | None], slices: Sequence[Info]) -> tuple[list[Info], list[Info]]:
    """Facts about the carried values and about one slice of each other output.

    A carried value has the same shape before and after every iteration, by the definition of the operator.
    """
    carried = [Info(info.dtype, info.shape) if info and not info.container else UNKNOWN for info in initial]
    outputs = ctx.body("body", [*carried, *slices])
    count = len(carried)
    final = [_agreed(a, b) for a, b in zip(carried, outputs, strict=False)]
    return final + carried[len(final) :], outputs[count:]


def _agreed(before: Info, after: Info) -> Info:
    """Facts that hold for a value if both arguments do."""
    if before.shape is None or after.container:
        return Info(before.dtype or after.dtype, before.shape or after.shape)
    shape = before.shape
    if after.shape is not None and len(after.shape) == len(shape):
        shape = tuple(agree(a, b) for a, b in zip(shape, after.shape, strict=True))
    return Info(before.dtype or after.dtype, shape)


def _batched(ctx: NodeContext, initial: Sequence[Info | None], sequences: Sequence[Info | None]) -> Results:
    batch: Dim = known(ctx, *(dim_of(info, 0) for info in [*sequences, *initial]))
    length = known(ctx, *(dim_of(info, 1) for info in sequences))
    slices = [_without(_without(info, 0), 0) for info in sequences]
    carried, stacks = _run(ctx, [_without(info, 0) for info in initial], slices)
    return [stacked(info, batch, 0) for info in carried] + [stacked(stacked(info, length, 0), batch, 0) for info in stacks]


def _without(info: Info | None, axis: int) -> Info:
    """The tensor without one axis."""
    shape = shape_of(info)
    dtype = 0 if info is None or info.container else info.dtype
    at = None if shape is None else normalized(axis, len(shape))
    if shape is None or at is None:
        return Info(dtype)
    return Info(dtype, shape[:at] + shape[at + 1 :])
