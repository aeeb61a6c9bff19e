"""The work of a node: its kind of work per element, and its number of operations."""

import math
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, TypeAlias

from xoptim.operators.protocols import NodeView


class CostKind(Enum):
    """The work of a node per element, which determines the time per element."""

    VIEW = "nothing: the result shares the memory of the operand"
    COPIED = "copies it"
    LIGHT = "one cheap instruction, such as an addition"
    HEAVY = "many instructions, such as a division or an exponential"
    REDUCED = "adds it to a reduction"
    MATMUL = "multiplies it by a row or a column"


KnownShapes: TypeAlias = Sequence[tuple[int, ...]]
Operations: TypeAlias = Callable[[Any, KnownShapes, KnownShapes], int]
"""Takes a `NodeView` and the shapes of operands and results, ``()`` for an absent operand.

A multiplication and an addition count as two. Raises `IndexError` for shapes that the operator does
not accept.
"""


def no_operations(_node: NodeView, _operands: KnownShapes, _results: KnownShapes) -> int:
    """Operators that compute nothing themselves."""
    return 0


def one_per_operand_element(_node: NodeView, operands: KnownShapes, _results: KnownShapes) -> int:
    """One operation for each element of the first operand."""
    return math.prod(operands[0])


def passes(count: int) -> Operations:
    """``count`` operations per element of the first result: roughly, the passes over the tensor."""

    def operations(_node: NodeView, _operands: KnownShapes, results: KnownShapes) -> int:
        return math.prod(results[0]) * count

    return operations


one_per_element: Operations = passes(1)
"""One operation for each element of the first result."""
