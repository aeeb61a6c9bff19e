"""xoptim as one pass among others of onnx_ir.

python examples/pipelines/onnx_ir_passes.py
"""

from pathlib import Path

import onnx_ir
from onnx_ir.passes import Sequential
from onnx_ir.passes.common import ClearMetadataAndDocStringPass, RemoveUnusedNodesPass

from xoptim.integrations.onnx_ir import OptimizePass

MODEL = Path(__file__).parents[1] / "models" / "tiny_bert.onnx"


def main() -> None:
    """Optimize between two passes of onnx_ir.

    The result is verified against the output of the first pass.
    """
    model = onnx_ir.load(MODEL)
    passes = Sequential(
        RemoveUnusedNodesPass(), OptimizePass(verify=True), ClearMetadataAndDocStringPass()
    )
    result = passes(model)
    print(f"{model.graph.num_nodes()} nodes became {result.model.graph.num_nodes()}")


if __name__ == "__main__":
    main()
