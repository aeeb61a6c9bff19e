"""Options that select the patterns of a command."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from xoptim import Query, Rewrite, select

Command = TypeVar("Command", bound=Callable[..., Any])


def selection_options(default: str) -> Callable[[Command], Command]:
    """Add the options that choose patterns.

    Args:
        default: the selection without ``--patterns``.
    """

    def add(command: Command) -> Command:
        for option in (
            click.option("--exclude", multiple=True, metavar="TAG", help="Remove the patterns with this word (repeatable)."),
            click.option("--require", multiple=True, metavar="TAG", help="Keep only the patterns with this word (repeatable)."),
            click.option("--include", multiple=True, metavar="TAG", help="Add the patterns with this word (repeatable)."),
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
        UnknownPatternError: when a word is unknown.
    """
    query = Query.of(choices["patterns"]).including(*choices["include"])
    return select(query.requiring(*choices["require"]).excluding(*choices["exclude"]))
