"""CPUs, GPUs and NPUs of Intel, by OpenVINO."""

from typing import Final

from xoptim.targets.target import BFLOAT16_ERROR, Needs, Target
from xoptim.verification.runs.plugins import PLUGINS

TARGET: Final = Target(
    name="openvino",
    title="Intel CPUs, GPUs and NPUs (OpenVINO)",
    provider="openvino",
    plugin=PLUGINS["openvino"],
    # OpenVINO accepts some operators of com.microsoft, but drops the activation of FusedGemm.
    needs=Needs(standard_operators=True, compiles_parts=True, weights_only=True),
    tolerance=BFLOAT16_ERROR,
    opset="newest",
    # OpenVINO replaces Attention and RotaryEmbedding of operator set 23 by other nodes. Models
    # without them took 0.87 to 0.99 of the time of models with them.
    families=("attention", "rotary"),
)
