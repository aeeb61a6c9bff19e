"""Settings of a node: nodes with equal settings can be computed together, each as one lane of a stack."""

from collections.abc import Hashable, Sequence
from typing import Final, NamedTuple

from xoptim.facts.info import Info
from xoptim.facts.shapes import BROADCASTING, ELEMENTWISE, REDUCTIONS
from xoptim.graph.graph import Graph
from xoptim.graph.node import Node
from xoptim.match import GraphView
from xoptim.match.axes import axes_of

_PLAIN: Final = (*BROADCASTING, "MatMul", "Gemm", "Concat", "Gather", "LayerNormalization")
_WITH_PARAMETERS: Final = (*ELEMENTWISE, *REDUCTIONS, "Reshape", "Squeeze", "Unsqueeze", "Slice", "Split", "Transpose")
_NORMALIZED: Final = ("Softmax", "LogSoftmax", "Hardmax")
LANE: Final = -1
"""The label of the axis of lanes."""
STACKABLE: Final = frozenset((*_PLAIN, *_WITH_PARAMETERS, *_NORMALIZED))


class Operand(NamedTuple):
    """Properties that the operands of a group of nodes have in common."""

    dtype: int  # element type
    shape: tuple[Hashable, ...]  # the shape of each, known but for the names of its sizes
    is_constant: bool  # whether they are stored


class Settings(NamedTuple):
    """Properties that nodes which are computed together have in common."""

    own: tuple[Hashable, ...]  # operator, attributes, types and shapes of the results
    # for each operand its type and shape, or its value if it is a parameter, such as axes; "" for one left out
    operands: tuple[Hashable, ...]


def settings(graph: Graph, node: Node, terms: Sequence[str] | None = None) -> Settings | None:
    """The settings of a node, ``None`` if it cannot be stacked.

    ``terms`` are its operands if it does not read them itself: the last Add of a sum represents the whole sum.
    """
    if node.domain or node.op_type not in STACKABLE or node.bodies or not all(node.output):
        return None
    results = [graph.info_of(name) for name in node.output]
    if not all(map(_is_known, results)) or not _is_allowed(graph, node):
        return None
    operands: list[Hashable] = []
    for place, name in enumerate(node.input if terms is None else terms):
        found = "" if not name else _parameter(graph, name) if is_parameter(node, place) else _operand(graph, name)
        if found is None:
            return None
        operands.append(found)
    attributes = tuple(sorted((key, _frozen(value)) for key, value in node.attribute.items()))
    return Settings((node.op_type, attributes, *((each.dtype, each.shape) for each in results)), tuple(operands))


def is_parameter(node: Node, place: int) -> bool:
    """Whether an operand of a stackable operator is a parameter, which all nodes of a group must have in common."""
    return place > 0 and node.op_type in _WITH_PARAMETERS


def _is_known(info: Info) -> bool:
    return info.is_tensor and bool(info.dtype) and info.shape is not None


def _is_allowed(graph: Graph, node: Node) -> bool:
    """Whether the attributes of a node are among those that a stack can express."""
    get, rank = node.get_attribute, graph.info_of(node.input[0]).rank or 0
    has_stored = len(node.input) > 1 and graph.tensor(node.input[1]) is not None
    match node.op_type:
        case "Gemm":
            return has_stored and get("alpha") == get("beta") == 1.0 and not get("transA")
        case "Gather":
            return get("axis") == 0 and rank > 0
        case "LayerNormalization":
            return has_stored and len(node.output) == 1 and get("axis") in (-1, rank - 1)
    axes = axes_of(GraphView(graph), node) if not get("noop_with_empty_axes", 0) else None
    return axes is not None and axes.inserted(LANE) is not None


def _operand(graph: Graph, name: str) -> Operand | None:
    info = graph.info_of(name)
    if not _is_known(info) or info.shape is None:
        return None
    return Operand(info.dtype, info.shape, graph.tensor(name) is not None)


def _parameter(graph: Graph, name: str) -> Hashable | None:
    tensor = graph.tensor(name)
    return None if tensor is None else tensor.key()


def _frozen(value: object) -> Hashable:
    if isinstance(value, list):
        return tuple(map(_frozen, value))
    assert isinstance(value, Hashable), "no stackable operator has tensors as attributes"
    return value
