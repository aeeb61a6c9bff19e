"""A UNet of diffusers, exported by torch, optimized and verified.

python examples/pipelines/diffusers_unet.py
"""

import onnx
import torch
from diffusers import UNet2DConditionModel

from xoptim.integrations.torch import to_onnx


def export() -> tuple[onnx.ModelProto, onnx.ModelProto]:
    """The model as torch writes it, and the optimized one, which equals the network."""
    network = UNet2DConditionModel(
        sample_size=16,
        block_out_channels=(32, 64),
        down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
        layers_per_block=1,
        cross_attention_dim=32,
        attention_head_dim=8,
        norm_num_groups=8,
    ).eval()
    inputs = {
        "sample": torch.randn(2, 4, 16, 16),
        "timestep": torch.tensor([10.0, 500.0]),
        "encoder_hidden_states": torch.randn(2, 7, 32),
        "return_dict": False,
    }
    batch, words = torch.export.Dim.DYNAMIC, torch.export.Dim.DYNAMIC
    shapes = {
        "sample": {0: batch},
        "timestep": {0: batch},
        "encoder_hidden_states": {0: batch, 1: words},
        "return_dict": None,
    }
    program = torch.onnx.export(
        network, kwargs=inputs, dynamic_shapes=shapes, dynamo=True, verbose=False
    )
    assert program is not None
    return program.model_proto, to_onnx(network, (), inputs, dynamic_shapes=shapes, verify=True)


def main() -> None:
    """Say how much smaller the model became."""
    exported, optimized = export()
    print(f"{len(exported.graph.node)} nodes became {len(optimized.graph.node)}")


if __name__ == "__main__":
    main()
