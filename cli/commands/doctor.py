"""``xopt doctor``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click

from xoptim.api.preparing import Source
from xoptim.diagnose.doctor import Diagnosis, diagnose_installation
from xoptim.diagnose.explanation import JsonForm, JsonResult, bytes_text, within
from xoptim.diagnose.export import diagnose_export
from xoptim.targets import TargetState
from xoptim.verification import VerificationOptions

from ..files import MODEL
from ..options import command, json_option, known_provider, provider_option, refuse_idle
from ..selection import operators_option
from ..settings import used_settings
from ..tables import open_console, print_json
from ..terminal import say
from ..verification import software_device_option


@dataclass(frozen=True, slots=True)
class DoctorDocument(JsonResult):
    """The state of an installation, and the settings in use.

    Attributes:
        diagnosis: the state of the installation.
        settings: the settings files in use, the strongest first; ``None`` without one.
    """

    __json__ = JsonForm(*within("diagnosis", Diagnosis), "settings", name="Doctor")
    diagnosis: Diagnosis
    settings: str | None


@dataclass(frozen=True)
class _DoctorChoices:
    provider: str = provider_option("Execution provider.", type=known_provider, metavar="TEXT")
    software_device: bool = software_device_option()
    include: tuple[str, ...] = operators_option()
    as_json: bool = json_option()


@command("doctor", model={"type": MODEL, "required": False})
def doctor_command(context: click.Context, model: Path | None, choices: _DoctorChoices) -> int:
    """Report versions, providers, targets, settings, and problems.

    With MODEL, run the model at several sizes of each dynamic dimension instead, and name the sizes
    that its export took from the example input.

    Exit code 1 when something does not work.
    """
    if model is not None:
        refuse_idle({"software_device": "with a model"})
        return _examined(model, choices)
    refuse_idle({"include": "without a model"})
    installation = diagnose_installation(choices.provider, software_device=choices.software_device)
    settings = used_settings(context)
    if choices.as_json:
        print_json(DoctorDocument(installation, settings))
    else:
        _print_installation(installation, settings)
    return int(bool(installation.faults))


def _examined(model: Path, choices: _DoctorChoices) -> int:
    """Look for sizes that a model has only because its example input had them."""
    source = Source(model)
    options = VerificationOptions(
        assignments=1,
        extremes=False,
        providers=(choices.provider,),
        original_dir=source.base_dir,
    )
    export = diagnose_export(source, options)
    if choices.as_json:
        print_json(export)
        return int(not export.is_sound)
    console = open_console()
    for text in export.frozen:
        console.print(f"frozen      {text}", highlight=False, soft_wrap=True, markup=False)
    for trial in export.trials:
        title = "frozen" if trial.is_frozen else "dynamic"
        console.print(f"{title:<12}{trial}", highlight=False, soft_wrap=True, markup=False)
    if export.error:
        say(f"xopt: error: {export.error}", err=True)
    elif not export.trials:
        console.print("dynamic     the inputs have no dynamic dimension", highlight=False)
    return int(not export.is_sound)


def _print_installation(installation: Diagnosis, settings: str | None) -> None:
    console = open_console()
    for name, version in installation.versions.items():
        console.print(
            f"version     {name} {version or 'is not installed (optional)'}", highlight=False
        )
    for name, reason in installation.providers.items():
        console.print(f"provider    {name}: {reason or 'runs models'}", highlight=False)
    for name, count in installation.kernels.items():
        console.print(
            f"kernels     {name}: {f'{count} operators' if count else 'not known'}", highlight=False
        )
    for target in installation.targets:
        console.print(
            f"target      {target.name}: {_state(target)}", highlight=False, soft_wrap=True
        )
    for name, count in installation.packs.items():
        console.print(
            f"pack        {name}: {'cannot be loaded' if count < 0 else f'{count} patterns'}",
            highlight=False,
        )
    if installation.memory is not None:
        console.print(f"memory      {bytes_text(installation.memory)} free", highlight=False)
    names = (
        "not known"
        if installation.integer_instructions is None
        else ", ".join(installation.integer_instructions) or "none"
    )
    console.print(
        f"int8        a MatMul takes {installation.int8_time_ratio:.2f} of the float32 time "
        f"(instructions: {names})",
        highlight=False,
        soft_wrap=True,
    )
    console.print(f"settings    {settings or 'none'}", highlight=False)
    for name, reason in installation.skipped.items():
        console.print(f"skipped     {name}: {reason}", highlight=False)
    for fault in installation.faults:
        say(f"xopt: error: {fault}", err=True)


def _state(target: TargetState) -> str:
    """The version and device of a target, the origin of its table, or why it cannot be used."""
    if target.table:
        return f"{target.device} of {target.table}"
    if not target.fault:
        return f"version {target.version}, {target.device}" if target.version else target.device
    return f"version {target.version}, but {target.fault}" if target.version else target.fault
