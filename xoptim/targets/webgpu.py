"""GPUs of any vendor, in browsers and outside, by WebGPU."""

from typing import Final

from xoptim.targets.target import FLOAT32_ERROR, WIDE_TYPES, Needs, Target
from xoptim.verification.runs.plugins import PLUGINS

TARGET: Final = Target(
    name="webgpu",
    title="any GPU, also in browsers (WebGPU)",
    provider="webgpu",
    plugin=PLUGINS["webgpu"],
    needs=Needs(missing_types=WIDE_TYPES, weights_only=True, computes_int8=False),
    # WGSL allows sine and cosine an error of 2^-11, and exponentials some units in the last place.
    tolerance=FLOAT32_ERROR,
    # Most lowerings need operator set 13, and all kernels of the provider run it.
    opset=13,
)
