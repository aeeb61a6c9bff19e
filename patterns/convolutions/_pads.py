"""Padding that an operator with windows can take over."""

from collections.abc import Sequence


def added_pads(
    rank: int | None, padding: Sequence[int], axes: Sequence[int] | None, pads: Sequence[int] | None
) -> list[int] | None:
    """The attribute ``pads`` of an operator with windows that pads in place of a Pad before it, and as before besides.

    Args:
        rank: of the tensor, if known.
        padding: amounts of Pad, those before the elements first.
        axes: of Pad, ``None`` for all.
        pads: what the operator has, ``None`` for nothing.

    Returns:
        ``None`` when batch or channels are padded, when something is cut off, or when the rank is needed and unknown.
    """
    count = len(padding) // 2
    rank = count if axes is None else rank
    if rank is None or rank < 3 or len(padding) != 2 * (rank if axes is None else len(axes)) or min(padding) < 0:
        return None
    full = [0] * (2 * rank)
    for place, axis in enumerate(range(rank) if axes is None else axes):
        full[axis % rank] += padding[place]
        full[rank + axis % rank] += padding[count + place]
    if any(full[:2]) or any(full[rank : rank + 2]):
        return None
    spatial = full[2:rank] + full[rank + 2 :]
    return [a + b for a, b in zip(spatial, pads or [0] * len(spatial), strict=True)]
