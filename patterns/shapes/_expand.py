"""Shapes of results when an Expand above them is left out."""

from __future__ import annotations

from collections.abc import Mapping

from xoptim.facts.families import BROADCASTING, ELEMENTWISE, POSITIONAL
from xoptim.facts.info import Shape
from xoptim.facts.shapes import broadcast_all
from xoptim.match import GraphView, Node

from .._axes import permutation


def shape_with(g: GraphView, node: Node, shrunk: Mapping[str, Shape]) -> Shape | None:
    """Shape of the result of a node when some operands are as small as given; ``None`` where it cannot take them."""
    shapes = [shrunk[name] if name in shrunk else g.try_infer_shape(name) if name else () for name in node.input]
    first = shapes[0]
    if node.domain or len(node.output) != 1 or first is None or None in shapes:
        return None
    # Fewer elements stand in other places: those that vector instructions do not reach are rounded differently.
    if node.op_type in ELEMENTWISE - POSITIONAL and not any(name in shrunk for name in node.input[1:]):
        return first
    if node.op_type == "CastLike":
        return first
    if node.op_type in BROADCASTING:
        return broadcast_all(shapes)
    if node.op_type == "Gather" and node.input[0] not in shrunk:
        axis = node.attribute.get("axis", 0) % max(len(first), 1)
        fits = axis == 0 or len(shapes[1] or ()) == g.info(node.input[1]).rank  # otherwise axes end up in front of other ones
        return (*first[:axis], *(shapes[1] or ()), *first[axis + 1 :]) if fits else None
    if len(first) != g.info(node.input[0]).rank:
        return None
    perm = permutation(g, node)
    if perm is not None:
        return tuple(first[axis] for axis in perm)
    if node.op_type == "Unsqueeze":
        result = g.try_infer_shape(node.output[0])
        axes = None if result is None else _inserted(g, node, len(result))
        rest = iter(first)
        return None if axes is None or result is None else tuple(1 if i in axes else next(rest) for i in range(len(result)))
    return None


def _inserted(g: GraphView, node: Node, rank: int) -> set[int] | None:
    axes = node.attribute.get("axes") if len(node.input) < 2 else g.get_ints(node.input[1])
    return None if axes is None else {axis % rank for axis in axes}


def is_read_from_outside(g: GraphView, name: str) -> bool:
    """Whether a result is an output, or a subgraph reads it."""
    return g.is_output(name) or g.is_used_by_subgraph(name)
