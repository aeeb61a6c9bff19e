"""A file that somebody else exported: the text detector of PaddleOCR in the package RapidOCR.

python examples/pipelines/paddle_ocr_file.py
"""

from importlib.util import find_spec
from pathlib import Path

import onnx

import xoptim


def export() -> tuple[onnx.ModelProto, onnx.ModelProto]:
    """The model of the file, and the optimized one, which is verified against it."""
    package = find_spec("rapidocr_onnxruntime")
    assert package is not None
    assert package.origin is not None
    file = next(Path(package.origin).parent.glob("models/*det*.onnx"))
    return onnx.load(file), xoptim.optimize(file, verify=True)


def main() -> None:
    """Say how much smaller the model became."""
    exported, optimized = export()
    print(f"{len(exported.graph.node)} nodes became {len(optimized.graph.node)}")


if __name__ == "__main__":
    main()
