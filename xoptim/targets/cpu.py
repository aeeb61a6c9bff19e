"""CPUs, by onnxruntime itself."""

from typing import Final

from xoptim.targets.target import Target

TARGET: Final = Target(name="cpu", title="CPU (ONNX Runtime)", provider="cpu")
