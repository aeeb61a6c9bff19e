"""The branches of a proof: sizes that are replaced, indices that are split, conditions on both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from xoptim.facts.dims import Dim, SymbolicDim, substitute
from xoptim.proof.indices import (
    BOUND,
    ELEMENT,
    INDEX,
    PLACE,
    CaseFacts,
    IndexSplit,
    SignSplit,
    Unproved,
    index_symbol,
    symbols_of,
)
from xoptim.proof.tensors import Tensor

_MAX_ENUMERATED: Final = 16
"""An index with at most this many values is enumerated: one branch for each value."""


@dataclass(frozen=True, slots=True)
class Branch:
    """One branch: sizes that are replaced, indices of an output, and conditions on both.

    ``indices`` is empty until the sizes are known.
    """

    sizes: Mapping[str, Dim] = field(default_factory=dict)
    indices: tuple[Dim, ...] = ()
    extents: Mapping[str, Dim] = field(default_factory=dict)
    conditions: tuple[Dim, ...] = ()


ALL: Final = Branch()
"""The branch in which every size is at least 1."""


def with_indices(branch: Branch, output_index: int, tensor: Tensor) -> Branch:
    """The branch with one index for each axis of an output; the name of an index contains
    ``output_index``.
    """
    names = [f"{INDEX}{output_index}.{axis}" for axis in range(tensor.rank)]
    extents = dict(zip(names, tensor.shape, strict=True))
    indices = tuple(index_symbol(name, extent) for name, extent in extents.items())
    return Branch(branch.sizes, indices, extents, branch.conditions)


def by_size(branch: Branch, cases: Sequence[Mapping[str, Dim]]) -> list[Branch]:
    """The branch for each replacement of sizes, without its indices and the conditions on them."""
    branches = []
    for values in cases:
        sizes = {name: substitute(dim, values) for name, dim in branch.sizes.items()}
        sizes |= {name: substitute(dim, sizes) for name, dim in values.items()}
        size_conditions = [dim for dim in branch.conditions if not _is_indexed(dim)]
        conditions = tuple(substitute(dim, values) for dim in size_conditions)
        if not any(isinstance(dim, int) and dim < 0 for dim in conditions):
            branches.append(Branch(sizes, (), {}, conditions))
    return branches


def _is_indexed(dim: Dim) -> bool:
    return any(name.startswith(INDEX) for name in symbols_of(dim))


def by_index(case: CaseFacts, branch: Branch, split: IndexSplit) -> Branch:
    """The branch with an index written as ``outer * inner_extent + inner``."""
    if split.name not in branch.extents:
        raise Unproved("an index that is not split")
    outer, inner = case.index(split.outer), case.index(split.inner)
    extents = {str(outer): split.outer, str(inner): split.inner}
    return _with_index(branch, split.name, outer * split.inner + inner, extents)


def _with_index(branch: Branch, name: str, expression: Dim, extents: Mapping[str, Dim]) -> Branch:
    """The branch with an expression of new indices in place of an index."""
    ones: dict[str, Dim] = {key: 0 for key, extent in extents.items() if extent == 1}
    value = {name: substitute(expression, ones)}
    rest = {key: extent for key, extent in branch.extents.items() if key != name}
    rest |= {key: extent for key, extent in extents.items() if key not in ones}
    indices = tuple(substitute(index, value) for index in branch.indices)
    conditions = tuple(substitute(dim, value) for dim in branch.conditions)
    return Branch(branch.sizes, indices, rest, conditions)


def by_sign(case: CaseFacts, branch: Branch, condition: SymbolicDim) -> list[Branch]:
    """The branches in which an expression is at least 0, and below 0.

    With one index, its range is cut in two where that decides the sign. With several, the shortest
    one takes each of its values if they are few.
    """
    symbols = symbols_of(condition)
    if any(name[0] in (BOUND, PLACE, ELEMENT) for name in symbols):
        raise Unproved("a condition on the index of a sum or of a whole operand")
    indices = sorted(symbols & branch.extents.keys())
    index = min(indices, key=lambda name: _extent_of(branch, name), default="")
    if len(indices) > 1 and _extent_of(branch, index) <= _MAX_ENUMERATED:
        return _values_of(branch, index)
    if len(indices) == 1:
        try:
            first = case.cut(condition, index)
        except SignSplit as split:  # it depends on sizes whether there are two ranges
            return by_sign(case, branch, split.condition)
        if first is not None:
            return _cut(case, branch, index, first)
    return [
        Branch(branch.sizes, branch.indices, branch.extents, (*branch.conditions, dim))
        for dim in (condition, -condition - 1)
    ]


def by_value(branch: Branch) -> list[Branch]:
    """A branch for each value of the index with the fewest values; empty if these are many."""
    name = min(branch.extents, key=lambda name: _extent_of(branch, name), default="")
    is_enumerable = bool(name) and _extent_of(branch, name) <= _MAX_ENUMERATED
    return _values_of(branch, name) if is_enumerable else []


def _values_of(branch: Branch, name: str) -> list[Branch]:
    return [_with_index(branch, name, n, {}) for n in range(_extent_of(branch, name))]


def _cut(case: CaseFacts, branch: Branch, name: str, first: Dim) -> list[Branch]:
    """The branches of the first values of an index, and of the rest."""
    rest = branch.extents[name] - first
    low, high = case.index(first), case.index(rest)
    return [
        _with_index(branch, name, low, {str(low): first}),
        _with_index(branch, name, high + first, {str(high): rest}),
    ]


def _extent_of(branch: Branch, name: str) -> int:
    """The number of values of an index; a symbolic one counts as too many to enumerate."""
    extent = branch.extents[name]
    return extent if isinstance(extent, int) else _MAX_ENUMERATED + 1
