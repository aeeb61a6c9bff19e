"""List the subgraphs of a few connected nodes that occur most often in models.

    python -m lab.discovery.mine optimized/*.onnx
    python -m lab.discovery.mine optimized/*.onnx --size 3 --top 100000 --json > mined.json

A form is the expression of a subgraph without attributes: small letters are computed values,
capital letters constants. The column *exclusive* counts the places where no other node reads an
intermediate result of the subgraph.
"""

import json
from itertools import groupby
from pathlib import Path

import click

from lab.discovery.mining import MOST_NODES, mine
from xoptim.cli.files import MODEL
from xoptim.cli.tables import Rows, open_console

_FIGURES = ("places", "exclusive", "models")


@click.command()
@click.argument("models", type=MODEL, nargs=-1, required=True)
@click.option("--size", type=click.IntRange(2, MOST_NODES), default=MOST_NODES)
@click.option("--top", type=click.IntRange(1), default=20, help="Forms of each number of nodes.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def main(models: tuple[Path, ...], size: int, top: int, as_json: bool) -> None:
    """List the subgraphs of a few connected nodes that occur most often in MODELS."""
    shown = [
        motif
        for _, motifs in groupby(mine(models, size), key=lambda motif: motif.nodes)
        for motif in list(motifs)[:top]
    ]
    if as_json:
        click.echo(json.dumps([motif.to_json() for motif in shown], indent=2))
        return
    rows = Rows("subgraph", *_FIGURES, "example", right=_FIGURES)
    for nodes, motifs in groupby(shown, key=lambda motif: motif.nodes):
        rows.add_title(f"{nodes} nodes")
        for motif in motifs:
            example = f"{Path(motif.model).name}: {', '.join(motif.place)}"
            counts = map(str, (motif.count, motif.exclusive, motif.models))
            rows.add(f"  {motif.form}", *counts, example)
    rows.print(open_console())


if __name__ == "__main__":
    main()
