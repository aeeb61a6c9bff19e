"""``xopt infer MODEL``."""

from dataclasses import dataclass
from pathlib import Path

from xoptim import infer

from ..files import MODEL, STANDARD_OUTPUT, output_option, target_of
from ..options import command
from ..pipeline import write_whole
from ..preparation import assume_from_model_option, print_assumed


@dataclass(frozen=True)
class _Choices:
    output: Path = output_option("File to write.", required=True)
    assume_from_model: bool = assume_from_model_option()


@command("infer", model=MODEL)
def infer_command(model: Path, choices: _Choices) -> None:
    """Write MODEL with the types and shapes of its results, subgraphs included."""
    target = target_of(model, choices.output, False, streams=True)
    found = infer(model, assume_from_model=choices.assume_from_model)
    results = sum(1 for node in found.graph.node for name in node.output if name)
    known = {value.name for value in (*found.graph.value_info, *found.graph.output)}
    missing = sum(
        1 for node in found.graph.node for name in node.output if name and name not in known
    )
    if target != STANDARD_OUTPUT:
        print_assumed((), model, from_model=choices.assume_from_model)
    write_whole(found, target, model, f"{results - missing} of {results} results")
