"""Options that have no effect beside the others of a command line: they are refused, since the user expects one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import click
from click.core import ParameterSource


def refuse_idle(*found: Mapping[str, str]) -> None:
    """Raise for an option of the command line that has no effect.

    Settings are for many command lines, some of which have no use for them, and are not refused.

    Args:
        *found: names of parameters, each with the end of the sentence ``--atol has no effect ...``.

    Raises:
        click.UsageError: one of these parameters is on the command line.
    """
    for name in on_command_line(name for each in found for name in each):
        reason = next(each[name] for each in found if name in each)
        raise click.UsageError(f"{_option(name)} has no effect {reason}; leave it out")


def on_command_line(names: Iterable[str]) -> list[str]:
    """The parameters among these that the command line gives; the settings do not count."""
    context = click.get_current_context()
    return [name for name in names if context.get_parameter_source(name) is ParameterSource.COMMANDLINE]


def _option(name: str) -> str:
    """The option of a parameter as the command line writes it."""
    context = click.get_current_context()
    option = next(each for each in context.command.params if each.name == name)
    texts = option.secondary_opts if context.params[name] is False else option.opts
    return next(text for text in texts if text.startswith("--"))
