"""``xopt replay DUMP``."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from xoptim import Replayed, replay
from xoptim.verification import library_file

from ..exit_codes import DIFFERENT
from ..options import command, json_option, providers_option
from ..preparation import assume_from_model_option
from ..tables import Rows, open_console, print_json
from ..terminal import say
from ..verification import custom_op_option, software_device_option


@dataclass(frozen=True)
class _ReplayChoices:
    provider: tuple[str, ...] = providers_option()
    custom_op_lib: tuple[str, ...] = custom_op_option()
    software_device: bool = software_device_option()
    assume_from_model: bool = assume_from_model_option()
    as_json: bool = json_option()


@command("replay", dump=click.Path(path_type=Path))
def replay_command(dump: Path, choices: _ReplayChoices) -> int:
    """Recheck rewrites that DUMPPATTERNS=FOLDER (environment) dumped.

    Exit code 1 when one is wrong, 2 when a dump cannot be read.
    """
    libraries = tuple(map(library_file, choices.custom_op_lib))
    found = replay(
        dump,
        providers=choices.provider,
        custom_op_libs=libraries,
        assume_from_model=choices.assume_from_model,
        software_device=choices.software_device,
    )
    if choices.as_json:
        print_json([each.to_json() for each in found])
    else:
        _print_replayed(found)
    broken = [each for each in found if each.status == "damaged"]
    if any(each.status == "different" for each in found):
        return DIFFERENT
    if broken:
        raise click.ClickException(
            f"{len(broken)} of {len(found)} dumps cannot be read: {broken[0].reason}"
        )
    return 0


def _print_replayed(found: Sequence[Replayed]) -> None:
    rows = Rows("dump", "verdict", "difference", "reason", prose={"reason"}, right={"difference"})
    for each in found:
        rows.add(
            each.name,
            each.status,
            "" if each.largest is None else f"{each.largest:.2g}",
            each.reason,
        )
    rows.print(open_console())
    counts = Counter(each.status for each in found)
    say(
        f"{len(found)} rewrites:"
        f" {', '.join(f'{count} {status}' for status, count in sorted(counts.items()))}"
    )
