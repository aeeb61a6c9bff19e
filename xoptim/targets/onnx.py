"""Any runtime that implements the standard: standard operators only."""

from typing import Final

from xoptim.targets.target import Needs, Target

TARGET: Final = Target(
    name="onnx",
    title="any runtime (standard operators)",
    needs=Needs(standard_operators=True),
    table=True,
    is_standard=True,
)
