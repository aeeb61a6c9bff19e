"""Devices of Apple, by Core ML: a table of operators."""

from typing import Final

from xoptim.targets.target import FLOAT16_ERROR, Needs, Target

TARGET: Final = Target(
    name="coreml",
    title="Apple devices (Core ML)",
    needs=Needs(
        static_shapes=True,
        standard_operators=True,
        prefers_float16=True,
        compiles_parts=True,
    ),
    tolerance=FLOAT16_ERROR,
    table=True,
)
