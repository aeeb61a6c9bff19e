"""Conditions of constant folding: which nodes and results it may compute."""

import math
from collections.abc import Collection

from onnx import TensorProto

from xoptim.facts.dims import SymbolicDim
from xoptim.facts.dtypes import byte_size
from xoptim.facts.operators import constant_types
from xoptim.facts.shapes import UNKNOWN, Info
from xoptim.graph.expanded import reads_expanded
from xoptim.graph.graph import Graph
from xoptim.graph.node import Node
from xoptim.graph.tensors import Tensor, text_bytes
from xoptim.operators.inference.values import RANGES

_NARROW_TYPES = frozenset(
    (
        TensorProto.FLOAT16,
        TensorProto.BFLOAT16,
        TensorProto.INT8,
        TensorProto.INT4,
        TensorProto.UINT4,
    )
)
_CHEAP_OPERATORS = frozenset(("Identity", "ConstantOfShape"))
"""Operators that produce an output as fast as a Constant, without storing its elements again."""
_REPEATING = frozenset(("ConstantOfShape", "Expand"))
"""Operators whose results repeat along axes, whatever their operands are."""
_MAX_REPEATING_BYTES = 1 << 26
"""Maximal size of a result that is computed to see whether it repeats."""
OUTPUT_LIMIT = 1 << 20
"""Outputs of more bytes do not become Constants, whose values cannot be external data."""


def may_repeat(graph: Graph, node: Node) -> bool:
    """Whether the only result of a node may repeat along axes, and is not an output."""
    if len(node.output) != 1 or graph.is_output(node.output[0]) or node.domain:
        return False
    if node.op_type in _REPEATING:
        return True
    return (
        reads_expanded(graph, node)
        and 0 < sum(known_sizes(graph, node).values()) <= _MAX_REPEATING_BYTES
    )


def may_be_constant(graph: Graph, node: Node, pending: Collection[str]) -> bool:
    """Check quickly whether a node may be constant: its elements are known, or its first operand is
    stored or pending.
    """
    info = graph.known(node.output[0]) if node.output else None
    if info is not None and info.data is not None:
        return True
    first = next(filter(None, node.input), "")
    return bool(first) and (first in pending or graph.tensor(first) is not None)


def widens(node: Node, operand: Tensor | None, fewest: int | None) -> bool:
    """Whether a node casts ``fewest`` elements or more of 16 bits or less to float32 or float64.

    Never when ``fewest`` is ``None``. Runtimes fold such a Cast when they load a model.
    """
    if node.op_type != "Cast" or operand is None or operand.dtype not in _NARROW_TYPES:
        return False
    if fewest is None or math.prod(operand.shape) < fewest:
        return False
    return node.attribute.get("to") in (TensorProto.FLOAT, TensorProto.DOUBLE)


def stays(graph: Graph, node: Node) -> bool:
    """Whether a node produces an output for which a Constant is no faster, invalid or too large."""
    outputs = list(filter(graph.is_output, node.output))
    if not outputs:
        return False
    sizes = known_sizes(graph, node)
    if (node.op_type in _CHEAP_OPERATORS and not node.domain) or any(
        sizes[name] > OUTPUT_LIMIT for name in outputs
    ):
        return True
    if "" not in graph.opsets:
        return False
    allowed = constant_types(graph.opsets[""])
    return any(
        info is not None and info.dtype and info.dtype not in allowed
        for info in map(graph.known, outputs)
    )


def known_sizes(graph: Graph, node: Node, longest: int = 0) -> dict[str, int]:
    """Number of bytes of each result of a node, 0 when its shape is not known.

    ``longest``: maximal number of characters of a text in the results.
    """
    infos = {name: graph.known(name) or UNKNOWN for name in node.output if name}
    counts = {
        name: 0 if info.static_shape is None else math.prod(info.static_shape)
        for name, info in infos.items()
    }
    return {
        name: (
            text_bytes(counts[name], longest)
            if info.dtype == TensorProto.STRING
            else byte_size(info.dtype or TensorProto.DOUBLE, counts[name])
        )
        for name, info in infos.items()
    }


def is_unsure(info: Info | None) -> bool:
    """Whether the value of a constant operand may determine more facts about a result."""
    if info is None or info.shape is None:
        return info is None or info.is_tensor
    if any(
        isinstance(dim, SymbolicDim) and dim.is_anonymous
        for dim in (*info.shape, *(info.data or ()))
    ):
        return True
    return info.data is None and len(info.shape) < 2 and info.dtype in RANGES
