"""Options and words of the commands about one pattern in one model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import click

from xoptim import PatternOptimization, read_rules, resolve

from .files import MODEL
from .options import json_option, option, target_provider_option
from .selection import RULES, SELECTION, WORD

AT: Final = "Name of a node or of a result, or #17 for a position."
"""The help of ``--at``."""


@dataclass(frozen=True)
class PlaceChoices:
    """The options that these commands share."""

    rewrite: tuple[str, ...] = option("PATTERN is a rule of FILE (repeatable).", type=RULES, multiple=True, metavar="FILE")
    after: str | None = option('Run these patterns first, such as "default" ("": only clean up).', type=SELECTION)
    provider: str = target_provider_option()
    as_json: bool = json_option()


def model_and_pattern(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the arguments MODEL and PATTERN."""
    return click.argument("model", type=MODEL)(click.argument("pattern", type=WORD)(command))


def rule_of(pattern: str, files: Sequence[str]) -> str | type[PatternOptimization]:
    """The rule of that name in the files, else the name."""
    rules = {rule.name(): rule for rule in read_rules(*files)} if files else {}
    return rules.get(pattern, pattern)


def beginning_of(pattern: str | type[PatternOptimization]) -> tuple[str, str]:
    """The name of a pattern, and the operators with which its matches begin."""
    found = resolve(pattern) if isinstance(pattern, str) else [pattern]
    cls = next(each for each in found if issubclass(each, PatternOptimization))
    keys = sorted(cls().anchor_keys())
    return cls.name(), " or ".join(f"{domain}::{op_type}" if domain else op_type for domain, op_type in keys) or "any node"


def counted_nodes(nodes: int) -> str:
    """``no node``, ``1 node``, ``2 nodes``."""
    return f"{nodes or 'no'} node{'s' if nodes > 1 else ''}"
