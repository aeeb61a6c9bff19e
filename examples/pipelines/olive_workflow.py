"""xoptim as a pass of a workflow of Olive.

python examples/pipelines/olive_workflow.py

On the command line: olive run --config workflow.json --package-config
examples/pipelines/olive_package.json
"""

import shutil
import tempfile
from pathlib import Path

import onnx
from olive.workflows import run

HERE = Path(__file__).parent
MODEL = HERE.parent / "models" / "tiny_bert.onnx"


def main() -> None:
    """Optimize; Olive finds the pass by the package configuration next to this file."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shutil.copy(MODEL, folder / "model.onnx")
        workflow = {
            "input_model": {"type": "ONNXModel", "model_path": str(folder / "model.onnx")},
            "passes": {
                "xoptim": {"type": "XoptimOptimizer", "patterns": "default", "verify": True}
            },
            "output_dir": str(folder / "out"),
            "cache_dir": str(folder / "cache"),
            "log_severity_level": 3,
        }
        run(workflow, package_config=str(HERE / "olive_package.json"))
        (result,) = (folder / "out").rglob("*.onnx")
        print(
            f"{len(onnx.load(MODEL).graph.node)} nodes became {len(onnx.load(result).graph.node)}"
        )


if __name__ == "__main__":
    main()
