"""Whether a target can be used here: its provider is installed, and has a device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from xoptim.facts.errors import XoptimError
from xoptim.targets.process import Question, ask
from xoptim.targets.target import Target

if TYPE_CHECKING:
    from xoptim.targets.json_types import TargetStateJson

_PATIENCE: Final = 60.0  # seconds to load a library and list devices


@dataclass(frozen=True, slots=True)
class TargetState:
    """The state of a target.

    Attributes:
        name: of the target.
        title: its full name.
        installed: whether its provider is installed, or a table answers.
        version: of the provider.
        device: kinds of devices that the provider finds; ``by table`` where nothing can be asked.
        fault: why the target cannot be used, with what to do; empty when it can.
        install: the command that installs the provider.
    """

    name: str
    title: str
    installed: bool
    version: str
    device: str
    fault: str
    install: str

    def to_json(self) -> TargetStateJson:
        """All fields as JSON values."""
        return {
            "name": self.name,
            "title": self.title,
            "installed": self.installed,
            "version": self.version,
            "device": self.device,
            "fault": self.fault,
            "install": self.install,
        }


def state_of(target: Target, *, software_device: bool = False) -> TargetState:
    """The state of a target; its library is loaded in a process of its own."""
    device = fault = ""
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
