"""A model of timm (MobileNetV3), exported by torch, optimized and verified.

python examples/pipelines/timm_model.py
"""

import onnx
import timm
import torch

from xoptim.integrations.torch import to_onnx


def export() -> tuple[onnx.ModelProto, onnx.ModelProto]:
    """The model as torch writes it, and the optimized one, which equals the network."""
    network = timm.create_model("mobilenetv3_small_050", pretrained=False, num_classes=10).eval()
    image = torch.randn(2, 3, 64, 64)
    shapes = ({0: torch.export.Dim.DYNAMIC},)
    program = torch.onnx.export(
        network, (image,), dynamic_shapes=shapes, dynamo=True, verbose=False
    )
    assert program is not None
    return program.model_proto, to_onnx(network, image, dynamic_shapes=shapes, verify=True)


def main() -> None:
    """Say how much smaller the model became."""
    exported, optimized = export()
    print(f"{len(exported.graph.node)} nodes became {len(optimized.graph.node)}")


if __name__ == "__main__":
    main()
