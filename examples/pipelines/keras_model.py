"""A network of Keras 3 (torch backend), exported by Keras, optimized and verified.

python examples/pipelines/keras_model.py
"""

import os
import tempfile
from pathlib import Path

import numpy as np
import onnx

import xoptim

os.environ.setdefault("KERAS_BACKEND", "torch")
import keras


def export() -> tuple[onnx.ModelProto, onnx.ModelProto]:
    """The model as Keras writes it, and the optimized one, which equals the network."""
    layers = keras.layers
    network = keras.Sequential(
        [
            keras.Input((16, 16, 3)),
            layers.Conv2D(8, 3, activation="relu"),
            layers.BatchNormalization(),
            layers.GlobalAveragePooling2D(),
            layers.Dense(10, activation="softmax"),
        ]
    )
    network(np.zeros((1, 16, 16, 3), np.float32))  # Keras exports what has been called
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "network.onnx"
        network.export(file, format="onnx", verbose=False)
        before = onnx.load(file)
    optimized = xoptim.optimize(before, verify=True)

    def predict(image: np.ndarray) -> np.ndarray:
        found: np.ndarray = network.predict(image, verbose=0)
        return found

    report = xoptim.verify(predict, optimized)
    assert report.ok, report
    return before, optimized


def main() -> None:
    """Say how much smaller the model became."""
    exported, optimized = export()
    print(f"{len(exported.graph.node)} nodes became {len(optimized.graph.node)}")


if __name__ == "__main__":
    main()
