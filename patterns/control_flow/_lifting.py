"""Nodes of a subgraph that compute the same outside of it: they read nothing that the subgraph is given."""

import math
from typing import Final

import numpy as np
from onnx import TensorProto

from xoptim.facts.dtypes import is_float
from xoptim.facts.schema import is_deterministic
from xoptim.facts.shapes import BROADCASTING, ELEMENTWISE
from xoptim.match import Graph, GraphView, Node

_STAYING: Final = frozenset(("Identity", "QuantizeLinear", "DequantizeLinear"))
"""Copies, which runtimes want for the outputs of subgraphs; and quantization, which they fuse with the node beside it."""

_NUMBERS: Final = frozenset(
    (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.INT32, TensorProto.INT64, TensorProto.BOOL)
)
_SIMPLE: Final = ELEMENTWISE - {"Clip"}
_DIVIDING: Final = frozenset(("Div", "Mod", "Pow", "BitShift"))
_FEW: Final = 1024
"""Elements that take less time to compute than it takes to launch an operator."""


def may_leave(node: Node) -> bool:
    """Whether a node of a subgraph computes the same outside of it, and may do so."""
    return not node.bodies and node.op_type not in _STAYING and is_deterministic(node.op_type, node.domain)


def cannot_fail(g: GraphView, body: Graph, node: Node) -> bool:
    """Whether a node of a subgraph computes little, and raises no error whatever its operands are.

    Sizes, and elementwise operators on a few elements: those whose errors depend on values (division of integers, texts that
    cannot be read as numbers) are left out, and so are all whose shapes are not known to fit.
    """
    inside = g.inside(body)
    if node.domain or not all(node.input):
        return False
    if node.op_type in ("Shape", "Size"):
        return True
    dtypes = {inside.try_infer_type(name) for name in node.input}
    if not dtypes <= _NUMBERS or (node.op_type in _DIVIDING and not all(map(is_float, dtypes))):
        return False
    shapes = [inside.static_shape(name) for name in node.input]
    if node.op_type not in (_SIMPLE if len(shapes) == 1 else BROADCASTING) or None in shapes:
        return False
    try:
        return math.prod(np.broadcast_shapes(*filter(None, shapes))) <= _FEW
    except ValueError:
        return False
