"""The factors by which a Resize enlarges the axes of an image."""

from __future__ import annotations

from typing import Final

import numpy as np

from xoptim.match import GraphView, Node

_RANK: Final = 4
_POWERS: Final = (1, 2, 4, 8, 16)


def factors(g: GraphView, node: Node) -> list[float] | None:
    """The scale of each of the four axes of a Resize, ``None`` where one is unknown.

    Sizes in place of scales are read as powers of two only: by other factors, runtimes round coordinates differently.
    """
    name = node.input[2] if len(node.input) > 2 else ""
    before, behind = g.try_infer_shape(node.input[0]), g.try_infer_shape(node.output[0])
    if before is None or len(before) != _RANK:
        return None
    given = g.get_computed_constant(name) if name else None
    if given is not None and given.size:
        found = [1.0] * _RANK
        for axis, scale in zip(node.get_attribute("axes") or range(_RANK), given.ravel(), strict=True):
            found[axis] = float(np.float32(scale))
        return found
    if behind is None or (name and given is None) or node.get_attribute("keep_aspect_ratio_policy", "stretch") != "stretch":
        return None
    found = [next((n for n in _POWERS if b == a * n), 0.0) for a, b in zip(before, behind, strict=True)]
    return found if all(found) else None
