"""Options that have no effect beside the others of a command line: they are refused, since their user expects one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import click
from click.core import ParameterSource

VALUES: Final = ("dims", "feeds", "test_data", "seed", "custom_op_lib")
"""Parameters of the values that models are run on."""
COMPARISON: Final = ("run_limit", "validation_budget", "tf32", "ulp", "rtol", "atol", "exact")
"""Parameters of how results are compared; not all commands have ``exact``."""


def idle_values(choices: Mapping[str, Any]) -> dict[str, str]:
    """The parameters of values and of comparisons that have no effect beside others of them, each with the reason."""
    found = {} if choices["test_data"] is None else dict.fromkeys(("feeds", "dims"), "with --test-data")
    providers = [choices["provider"]] if isinstance(choices["provider"], str) else choices["provider"]
    if choices.get("tf32") and not any(name.lower().startswith("cuda") for name in providers):
        found["tf32"] = "without --provider cuda"
    return found


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
    """Those of some parameters that the command line gives, not the settings."""
    context = click.get_current_context()
    return [name for name in names if context.get_parameter_source(name) is ParameterSource.COMMANDLINE]


def _option(name: str) -> str:
    """The option of a parameter, as a command line has it."""
    context = click.get_current_context()
    option = next(each for each in context.command.params if each.name == name)
    texts = option.secondary_opts if context.params[name] is False else option.opts
    return next(text for text in texts if text.startswith("--"))
