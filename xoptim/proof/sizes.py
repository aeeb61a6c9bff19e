"""The dimensions of the inputs of a rewrite, as dimensions of the model that it is applied to."""

from __future__ import annotations

from collections.abc import Mapping

from xoptim.facts.dims import Dim, SymbolicDim, substitute
from xoptim.facts.shapes import Info
from xoptim.graph.fragment import NEW_SIZE
from xoptim.proof.indices import Unproved


def bound_sizes(declared: Mapping[str, Info], values: Mapping[str, Info]) -> dict[str, Dim]:
    """Dimensions of the model, by the names that the rewrite alone has for them.

    Raises `Unproved` where a value does not have the type and shape that the rewrite declares.

    Args:
        declared: facts about the inputs of the rewrite, by name.
        values: facts about the values of the model with the same names.
    """
    pairs: list[tuple[str, Dim, Dim]] = []
    for name, info in declared.items():
        value = values[name]
        if (info.dtype, info.container) != (value.dtype, value.container):
            raise Unproved(f"the type of {name!r} differs from the declared one")
        if info.shape is None:
            continue
        if value.shape is None or len(value.shape) != len(info.shape):
            raise Unproved(f"the rank of {name!r} is not known to be {len(info.shape)}")
        pairs += [(name, size, dim) for size, dim in zip(info.shape, value.shape, strict=True)]
    sizes: dict[str, Dim] = {}
    for _, size, dim in sorted(pairs, key=lambda pair: _is_compound(pair[1])):
        symbol = _open_symbol(size, sizes)
        if symbol is not None:
            rest = substitute(size, {**sizes, symbol: 0})
            sizes[symbol] = dim - rest
    for name, size, dim in pairs:
        if substitute(size, sizes) != dim:
            raise Unproved(f"a dimension of {name!r} is not known to be {size}")
    return sizes


def _is_compound(size: Dim) -> bool:
    return not isinstance(size, int) and not size.is_symbol


def _open_symbol(size: Dim, sizes: Mapping[str, Dim]) -> str | None:
    """The only name in a dimension that is the rewrite's own and has no value in ``sizes``.

    ``None`` if there are several such names, or if the dimension is not the name plus a rest.
    """
    if not isinstance(size, SymbolicDim):
        return None
    names = [name for name in size.symbols if name.startswith(NEW_SIZE) and name not in sizes]
    if len(names) != 1 or substitute(size, {names[0]: 1}) - substitute(size, {names[0]: 0}) != 1:
        return None
    return names[0]
