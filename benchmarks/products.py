"""Time of products of one input, apart and as one product with a Split.

    python -m benchmarks.products               # one and two threads
    python -m benchmarks.products --threads 1 --seconds 5

The widths are taken from decoders: query, key and value, or the two projections of a gated layer. Both forms run with all
of onnxruntime's optimizations, in rounds of random order, with sessions made anew in three passes. `operators.py` holds what
these figures decided.
"""

from typing import Final

import click
import numpy as np
import onnx
from onnx import numpy_helper

from benchmarks.operators import cell
from xoptim.bench import bench

WIDTHS: Final[dict[str, tuple[int, tuple[int, ...]]]] = {
    "2048 to 2048 + 256 + 256": (2048, (2048, 256, 256)),
    "2048 to 5632 + 5632": (2048, (5632, 5632)),
    "768 to 768 + 768 + 768": (768, (768, 768, 768)),
}
"""Columns of the input and of each weight."""
ROWS: Final = (1, 4, 128)


def model_of(width: int, parts: tuple[int, ...], joined: bool) -> onnx.ModelProto:
    """Products of one input; what reads them keeps them from being outputs."""
    rng = np.random.default_rng(0)
    weights = [rng.standard_normal((width, part), np.float32) * width**-0.5 for part in parts]
    lanes = range(len(parts))
    results = ", ".join(f"m{lane}" for lane in lanes)
    one = f"m = MatMul(x, w) {results} = Split <axis = -1> (m, n)"
    several = " ".join(f"m{lane} = MatMul(x, w{lane})" for lane in lanes)
    read = " ".join(f"y{lane} = Neg(m{lane})" for lane in lanes)
    outputs = ", ".join(f"float[1,s,{part}] y{lane}" for lane, part in enumerate(parts))
    text = f"g (float[1,s,{width}] x) => ({outputs}) {{ {one if joined else several} {read} }}"
    model: onnx.ModelProto = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 18]> {text}')
    stored = {"w": np.concatenate(weights, 1), "n": np.array(parts)} if joined else {f"w{i}": w for i, w in enumerate(weights)}
    model.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in stored.items())
    return model


def row(name: str, threads: int, seconds: float) -> str:
    """A row of the table: the time as one product divided by the time as several."""
    width, parts = WIDTHS[name]
    models = {"apart": model_of(width, parts, False), "one": model_of(width, parts, True)}
    cells = []
    for rows in ROWS:
        feeds = {"x": np.random.default_rng(rows).standard_normal((1, rows, width), np.float32)}
        report = bench(models, feeds=feeds, threads=threads, seconds=seconds, compare=False, loading=False)
        cells.append(cell(report.models[1].ratio))
    return f"| {name} | {threads} | {' | '.join(cells)} |"


@click.command()
@click.option("--threads", default="1,2", show_default=True, help="Numbers of threads, separated by commas.")
@click.option("--seconds", default=2.0, show_default=True, help="Of measured runs for each model.")
def main(threads: str, seconds: float) -> None:
    """Measure and print."""
    click.echo(f"| columns | threads | {' | '.join(f'{rows} rows' for rows in ROWS)} |\n|---|---|{'---|' * len(ROWS)}")
    for name in WIDTHS:
        for count in threads.split(","):
            click.echo(row(name, int(count), seconds))


if __name__ == "__main__":
    main()
