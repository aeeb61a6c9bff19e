"""``xopt mine``."""

from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import click

from xoptim.diagnose.mining import MOST_NODES, mine

from ..files import MODEL
from ..options import command, json_option, option
from ..tables import Rows, open_console, print_json

_FIGURES = ("places", "exclusive", "models")


@dataclass(frozen=True)
class _Choices:
    size: int = option(
        "Most nodes of a subgraph.", type=click.IntRange(2, MOST_NODES), default=MOST_NODES
    )
    top: int = option("Forms to list of each number of nodes.", type=click.IntRange(1), default=20)
    as_json: bool = json_option()


@command("mine", models={"metavar": "MODEL...", "type": MODEL, "nargs": -1, "required": True})
def mine_command(models: tuple[Path, ...], choices: _Choices) -> None:
    """List the subgraphs of a few connected nodes that occur most often in MODELs, candidates for
    new patterns.

    A form is the expression of a subgraph without attributes: small letters are computed values,
    capital letters constants. In places that are exclusive, nothing else reads the results inside.
    Mine optimized models to see what the patterns leave.
    """
    found = mine(models, choices.size)
    shown = [
        motif
        for _, motifs in groupby(found, key=lambda motif: motif.nodes)
        for motif in list(motifs)[: choices.top]
    ]
    if choices.as_json:
        print_json([motif.to_json() for motif in shown])
        return
    rows = Rows("subgraph", *_FIGURES, "example", right=_FIGURES)
    for nodes, motifs in groupby(shown, key=lambda motif: motif.nodes):
        rows.add_title(f"{nodes} nodes")
        for motif in motifs:
            example = f"{Path(motif.model).name}: {', '.join(motif.place)}"
            rows.add(
                f"  {motif.form}", *map(str, (motif.count, motif.exclusive, motif.models)), example
            )
    rows.print(open_console())
