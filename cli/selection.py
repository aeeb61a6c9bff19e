"""Options that say which patterns a command is about."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from xoptim import Query, Rewrite, select

Command = TypeVar("Command", bound=Callable[..., Any])


def selection_options(default: str) -> Callable[[Command], Command]:
    """Add the options that choose patterns.

    Args:
        default: selection that is meant when there is no ``--patterns``.
    """

    def add(command: Command) -> Command:
        for option in (
            click.option("--exclude", multiple=True, metavar="TAG", help="Take away what has this word (repeatable)."),
            click.option("--require", multiple=True, metavar="TAG", help="Keep only what has this word (repeatable)."),
            click.option("--include", multiple=True, metavar="TAG", help="Add what has this word (repeatable)."),
            click.option(
                "--patterns", default=default, show_default=True, help='Selection such as "default+onnxruntime-Gelu".'
            ),
        ):
            command = option(command)
        return command

    return add


def chosen_patterns(choices: dict[str, Any]) -> list[Rewrite]:
    """The patterns that a command line chooses, in running order: ``--patterns`` and ``--include``, then the rest.

    Raises:
        UnknownPatternError: when nothing knows a word.
    """
    query = Query.of(choices["patterns"]).including(*choices["include"])
    return select(query.requiring(*choices["require"]).excluding(*choices["exclude"]))
