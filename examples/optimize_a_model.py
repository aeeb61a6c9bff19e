"""Optimize a model in Python, and print a report.

python examples/optimize_a_model.py
"""

from pathlib import Path

import onnx

import xoptim

MODEL = Path(__file__).parent / "models" / "tiny_bert.onnx"


def show(report: xoptim.OptimizationReport) -> None:
    """Print the report of an optimization."""
    print(
        f"{report.nodes_before} nodes became {report.nodes_after}; the numbers are "
        f"{report.exactness}"
    )
    for name, count in report.applied.items():
        print(f"{count:5d} {name}")


def main() -> None:
    """Optimize; the given model is left unchanged."""
    model = onnx.load(MODEL)
    smaller = xoptim.optimize(model, report=show)
    print(f"{model.ByteSize()} bytes became {smaller.ByteSize()}")


if __name__ == "__main__":
    main()
