"""The option ``--rewrite``: rules in text form, run with the chosen patterns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import click

from xoptim import Rewrite, database, read_rules

RULES: Final = click.Path()
"""A file of rules; what cannot be read is reported where it is read."""
rewrite_option: Final = click.option(
    "--rewrite", type=RULES, multiple=True, metavar="FILE", help="Run the rules of this file too (repeatable, in order)."
)


def with_rules(chosen: Sequence[Rewrite], files: Sequence[str]) -> list[Rewrite | type[Rewrite]]:
    """The chosen patterns, and the rules of some files.

    Raises:
        TextRuleError: when a file contains a mistake.
        click.UsageError: when a rule has the name of a pattern.
    """
    rules = read_rules(*files)
    for rule in rules:
        if database().named(rule.name()):
            place = rule.rule.match.place
            raise click.UsageError(f"{place.file}:{place.line}: {rule.name()!r} is the name of a pattern; choose another")
    return [*chosen, *rules]
