"""``xopt completion``: the script with which a shell completes command lines of xopt."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

VARIABLE = "_XOPT_COMPLETE"
"""Environment variable by which the script asks for completions."""


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion_command(context: click.Context, /, shell: str) -> None:
    """Print the script that completes commands, options and files in SHELL.

    \b
    bash: eval "$(xopt completion bash)" in ~/.bashrc
    zsh:  eval "$(xopt completion zsh)" in ~/.zshrc
    fish: xopt completion fish > ~/.config/fish/completions/xopt.fish
    """
    found = get_completion_class(shell)
    assert found is not None
    click.echo(found(context.find_root().command, {}, "xopt", VARIABLE).source())
