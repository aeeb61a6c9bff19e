"""``xopt extract`` and ``xopt infer``."""

from __future__ import annotations

from pathlib import Path

import click
import onnx

from xoptim import extract, infer, save
from xoptim.api.preparing import serialized
from xoptim.diagnose.explanation import counted

from .files import MODEL, OUTPUT, STANDARD_OUTPUT, target_of
from .pipeline import write_stream


@click.command("extract")
@click.argument("model", type=MODEL)
@click.option("--from", "inputs", multiple=True, metavar="A,B", help="Values that the part reads (default: inputs of MODEL).")
@click.option("--to", "outputs", multiple=True, metavar="C,D", help="Values that it computes (default: outputs of MODEL).")
@click.option("-o", "--output", required=True, type=OUTPUT, help="File to write.")
def extract_command(model: Path, inputs: tuple[str, ...], outputs: tuple[str, ...], output: Path) -> None:
    """Write the part of MODEL that computes some values from others.

    Inputs of MODEL that the part needs besides become inputs of it too. Weights, local functions and metadata come along.
    """
    target = target_of(model, output, False, streams=True)
    part = extract(model, _listed(inputs), _listed(outputs))
    names = [", ".join(value.name for value in values) for values in (part.graph.input, part.graph.output)]
    _write(part, target, model, f"{counted(len(part.graph.node), 'node')} from {names[0] or 'constants'} to {names[1]}")


@click.command("infer")
@click.argument("model", type=MODEL)
@click.option("-o", "--output", required=True, type=OUTPUT, help="File to write.")
def infer_command(model: Path, output: Path) -> None:
    """Write MODEL with the types and shapes of its results, those of subgraphs included."""
    target = target_of(model, output, False, streams=True)
    found = infer(model)
    results = sum(1 for node in found.graph.node for name in node.output if name)
    known = {value.name for value in (*found.graph.value_info, *found.graph.output)}
    missing = sum(1 for node in found.graph.node for name in node.output if name and name not in known)
    _write(found, target, model, f"{results - missing} of {results} results")


def _write(proto: onnx.ModelProto, target: Path, model: Path, summary: str) -> None:
    """Write a model, and say so: on standard error where the model goes to standard output."""
    if target == STANDARD_OUTPUT:
        write_stream(serialized(proto, model.parent))
        click.echo(f"{summary}: standard output", err=True)
    else:
        click.echo(f"{summary}: {', '.join(map(str, save(proto, target, model.parent)))}")


def _listed(texts: tuple[str, ...]) -> list[str]:
    return [name for text in texts for name in text.split(",") if name]
