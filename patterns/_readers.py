"""What becomes of a result further on."""

from __future__ import annotations

from typing import Final

from xoptim.facts.dtypes import is_float
from xoptim.match import GraphView, Node

from ._movement import MOVEMENTS

_CARRYING: Final = frozenset(
    (
        *MOVEMENTS,
        *("Add", "Cast", "Clip", "Concat", "Dropout", "Expand", "Gather", "Identity", "Max", "Mean", "Min", "Mul", "Neg"),
        *("Pad", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceSum", "Relu", "Sigmoid", "Slice", "Split", "Sub", "Sum"),
        *("Tanh", "Tile", "Where"),
    )
)
"""Operators that make no absolute error much larger, and may hand on a small result with its error."""
_MIXING: Final = frozenset(("Conv", "ConvTranspose", "GRU", "Gemm", "LSTM", "MatMul", "RNN", "Softmax"))
"""Operators that do the same, and beside whose other terms a small one is nothing."""
_LOOKED_AT: Final = 64
"""Nodes that are looked at, at most."""


def needs_small_digits(g: GraphView, name: str) -> bool:
    """Whether the relative error of small numbers may matter to something that is computed from a result.

    It matters to Log, Reciprocal, Sqrt, to a divisor, to a comparison; all operators are taken for such ones but those that
    are known to keep an absolute error absolute. Outputs of the model are compared with an absolute tolerance too.
    """
    seen: set[Node] = set()
    pending = [name]
    while pending:
        name = pending.pop()
        if g.is_used_by_subgraph(name) or (g.in_subgraph and g.is_output(name)):
            return True
        for node in g.next_nodes(name):
            if node in seen:
                continue
            seen.add(node)
            if len(seen) > _LOOKED_AT or not _keeps_absolute(g, node):
                return True
            if node.op_type not in _MIXING:
                pending += [result for result in node.output if result]
    return False


def _keeps_absolute(g: GraphView, node: Node) -> bool:
    """Whether an absolute error of an operand stays about as small in the result of a node."""
    if node.domain or node.op_type not in _CARRYING | _MIXING:
        return False
    return node.op_type != "Cast" or is_float(g.try_infer_type(node.output[0]))
