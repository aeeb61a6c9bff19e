"""The commands, one per file: ``new_pattern.py`` defines ``new_pattern_command``, which is ``xopt
new-pattern``.
"""

from collections.abc import Iterator, MutableMapping
from importlib import import_module
from typing import Final

import click

GROUPS: Final = {
    "Commands": ("optimize", "explain", "verify", "bench", "tune", "batch", "check", "place"),
    "Models": ("stats", "diff", "extract"),
    "Patterns and setup": ("list", "apply", "new-pattern", "bisect", "replay", "doctor", "mcp"),
}
"""The names of all commands as the help lists them, the frequent ones first."""


class Commands(MutableMapping[str, click.Command]):
    """Commands by name, each imported at its first use."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self._commands: dict[str, click.Command | None] = dict.fromkeys(names)

    def __getitem__(self, name: str) -> click.Command:
        command = self._commands[name]
        if command is None:
            module = name.replace("-", "_")
            command = getattr(import_module(f"{__name__}.{module}"), f"{module}_command")
            assert isinstance(command, click.Command)
            self._commands[name] = command
        return command

    def __setitem__(self, name: str, command: click.Command) -> None:
        self._commands[name] = command

    def __delitem__(self, name: str) -> None:
        del self._commands[name]

    def __contains__(self, name: object) -> bool:
        return name in self._commands

    def __iter__(self) -> Iterator[str]:
        return iter(self._commands)

    def __len__(self) -> int:
        return len(self._commands)


COMMANDS: Final = Commands(tuple(sorted(name for names in GROUPS.values() for name in names)))
"""All commands."""
