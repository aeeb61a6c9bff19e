"""Time and rewrites by pattern, as tables.

pip install pandas
python examples/statistics_with_pandas.py
"""

from pathlib import Path

import pandas

from xoptim import GraphBuilder, OptimizationOptions

MODEL = Path(__file__).parent / "models" / "tiny_bert.onnx"


def main() -> None:
    """The rows that `GraphBuilder.optimize` returns, summed up."""
    builder = GraphBuilder(
        MODEL, optimization_options=OptimizationOptions(patterns="default+onnxruntime")
    )
    rows = pandas.DataFrame(builder.optimize())

    applied = rows[rows.pattern.str.startswith("apply_")]
    print(applied.groupby("pattern")[["instances", "added", "removed"]].sum(), end="\n\n")

    time = rows[rows.pattern != "iteration"].groupby("pattern").time_in.sum()
    print(time.sort_values(ascending=False).head(8).map("{:.4f} s".format).to_string())


if __name__ == "__main__":
    main()
