"""From a torch module to an optimized model in one call.

pip install 'xoptim[torch]'
python examples/export_from_torch.py
"""

import torch

from xoptim.doc import pretty_onnx
from xoptim.integrations.torch import to_onnx


def main() -> None:
    """Export with a batch of any size."""
    module = torch.nn.Sequential(
        torch.nn.Linear(10, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1)
    ).eval()
    batch = torch.export.Dim("batch")
    model = to_onnx(module, torch.rand(3, 10), input_names=["x"], dynamic_shapes=({0: batch},))
    print(pretty_onnx(model))


if __name__ == "__main__":
    main()
