"""``xopt extract`` and ``xopt infer``."""

from __future__ import annotations

from pathlib import Path

import click

from xoptim import extract, infer, save_proto

from .files import MODEL, OUTPUT, target_of


@click.command("extract")
@click.argument("model", type=MODEL)
@click.option("--from", "inputs", multiple=True, metavar="A,B", help="Values that the part reads (default: inputs of MODEL).")
@click.option("--to", "outputs", multiple=True, metavar="C,D", help="Values that it computes (default: outputs of MODEL).")
@click.option("-o", "--output", required=True, type=OUTPUT, help="File to write.")
def extract_command(model: Path, inputs: tuple[str, ...], outputs: tuple[str, ...], output: Path) -> None:
    """Write the part of MODEL that computes some values from others.

    Inputs of MODEL that the part needs besides become inputs of it too. Weights, local functions and metadata come along.
    """
    target = target_of(model, output, False)
    part = extract(model, _listed(inputs), _listed(outputs))
    written = save_proto(part, target, model.parent)
    names = [", ".join(value.name for value in values) for values in (part.graph.input, part.graph.output)]
    click.echo(f"{len(part.graph.node)} nodes from {names[0] or 'constants'} to {names[1]}: {', '.join(map(str, written))}")


@click.command("infer")
@click.argument("model", type=MODEL)
@click.option("-o", "--output", required=True, type=OUTPUT, help="File to write.")
def infer_command(model: Path, output: Path) -> None:
    """Write MODEL with the types and shapes of its results, those of subgraphs included."""
    target = target_of(model, output, False)
    found = infer(model)
    results = sum(1 for node in found.graph.node for name in node.output if name)
    known = {value.name for value in (*found.graph.value_info, *found.graph.output)}
    missing = sum(1 for node in found.graph.node for name in node.output if name and name not in known)
    written = save_proto(found, target, model.parent)
    click.echo(f"{results - missing} of {results} results: {', '.join(map(str, written))}")


def _listed(texts: tuple[str, ...]) -> list[str]:
    return [name for text in texts for name in text.split(",") if name]
