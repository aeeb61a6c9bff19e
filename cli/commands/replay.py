"""``xopt replay DUMP``."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from xoptim import Replayed, replay
from xoptim.diagnose.explanation import counted
from xoptim.verification import library_file

from ..exit_codes import DIFFERENT, NOT_VERIFIED
from ..options import command, flag, json_option, providers_option
from ..preparation import assume_from_model_option
from ..selection import operators_option
from ..tables import Rows, open_console, print_json
from ..terminal import say
from ..verification import custom_op_option, software_device_option


@dataclass(frozen=True)
class _ReplayChoices:
    provider: tuple[str, ...] = providers_option()
    custom_op_lib: tuple[str, ...] = custom_op_option()
    include: tuple[str, ...] = operators_option()
    software_device: bool = software_device_option()
    assume_from_model: bool = assume_from_model_option()
    prove: bool = flag("Also prove each rewrite for all sizes, where possible.")
    as_json: bool = json_option()


@command("replay", dump=click.Path(path_type=Path))
def replay_command(dump: Path, choices: _ReplayChoices) -> int:
    """Recheck rewrites that DUMPPATTERNS=FOLDER (environment) dumped.

    Exit code 1 when a rewrite is wrong, 2 when a dump cannot be read, 3 when a rewrite is not
    verified.
    """
    libraries = tuple(map(library_file, choices.custom_op_lib))
    results = replay(
        dump,
        providers=choices.provider,
        custom_op_libs=libraries,
        assume_from_model=choices.assume_from_model,
        software_device=choices.software_device,
        prove=choices.prove,
    )
    if choices.as_json:
        print_json(results)
    else:
        _print_replayed(results)
    broken = [result for result in results if result.status == "damaged"]
    if any(result.status == "different" for result in results):
        return DIFFERENT
    if broken:
        raise click.ClickException(
            f"{len(broken)} of {len(results)} dumps cannot be read: {broken[0].reason}"
        )
    return NOT_VERIFIED if any(result.status == "not verified" for result in results) else 0


def _print_replayed(results: Sequence[Replayed]) -> None:
    is_proving = any(result.proof is not None for result in results)
    columns = ["dump", "verdict", "difference", *(["proof"] if is_proving else []), "reason"]
    rows = Rows(*columns, prose={"reason", "proof"}, right={"difference"})
    for result in results:
        cells = {
            "dump": result.name,
            "verdict": result.status,
            "difference": "" if result.largest is None else f"{result.largest:.2g}",
            "proof": "" if result.proof is None else result.proof.text,
            "reason": result.reason,
        }
        rows.add(*(cells[column] for column in columns))
    rows.print(open_console())
    counts = Counter(result.status for result in results)
    say(
        f"{counted(len(results), 'rewrite')}:"
        f" {', '.join(f'{count} {status}' for status, count in sorted(counts.items()))}"
    )
