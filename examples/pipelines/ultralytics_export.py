"""YOLO of ultralytics, with xoptim instead of onnxslim, which ``simplify=True`` calls.

python examples/pipelines/ultralytics_export.py
"""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
import ultralytics

import xoptim
from xoptim.integrations.onnxslim import in_place_of_onnxslim


def written(folder: str, **options: Any) -> tuple[ultralytics.YOLO, onnx.ModelProto]:
    """A network with random weights, and what its exporter writes."""
    network = ultralytics.YOLO("yolo11n.yaml")
    network.model.pt_path = str(Path(folder) / "yolo.pt")  # the file is written next to it
    file = network.export(format="onnx", imgsz=64, **options)
    return network, onnx.load(file)


def export() -> tuple[onnx.ModelProto, onnx.ModelProto]:
    """The model without and with ``simplify=True``, which equals the network."""
    with tempfile.TemporaryDirectory() as folder:
        before = written(folder, simplify=False)[1]
        with in_place_of_onnxslim(verify=True):
            network, optimized = written(folder, simplify=True)

    def detect(images: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            found: np.ndarray = network.model.eval()(torch.from_numpy(images))[0].numpy()
        return found

    report = xoptim.verify(detect, optimized)
    assert report.ok, report
    return before, optimized


def main() -> None:
    """Say how much smaller the model became."""
    exported, optimized = export()
    print(f"{len(exported.graph.node)} nodes became {len(optimized.graph.node)}")


if __name__ == "__main__":
    main()
