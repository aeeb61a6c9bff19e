"""RTX GPUs of NVIDIA, by TensorRT for RTX."""

from typing import Final

from xoptim.targets.target import FLOAT16_ERROR, Needs, Target
from xoptim.verification.runs.plugins import PLUGINS

TARGET: Final = Target(
    name="tensorrt",
    title="NVIDIA RTX GPUs (TensorRT for RTX)",
    provider="tensorrt",
    plugin=PLUGINS["tensorrt"],
    needs=Needs(
        standard_operators=True, compiles_parts=True, weights_only=True, symmetric_int8=True
    ),
    tolerance=FLOAT16_ERROR,
)
