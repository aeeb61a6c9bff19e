"""The state of a target: whether its provider is installed here, and finds a device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from xoptim.facts.errors import XoptimError
from xoptim.facts.json_results import JsonResult
from xoptim.targets.process import Question, ask
from xoptim.targets.tables import table_of
from xoptim.targets.target import Target

_PATIENCE: Final = 60.0  # seconds to load a library and list devices


@dataclass(frozen=True, slots=True)
class TargetState(JsonResult):
    """The state of a target on this machine.

    Attributes:
        name: name of the target.
        title: full name of the target.
        installed: whether its execution provider is installed, or a table answers.
        version: version of the execution provider.
        device: kinds of devices that the provider finds; ``by table`` where nothing can be asked.
        fault: the reason why the target cannot be used, and a remedy; empty when it can be used.
        install: the command that installs the execution provider.
        table: source of the table of supported operators, with version and date; empty if the
            provider is asked.
    """

    name: str
    title: str
    installed: bool
    version: str
    device: str
    fault: str
    install: str
    table: str = ""


def state_of(target: Target, *, software_device: bool = False) -> TargetState:
    """The state of a target; its library is loaded in a process of its own."""
    device = fault = ""
    table = table_of(target.name) if target.table else None
    if target.table:
        device = "by table"
    elif not target.is_installed:
        fault = f"not installed: {target.install}"
    elif target.plugin is not None:
        device, fault = _device(target, software_device)
    return TargetState(
        target.name,
        target.title,
        target.is_installed,
        target.version,
        device,
        fault,
        target.install,
        "" if table is None else str(table),
    )


def _device(target: Target, software_device: bool) -> tuple[str, str]:
    try:
        answer, _ = ask(Question("devices", target.provider, software_device), _PATIENCE)
    except XoptimError as error:
        return "", str(error)
    if answer.error:
        return "", answer.error
    if not answer.devices:
        assert target.plugin is not None
        return "", f"it finds no device here; {target.plugin.advice}"
    return ", ".join(dict.fromkeys(answer.devices)), ""
