"""NPUs of Snapdragon, by QNN."""

from typing import Final

from xoptim.targets.target import FLOAT16_ERROR, Needs, Target
from xoptim.verification.runs.plugins import PLUGINS

TARGET: Final = Target(
    name="qnn",
    title="Snapdragon NPUs (QNN)",
    provider="qnn",
    plugin=PLUGINS["qnn"],
    needs=Needs(
        static_shapes=True,
        standard_operators=True,
        prefers_float16=True,
        compiles_parts=True,
        static_int8=True,
    ),
    tolerance=FLOAT16_ERROR,
)
