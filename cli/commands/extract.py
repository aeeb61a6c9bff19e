"""``xopt extract MODEL``."""

from dataclasses import dataclass, field
from pathlib import Path

import onnx

from xoptim import extract, infer
from xoptim.diagnose.explanation import counted

from ..files import MODEL, STANDARD_OUTPUT, output_option, target_of
from ..options import command, refuse_idle, repeated
from ..pairing import Pairing, write_pair
from ..pipeline import write_whole
from ..preparation import assume_from_model_option, print_assumed
from ..selection import operators_option


@dataclass(frozen=True)
class _ExtractChoices:
    inputs: tuple[str, ...] = repeated(
        "Inputs of the subgraph (default: inputs of MODEL).", "--from", metavar="A,B"
    )
    outputs: tuple[str, ...] = repeated(
        "Outputs of the subgraph (default: outputs of MODEL).", "--to", metavar="C,D"
    )
    output: Path = output_option("File to write; with --into, the folder.", required=True)
    pairing: Pairing = field(default_factory=Pairing)
    include: tuple[str, ...] = operators_option()
    assume_from_model: bool = assume_from_model_option()


@command("extract", model=MODEL)
def extract_command(model: Path, choices: _ExtractChoices) -> int:
    """Write a subgraph of MODEL as a model.

    Other inputs of MODEL that the subgraph needs become its inputs, too. Weights, local functions
    and metadata are kept. Without --from and --to, all of MODEL is written, with inferred types and
    shapes.

    With --into ENCODER, MODEL is a decoder. Keys and values of cross attention, and other results
    that depend on ENCODER alone, are computed once, in ENCODER. The written decoder reads them as
    inputs. Optimize both models first. By default, an input with the name of an output of ENCODER
    reads this output, and encoder_hidden_states reads last_hidden_state.

    With --into, the exit code is 1 when there is nothing to move, or the results differ and the
    models are not written. It is 3 when the models are written but not verified.
    """
    refuse_idle(choices.pairing.idle())
    encoder = choices.pairing.into
    if encoder is not None:
        return write_pair(
            encoder,
            model,
            choices.output,
            choices.pairing,
            assume_from_model=choices.assume_from_model,
        )
    target = target_of(model, choices.output, False, streams=True)
    if not choices.inputs and not choices.outputs:
        _write_inferred(model, target, choices)
        return 0
    refuse_idle({"assume_from_model": "with --from or --to"})
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
    return 0


def _write_inferred(model: Path, target: Path, choices: _ExtractChoices) -> None:
    inferred = infer(model, assume_from_model=choices.assume_from_model)
    if target != STANDARD_OUTPUT:
        print_assumed((), model, from_model=choices.assume_from_model)
    results = [name for node in inferred.graph.node for name in node.output if name]
    count = _described(inferred, results)
    write_whole(inferred, target, model, f"types of {count} of {len(results)} results")


def _described(model: onnx.ModelProto, results: list[str]) -> int:
    """The number of results whose type is known."""
    names = {value.name for value in (*model.graph.value_info, *model.graph.output)}
    return sum(name in names for name in results)


def _listed(texts: tuple[str, ...]) -> list[str]:
    return [name for text in texts for name in text.split(",") if name]
