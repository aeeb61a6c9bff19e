"""Which axes a Pad lengthens."""

from xoptim.match import GraphView, Match


def padded_axes(g: GraphView, m: Match) -> list[tuple[int, int, tuple[int, int]]] | None:
    """The axes that are padded, their lengths, and the pads at both ends.

    ``None`` when one of them is not known.
    """
    shape, pads, axes = g.try_infer_shape(m.x), m.pads, m.axes
    if shape is None or not isinstance(pads, list):
        return None
    listed = list(range(len(shape))) if axes is None else axes
    if not isinstance(listed, list) or len(pads) != 2 * len(listed):
        return None
    found = []
    for place, axis in enumerate(listed):
        length, amounts = shape[axis], (pads[place], pads[place + len(listed)])
        if amounts == (0, 0):
            continue
        if not isinstance(length, int):
            return None
        found.append((axis % len(shape), length, amounts))
    return found
