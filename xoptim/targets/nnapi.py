"""Accelerators of Android, by NNAPI: a table of operators."""

from typing import Final

from xoptim.targets.target import FLOAT16_ERROR, Needs, Target

TARGET: Final = Target(
    name="nnapi",
    title="Android accelerators (NNAPI)",
    needs=Needs(static_shapes=True, standard_operators=True, compiles_parts=True),
    tolerance=FLOAT16_ERROR,
    table=True,
)
