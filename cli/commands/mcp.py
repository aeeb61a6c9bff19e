"""``xopt mcp``: a server for agents."""

from dataclasses import dataclass
from pathlib import Path

import click

from xoptim.integrations.mcp import SKILL, serve

from ..exit_codes import MEANINGS
from ..options import command, flag

_FOLDER = click.Path(path_type=Path)


@dataclass(frozen=True)
class _McpChoices:
    skill: bool = flag("Print the instructions for agents, and exit.")


@command("mcp", folder={"type": _FOLDER, "required": False, "default": "."})
def mcp_command(folder: Path, choices: _McpChoices) -> None:
    """Serve agents over the Model Context Protocol (MCP).

    The tools optimize, explain, place, verify, stats and diff read and write models in FOLDER (by
    default the current folder), and nowhere else. `pip install 'xoptim[mcp]'` installs the SDK.

    \b
    {"mcpServers": {"xoptim": {"command": "xopt", "args": ["mcp", "/models"]}}}
    """
    if choices.skill:
        click.echo(SKILL.read_text(encoding="utf-8"))
        return
    serve(folder, MEANINGS)
