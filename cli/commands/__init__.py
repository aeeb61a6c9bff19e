"""The commands, one per file: ``new_pattern.py`` defines ``new_pattern_command`` for ``xopt
new-pattern``.
"""

from collections.abc import Iterator, MutableMapping
from importlib import import_module
from typing import Final

import click

GROUPS: Final = {
    "Commands": {
        "optimize": "Optimize MODEL, verify the result, and write it.",
        "explain": "Say why PATTERN does not apply in MODEL, the nearest miss first.",
        "verify": "Compare two models, or a model with its torch module.",
        "bench": "Measure the latency of MODELS side by side.",
        "tune": "Find the fastest options on this machine by measuring.",
        "batch": "Optimize many models: a folder, a glob, or a text file of paths.",
        "check": "Fail in CI if MODELS can be optimized or differ from a commit.",
        "place": "Show which nodes of MODEL run on a target, and why others do not.",
    },
    "Models": {
        "stats": "Print the size, operations, memory, inputs and outputs of MODEL.",
        "diff": "Compare the graphs of FIRST and SECOND.",
        "extract": "Write a subgraph of MODEL as a model.",
    },
    "Patterns and setup": {
        "list": "List the patterns, or describe the pattern NAME.",
        "apply": "Apply PATTERN at one node of MODEL, and verify the result.",
        "new-pattern": "Create the file of a new pattern, with an example.",
        "bisect": "Find the rewrite that makes MODEL differ.",
        "replay": "Recheck rewrites that DUMPPATTERNS=FOLDER (environment) dumped.",
        "doctor": "Report versions, providers, targets, settings, and problems.",
        "mcp": "Serve agents over the Model Context Protocol (MCP).",
    },
}
"""All commands as the help lists them, the frequent ones first.

The text of a command repeats the first sentence of its own help, so that the list of the commands
imports none of them.
"""


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
