"""GPUs of NVIDIA, by the CUDA provider of onnxruntime."""

from typing import Final

from xoptim.targets.target import Target

TARGET: Final = Target(
    name="cuda",
    title="NVIDIA GPUs (CUDA)",
    provider="cuda",
    package="onnxruntime-gpu",
)
