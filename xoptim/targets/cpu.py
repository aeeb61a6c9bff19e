"""The processor, by onnxruntime itself."""

from typing import Final

from xoptim.targets.target import Target

TARGET: Final = Target(name="cpu", title="processor (onnxruntime)", provider="cpu")
