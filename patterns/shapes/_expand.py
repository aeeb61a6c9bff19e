"""Shapes of results when an Expand above them is left out."""

from collections.abc import Mapping
from typing import Final

from xoptim.facts.dims import Dim, broadcast
from xoptim.facts.families import BROADCASTING, ELEMENTWISE, POSITIONAL
from xoptim.facts.info import Shape
from xoptim.match import GraphView, Node
from xoptim.match.axes import axes_of
from xoptim.match.regions import Carried

from .._shapes import same_dims

_ALIGNED: Final = frozenset((*BROADCASTING, *(ELEMENTWISE - POSITIONAL), "CastLike"))
"""Operators of operands of any rank. (onnxruntime rounds the others by places, which change when there are fewer elements.)"""
_OTHERS: Final = ("Gather", "Transpose", "Unsqueeze")


def shape_with(g: GraphView, node: Node, shrunk: Mapping[str, Shape]) -> Shape | None:
    """Shape of the result of a node when some operands are as small as given; ``None`` where it cannot take them."""
    axes = axes_of(g, node, shrunk) if node.op_type in (*_ALIGNED, *_OTHERS) else None
    if axes is None:
        return None
    sizes: dict[int, Dim] = {}
    for name, operand in zip(node.input, axes.operands, strict=True):
        if operand is not None:
            shape = shrunk[name] if name in shrunk else g.try_infer_shape(name) or ()
            sizes.update(
                (label, broadcast(sizes.get(label, 1), size)) for label, size in zip(operand.labels, shape, strict=True)
            )
        if name in shrunk and node.op_type != "CastLike":
            # An axis less would move the axes of the result that are in front of it.
            is_moved = node.op_type not in _ALIGNED and len(shrunk[name]) != g.info(name).rank and 0 not in axes.names.values()
            if operand is None or operand.whole or is_moved:
                return None
    return tuple(sizes.get(label, 1) for label in axes.results[0])


def carried(g: GraphView, shrunk: dict[str, Shape], node: Node) -> Carried | None:
    """How a node works on operands as small as given; adds its result if that shrinks too."""
    found, result = shape_with(g, node, shrunk), node.output[0]
    if found is None:
        return None
    if not same_dims(found, g.try_infer_shape(result)):
        shrunk[result] = found
    return Carried({place: shrunk[name] for place, name in enumerate(node.input) if name in shrunk}, {})


def is_read_from_outside(g: GraphView, name: str) -> bool:
    """Whether a result is an output, or a subgraph reads it."""
    return g.is_output(name) or g.is_used_by_subgraph(name)
