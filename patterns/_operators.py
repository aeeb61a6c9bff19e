"""Groups of operators that patterns of several families treat alike."""

from typing import Final

from xoptim.operators.registry import Trait, operators_with

BROADCASTING: Final = tuple(sorted(operators_with(Trait.BROADCASTS)))
"""All operands broadcast to the shape of the result."""
STRETCHING: Final = operators_with(Trait.BROADCASTS, Trait.BROADCASTS_SECOND)
"""At least one operand is broadcast to the shape of the result."""
ELEMENTWISE: Final = operators_with(Trait.ELEMENTWISE)
"""Each element of the result is computed from the elements at its position."""
POSITIONAL: Final = operators_with(Trait.ROUNDS_BY_POSITION)
"""Elementwise operators that onnxruntime rounds differently at the end of a tensor."""
REDUCTIONS: Final = tuple(sorted(operators_with(Trait.REDUCES)))
"""Some axes are reduced to one number each."""
REDUCING: Final = tuple(sorted(operators_with(Trait.REDUCES, Trait.ARG_REDUCES)))
"""The same, and the positions of the largest and smallest elements."""
MOVING: Final = operators_with(Trait.MOVES)
"""The elements of the results are elements of the first operand."""
