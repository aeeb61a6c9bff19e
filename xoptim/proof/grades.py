"""How equal the two sides of a rewrite are proved to be."""

from typing import Final, Literal, TypeAlias, get_args

Grade: TypeAlias = Literal[
    "same bits", "over real numbers", "over real numbers, constants folded", "only run"
]
GRADES: Final[tuple[Grade, ...]] = get_args(Grade)
"""From the strongest to the weakest."""
