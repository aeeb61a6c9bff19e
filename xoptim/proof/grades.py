"""How equal the two sides of a rewrite are proved to be."""

from typing import Final, Literal, TypeAlias, get_args

Grade: TypeAlias = Literal[
    "same bits", "over real numbers", "over real numbers, constants folded", "only run"
]
GRADES: Final[tuple[Grade, ...]] = get_args(Grade)
"""From the strongest to the weakest.

``same bits`` holds for all values, NaN included. ``over real numbers`` leaves out rounding,
overflow, NaN and infinities. ``constants folded``: also up to the rounding of computed constants.
``only run``: there is no proof, so the rewrite is verified by running both models.
"""
