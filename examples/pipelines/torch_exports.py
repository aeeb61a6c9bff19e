"""Optimize what torch.onnx.export returns, also where a library calls it.

python examples/pipelines/torch_exports.py
"""

import tempfile
from pathlib import Path

import onnx
import torch

import xoptim
from xoptim.integrations.torch import optimized_exports


class Block(torch.nn.Module):  # type: ignore[misc]  # where torch is not installed
    """A linear layer, scaled, and its softmax over the features."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(16, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Shapes: (batch, seq, 16) to (batch, seq, 8)."""
        y = self.linear(x).transpose(1, 2).reshape(x.shape[0], 8, x.shape[1])
        return torch.softmax(y.transpose(1, 2) / 2.0, dim=-1)


def main() -> None:
    """Both ways give the same nodes: the function on a program, and the hook around code that
    exports.
    """
    module, x = Block().eval(), torch.rand(2, 5, 16)
    program = torch.onnx.export(module, (x,), dynamo=True, optimize=False, verbose=False)
    assert program is not None
    before = len(program.model_proto.graph.node)
    xoptim.optimize(program, verify=True)  # the program takes the new model over
    with tempfile.TemporaryDirectory() as folder, optimized_exports(verify=True):
        target = Path(folder) / "block.onnx"
        torch.onnx.export(module, (x,), target, dynamo=True, optimize=False, verbose=False)
        written = len(onnx.load(target).graph.node)
    assert written == len(program.model_proto.graph.node)
    print(f"{before} nodes became {written}")


if __name__ == "__main__":
    main()
