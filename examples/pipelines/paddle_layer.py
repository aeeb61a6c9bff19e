"""A layer of Paddle, exported by paddle2onnx, then optimized.

python examples/pipelines/paddle_layer.py
"""

import tempfile
from pathlib import Path

import onnx
import paddle

import xoptim


def main() -> None:
    """A small network with a normalization.

    Paddle writes its own format first, paddle2onnx reads that.
    """
    paddle.seed(0)
    network = paddle.nn.Sequential(
        paddle.nn.Conv2D(3, 8, 3),
        paddle.nn.BatchNorm2D(8),
        paddle.nn.ReLU(),
        paddle.nn.Flatten(),
        paddle.nn.Linear(1568, 4),
    )
    network.eval()
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "network"
        spec = [paddle.static.InputSpec([None, 3, 16, 16], "float32", name="x")]
        paddle.onnx.export(network, str(target), input_spec=spec, opset_version=17)
        model = onnx.load(target.with_suffix(".onnx"))
    smaller = xoptim.optimize(model, verify=True)
    print(f"{len(model.graph.node)} nodes became {len(smaller.graph.node)}")


if __name__ == "__main__":
    main()
