"""``xopt doctor``."""

from __future__ import annotations

import json

import click

from xoptim.bench.report import bytes_text
from xoptim.diagnose.doctor import diagnose_installation

from .choices import provider
from .settings import settings_file
from .summary import open_console


@click.command("doctor")
@click.option(
    "--provider",
    type=provider,
    metavar="TEXT",
    default="cpu",
    show_default=True,
    help="Provider to look at for skipped patterns.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def doctor_command(provider: str, as_json: bool) -> int:
    """Report versions, execution providers, kernels, packs, settings, and the patterns that would be skipped, with reasons.

    Exit code 1 when something does not work.
    """
    found = diagnose_installation(provider)
    settings = settings_file()
    if as_json:
        click.echo(json.dumps({**found.to_json(), "settings": None if settings is None else str(settings)}, indent=2))
        return int(bool(found.faults))
    console = open_console()
    for name, version in found.versions.items():
        console.print(f"version     {name} {version or 'is not installed (optional)'}", highlight=False)
    for name, why in found.providers.items():
        console.print(f"provider    {name}: {why or 'runs models'}", highlight=False)
    for name, count in found.kernels.items():
        console.print(f"kernels     {name}: {f'{count} operators' if count else 'not known'}", highlight=False)
    for name, count in found.packs.items():
        console.print(f"pack        {name}: {'cannot be loaded' if count < 0 else f'{count} patterns'}", highlight=False)
    if found.memory is not None:
        console.print(f"memory      {bytes_text(found.memory)} free", highlight=False)
    console.print(f"settings    {settings or 'none'}", highlight=False)
    for name, why in found.skipped.items():
        console.print(f"skipped     {name}: {why}", highlight=False)
    for fault in found.faults:
        click.echo(f"xopt: error: {fault}", err=True)
    return int(bool(found.faults))
