"""Options that select the patterns of a command, and the words that a shell offers for them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar

import click
from click.shell_completion import CompletionItem

from xoptim import Query, Rewrite, UnknownPatternError, database, select

Command = TypeVar("Command", bound=Callable[..., Any])


class PatternWord(click.types.StringParamType):
    """The name of a pattern, or another word that selects patterns."""

    name = "WORD"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The text; whether it is known is decided when it is looked up, with the rules that the command reads."""
        return str(value)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """The words that begin so."""
        return [CompletionItem(word) for word in _words() if word.startswith(incomplete)]


class Selection(PatternWord):
    """Words that are joined by ``+``, ``,`` and ``-``."""

    name = "SELECTION"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The text, unless it removes patterns from nothing."""
        text = str(value).strip()
        if text.startswith("-"):
            self.fail(f"{text!r} removes patterns from nothing; `default{text}` removes them from the default", param, ctx)
        try:
            select(text)
        except UnknownPatternError as error:
            self.fail(str(error), param, ctx)
        return text

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """The words with which the last one may go on."""
        before, last = re.fullmatch(r"(.*[+,-])?(.*)", incomplete, re.DOTALL).groups("")  # type: ignore[union-attr]
        return [CompletionItem(before + item.value) for item in super().shell_complete(ctx, param, last)]


WORD: Final = PatternWord()
SELECTION: Final = Selection()
drop_option: Final = click.option("--drop", type=WORD, multiple=True, metavar="NAME", help="Leave a pattern out (repeatable).")


def selection_options(default: str) -> Callable[[Command], Command]:
    """Add the options that choose patterns.

    Args:
        default: the selection without ``--patterns``.
    """

    def add(command: Command) -> Command:
        for name, effect in (("--exclude", "Remove"), ("--require", "Keep only"), ("--include", "Add")):
            text = f"{effect} the patterns with this word (repeatable)."
            command = click.option(name, type=WORD, multiple=True, metavar="TAG", help=text)(command)
        text = 'Selection such as "default+onnxruntime-Gelu".'
        return click.option("--patterns", type=SELECTION, default=default, show_default=True, help=text)(command)

    return add


def chosen_patterns(choices: dict[str, Any]) -> list[Rewrite]:
    """The patterns that a command line chooses, in running order: ``--patterns`` and ``--include``, then the rest.

    Raises:
        UnknownPatternError: when a word is unknown.
    """
    query = Query.of(choices["patterns"]).including(*choices["include"])
    return select(query.requiring(*choices["require"]).excluding(*choices["exclude"]))


def _words() -> Iterable[str]:
    """The words that select patterns, names first."""
    names, words = database().names(), database().words()
    return (*sorted(names), *(word for word in words if word not in names))
