"""``xopt mine``."""

from __future__ import annotations

import json
from itertools import groupby
from pathlib import Path

import click

from xoptim.diagnose.mining import MOST_NODES, Motif, mine

from .files import MODEL
from .summary import open_console
from .tables import Rows

_FIGURES = ("places", "exclusive", "models")


@click.command("mine")
@click.argument("models", metavar="MODEL...", type=MODEL, nargs=-1, required=True)
@click.option(
    "--size", type=click.IntRange(2, MOST_NODES), default=MOST_NODES, show_default=True, help="Most nodes of a subgraph."
)
@click.option("--top", type=click.IntRange(1), default=20, show_default=True, help="Forms to list of each number of nodes.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def mine_command(models: tuple[Path, ...], size: int, top: int, as_json: bool) -> None:
    """List the subgraphs of a few connected nodes that occur most often in MODELs, which patterns may take up.

    A form is the expression of a subgraph without attributes: small letters are computed values, capital letters constants. In
    places that are exclusive, nothing else reads the results inside. Mine optimized models to see what the patterns leave.
    """
    found = mine(models, size)
    shown = [motif for _, motifs in groupby(found, key=lambda motif: motif.nodes) for motif in list(motifs)[:top]]
    if as_json:
        click.echo(json.dumps([motif.to_json() for motif in shown], indent=2))
        return
    rows = Rows("subgraph", *_FIGURES, "example", right=_FIGURES)
    for nodes, motifs in groupby(shown, key=lambda motif: motif.nodes):
        rows.add_title(f"{nodes} nodes")
        for motif in motifs:
            rows.add(f"  {motif.form}", *map(str, (motif.count, motif.exclusive, motif.models)), _example(motif))
    rows.print(open_console())


def _example(motif: Motif) -> str:
    return f"{Path(motif.model).name}: {', '.join(motif.place)}"
