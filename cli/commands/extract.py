"""``xopt extract MODEL``."""

from dataclasses import dataclass
from pathlib import Path

from xoptim import extract
from xoptim.diagnose.explanation import counted

from ..files import MODEL, output_option, target_of
from ..options import command, repeated
from ..pipeline import write_whole


@dataclass(frozen=True)
class _Choices:
    inputs: tuple[str, ...] = repeated(
        "Values that the part reads (default: inputs of MODEL).", "--from", metavar="A,B"
    )
    outputs: tuple[str, ...] = repeated(
        "Values that it computes (default: outputs of MODEL).", "--to", metavar="C,D"
    )
    output: Path = output_option("File to write.", required=True)


@command("extract", model=MODEL)
def extract_command(model: Path, choices: _Choices) -> None:
    """Write the part of MODEL that computes some values from others.

    Inputs of MODEL that the part also needs become its inputs too. Weights, local functions and
    metadata come along.
    """
    target = target_of(model, choices.output, False, streams=True)
    part = extract(model, _listed(choices.inputs), _listed(choices.outputs))
    names = [
        ", ".join(value.name for value in values)
        for values in (part.graph.input, part.graph.output)
    ]
    write_whole(
        part,
        target,
        model,
        f"{counted(len(part.graph.node), 'node')} from {names[0] or 'constants'} to {names[1]}",
    )


def _listed(texts: tuple[str, ...]) -> list[str]:
    return [name for text in texts for name in text.split(",") if name]
