"""Groups of operators that patterns of several families treat alike."""

from typing import Final

from xoptim.match import Node
from xoptim.operators.registry import Trait, operators_with

BROADCASTING: Final = tuple(sorted(operators_with(Trait.BROADCASTS)))
"""Operators whose operands all broadcast to the shape of the result, such as Add."""
STRETCHING: Final = operators_with(Trait.BROADCASTS, Trait.BROADCASTS_SECOND)
"""Operators with at least one operand that broadcasts to the shape of the result."""
ELEMENTWISE: Final = operators_with(Trait.ELEMENTWISE)
"""Operators that compute each element of the result from the element at the same index."""
POSITIONAL: Final = operators_with(Trait.ROUNDS_BY_POSITION)
"""Elementwise operators that onnxruntime rounds differently at the end of a tensor."""
REDUCTIONS: Final = tuple(sorted(operators_with(Trait.REDUCES)))
"""Operators that reduce some axes to one number each, such as ReduceSum."""
REDUCING: Final = tuple(sorted(operators_with(Trait.REDUCES, Trait.ARG_REDUCES)))
"""`REDUCTIONS`, ArgMax and ArgMin."""
MOVING: Final = operators_with(Trait.MOVES)
"""Operators whose results consist of elements of the first operand, such as Transpose."""


def is_exponent(node: Node, index: int) -> bool:
    """Whether an operand is the exponent of a Pow.

    If it is broadcast along the last axis, onnxruntime multiplies for exponents of 2 and 3.
    Otherwise it calls a function, whose last bits differ.
    """
    return node.op_type == "Pow" and index == 1
