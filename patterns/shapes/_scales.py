"""The factors by which a Resize enlarges the axes of an image."""

from typing import Final

from xoptim.match import GraphView, Node

_RANK: Final = 4
POWERS: Final = (1, 2, 4, 8)
"""Scales by which coordinates are computed without rounding."""


def factors(g: GraphView, node: Node) -> list[float] | None:
    """The scale of each of the four axes of a Resize, ``None`` where one is unknown.

    Sizes in place of scales are read as powers of two only: by other factors, runtimes round coordinates differently.
    """
    name = node.input[2] if len(node.input) > 2 else ""
    before, after = g.try_infer_shape(node.input[0]), g.try_infer_shape(node.output[0])
    if before is None or len(before) != _RANK:
        return None
    given = g.get_computed_constant(name) if name else None
    if given is not None and given.size:
        axes = node.get_attribute("axes") or range(_RANK)
        if len(axes) != given.size or not all(-_RANK <= axis < _RANK for axis in axes):
            return None
        found = dict(zip((axis % _RANK for axis in axes), map(float, given.ravel()), strict=True))
        return [found.get(axis, 1.0) for axis in range(_RANK)]
    if after is None or (name and given is None) or node.get_attribute("keep_aspect_ratio_policy", "stretch") != "stretch":
        return None
    powers = [next((n for n in POWERS if b == a * n), 0.0) for a, b in zip(before, after, strict=True)]
    return powers if all(powers) else None
