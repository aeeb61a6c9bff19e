"""Time of one MatMul with a Split, compared with several MatMuls of the same input.

    python -m benchmarks.matmul               # one and two threads
    python -m benchmarks.matmul --threads 1 --seconds 5

The widths are taken from decoders: query, key and value, or the two projections of a gated layer.
Both forms run with all ORT graph optimizations, in rounds of random order. Sessions are created
again in each of three passes.
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
    """Both forms as models. A Neg reads each result: no MatMul or Split writes a graph output."""
    names = "ABC"[: len(parts)]
    weights = ", ".join(
        f"float[{width},{part}] {name}" for name, part in zip(names, parts, strict=True)
    )
    results = ", ".join(f"m{name}" for name in names)
    separate = " ".join(f"m{name} = MatMul(x, {name})" for name in names)
    merged = f"m = MatMul(x, W) {results} = Split <axis = -1> (m, n)"
    sizes = f"<int64[{len(parts)}] n = {{{', '.join(map(str, parts))}}}>"
    readers = " ".join(f"y{name} = Neg(m{name})" for name in names)
    outputs = results.replace("m", "y")
    x = f"float[1,ROWS,{width}] x"
    return {
        "apart": Subject(f"g ({x}, {weights}) => ({outputs}) {{ {separate} {readers} }}"),
        "one": Subject(
            f"g ({x}, float[{width},{sum(parts)}] W) => ({outputs}) {sizes} "
            f"{{ {merged} {readers} }}"
        ),
    }


@click.command()
@click.option(
    "--threads", default="1,2", show_default=True, help="Numbers of threads, separated by commas."
)
@click.option(
    "--seconds", default=2.0, show_default=True, help="Time of measured runs for each model."
)
@click.option("--width", type=int, help="Measure only inputs with this number of columns.")
def main(threads: str, seconds: float, width: int | None) -> None:
    """Measure and print the time of one MatMul divided by the time of several."""
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
