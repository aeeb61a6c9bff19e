"""A vision transformer of transformers 5 (ViT), exported by torch, optimized and verified.

python examples/pipelines/transformers_vision.py
"""

import onnx
import torch
from transformers import ViTConfig, ViTForImageClassification

from xoptim.integrations.torch import to_onnx


def export() -> tuple[onnx.ModelProto, onnx.ModelProto]:
    """The model as torch writes it, and the optimized one, which equals the network."""
    sizes = {
        "hidden_size": 64,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "intermediate_size": 128,
        "image_size": 64,
    }
    network = ViTForImageClassification(ViTConfig(**sizes)).eval()
    inputs = {"pixel_values": torch.randn(2, 3, 64, 64)}
    shapes = {"pixel_values": {0: torch.export.Dim.DYNAMIC}}
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
