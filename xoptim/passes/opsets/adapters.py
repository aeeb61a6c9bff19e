"""The adapters of changed operators, and the judgement of each change."""

from functools import cache
from typing import Final, NamedTuple

from xoptim.facts.dtypes import type_name
from xoptim.facts.schema import schema
from xoptim.passes.opsets.adapters_early import EARLY
from xoptim.passes.opsets.adapters_images import IMAGES
from xoptim.passes.opsets.adapters_normalizations import NORMALIZATIONS
from xoptim.passes.opsets.adapters_operands import OPERANDS
from xoptim.passes.opsets.call import Adapter, OpsetCall, Refused
from xoptim.passes.opsets.changes import (
    REFUSED,
    SAME_MEANING,
    additions,
    breaks,
    next_version,
    versions,
)


def scatter_renamed(call: OpsetCall) -> None:
    """Scatter 11: it is ScatterElements."""
    call.op_type = "ScatterElements"


def fewer_types(call: OpsetCall) -> None:
    """An operator that lost element types, and did not change otherwise."""
    dtype, new = call.info().dtype, schema(call.op_type, "", call.scratch.target)
    if dtype and new is not None and f"tensor({type_name(dtype)})" not in new.inputs[0].types:
        raise Refused(f"it no longer supports the type {type_name(dtype)}")


ADAPTERS: Final[dict[tuple[str, int], Adapter]] = {
    **EARLY,
    **OPERANDS,
    **IMAGES,
    **NORMALIZATIONS,
    ("Scatter", 11): scatter_renamed,
    ("Erf", 13): fewer_types,
    ("ReduceLogSum", 28): fewer_types,
    ("ReduceLogSumExp", 28): fewer_types,
}
"""By operator, and operator set that changes it."""


class Judgement(NamedTuple):
    """The effect of a change of an operator on its calls: ``adapter`` changes them, ``refusal``
    excludes them, or neither.
    """

    adapter: Adapter | None = None
    refusal: str = ""


@cache
def judge(op_type: str, version: int) -> Judgement:
    """The judgement of the change of a standard operator in an operator set.

    A change without an adapter is accepted when the operator only got more element types, and its
    documentation is the same; or when every call stays valid and the change was reviewed.
    """
    step = (op_type, version)
    if step in ADAPTERS:
        return Judgement(ADAPTERS[step])
    broken = breaks(*step)
    if step in REFUSED:
        return Judgement(refusal=REFUSED[step])
    if broken:
        return Judgement(refusal=f"it lost {', '.join(broken)}, and there is no adapter for that")
    new = () if step in SAME_MEANING else additions(*step)
    return Judgement(
        refusal=f"it got another {', '.join(new)}, which has not been reviewed" if new else ""
    )


@cache
def is_unchanged(op_type: str, start: int, target: int) -> bool:
    """Whether all calls of an operator mean the same in two operator sets and all between them."""
    return all(
        judge(op_type, version) == Judgement()
        for version in versions(op_type)
        if start < version <= target
    )


def raised(call: OpsetCall) -> list[OpsetCall]:
    """The calls, in order, that compute the same as one call in the operator set to which its node
    is raised.

    Raises `Refused` when there are none, with the operator set that changed the operator.
    """
    target = call.scratch.target
    while (version := next_version(call.op_type, call.version, target)) is not None:
        judgement = judge(call.op_type, version)
        if judgement.refusal:
            raise Refused(judgement.refusal, version)
        if judgement.adapter is not None:
            try:
                judgement.adapter(call)
            except Refused as refusal:
                raise Refused(str(refusal), refusal.version or version) from None
        call.version = max(call.version, version)
    while call.inputs and not call.inputs[-1]:
        call.inputs.pop()
    before, after = (
        [part for c in calls for part in raised(c)] for calls in (call.before, call.after)
    )
    return [*before, call, *after]
