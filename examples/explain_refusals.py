"""Why was a pattern not applied? Each refusal names the node, the condition, and its line in the
source.

python examples/explain_refusals.py

On the command line: PATTERN=GatherUnsqueeze xopt examples/models/tiny_bert.onnx -q --dry-run
"""

from pathlib import Path

from xoptim import GraphBuilder, OptimizationOptions

MODEL = Path(__file__).parent / "models" / "tiny_bert.onnx"


def main() -> None:
    """Log every reason of one pattern; the statistics keep the most frequent place."""
    options = OptimizationOptions(patterns=["GatherUnsqueeze"], verbose=10)
    rows = GraphBuilder(MODEL, optimization_options=options).optimize()
    print("mostly refused at", next(row["exit_point"] for row in rows if row["exit_point"]))


if __name__ == "__main__":
    main()
