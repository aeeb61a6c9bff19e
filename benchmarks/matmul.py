"""Time of products of one input, apart and as one product with a Split.

    python -m benchmarks.matmul               # one and two threads
    python -m benchmarks.matmul --threads 1 --seconds 5

The widths are taken from decoders: query, key and value, or the two projections of a gated layer.
Both forms run with all of onnxruntime's optimizations, in rounds of random order, with sessions
made anew in three passes. `operators.py` holds what these figures decided.
"""

from typing import Final

import click

from benchmarks.operators import Subject, model_of
from benchmarks.tools import cell
from xoptim.bench import bench

WIDTHS: Final = ((2048, (2048, 256, 256)), (2048, (5632, 5632)), (768, (768, 768, 768)))
"""Columns of the input and of each weight."""
ROWS: Final = (1, 4, 128)


def forms(width: int, parts: tuple[int, ...]) -> dict[str, Subject]:
    """Both forms; what reads the products keeps them from being outputs."""
    names = "ABC"[: len(parts)]
    weights = ", ".join(
        f"float[{width},{part}] {name}" for name, part in zip(names, parts, strict=True)
    )
    products = ", ".join(f"m{name}" for name in names)
    several = " ".join(f"m{name} = MatMul(x, {name})" for name in names)
    one = f"m = MatMul(x, W) {products} = Split <axis = -1> (m, n)"
    sizes = f"<int64[{len(parts)}] n = {{{', '.join(map(str, parts))}}}>"
    read = " ".join(f"y{name} = Neg(m{name})" for name in names)
    results = products.replace("m", "y")
    x = f"float[1,ROWS,{width}] x"
    return {
        "apart": Subject(f"g ({x}, {weights}) => ({results}) {{ {several} {read} }}"),
        "one": Subject(
            f"g ({x}, float[{width},{sum(parts)}] W) => ({results}) {sizes} {{ {one} {read} }}"
        ),
    }


@click.command()
@click.option(
    "--threads", default="1,2", show_default=True, help="Numbers of threads, separated by commas."
)
@click.option("--seconds", default=2.0, show_default=True, help="Of measured runs for each model.")
@click.option("--width", type=int, help="Rows of the matrix; all by default.")
def main(threads: str, seconds: float, width: int | None) -> None:
    """Measure and print the time as one product divided by the time as several."""
    click.echo(
        f"| columns | threads | {' | '.join(f'{rows} rows' for rows in ROWS)} "
        f"|\n|---|---|{'---|' * len(ROWS)}"
    )
    for size, parts in WIDTHS:
        if width not in (None, size):
            continue
        for count in map(int, threads.split(",")):
            cells = []
            for rows in ROWS:
                models = {
                    label: model_of(subject, rows) for label, subject in forms(size, parts).items()
                }
                cells.append(
                    cell(
                        bench(models, threads=count, seconds=seconds, compare=False, loading=False)
                        .models[1]
                        .ratio
                    )
                )
            click.echo(
                f"| {size} to {' + '.join(map(str, parts))} | {count} | {' | '.join(cells)} |"
            )


if __name__ == "__main__":
    main()
