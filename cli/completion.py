"""``xopt --completion SHELL``: the script with which a shell completes command lines of xopt."""

from collections.abc import Callable
from typing import Any, Final

import click
from click.shell_completion import BashComplete, FishComplete, ShellComplete, ZshComplete

VARIABLE = "_XOPT_COMPLETE"
"""Environment variable by which the script asks for completions."""


class _Bash(BashComplete):
    """A script that completes commands and files, since the first word may be a model.

    click's script drops the commands as soon as files are possible.
    """

    source_template = """\
%(complete_func)s() {
    local IFS=$'\\n' line
    for line in $(env COMP_WORDS="${COMP_WORDS[*]}" COMP_CWORD=$COMP_CWORD \\
            %(complete_var)s=bash_complete "$1"); do
        case $line in
            plain,*) COMPREPLY+=("${line#*,}") ;;
            dir,*) compopt -o dirnames ;;
            file,*) compopt -o default ;;
        esac
        if [[ $line == file,* && ${#COMPREPLY[@]} -gt 0 ]]; then
            compopt -o filenames
            COMPREPLY+=($(compgen -f -- "${COMP_WORDS[COMP_CWORD]}"))
        fi
    done
}
complete -o nosort -F %(complete_func)s %(prog_name)s
"""


class _Fish(FishComplete):
    """A script that shows complete descriptions: click's script ends them at a comma."""

    source_template = FishComplete.source_template.replace(
        'string split ","', 'string split --max 1 ","'
    )


_SHELLS: Final[dict[str, type[ShellComplete]]] = {"bash": _Bash, "zsh": ZshComplete, "fish": _Fish}


def completion_option() -> Callable[[Any], Any]:
    """The option ``--completion`` of the whole command, which prints a script and ends."""
    return click.option(
        "--completion",
        type=click.Choice(list(_SHELLS)),
        is_eager=True,
        expose_value=False,
        callback=_print_script,
        help="Print the completion script of a shell.",
    )


def _print_script(context: click.Context, _parameter: click.Parameter, shell: str | None) -> None:
    if shell is not None and not context.resilient_parsing:
        click.echo(_SHELLS[shell](context.find_root().command, {}, "xopt", VARIABLE).source())
        context.exit()
