"""Options and words of the commands about one pattern in one model."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from xoptim import PatternOptimization, read_rules, resolve

from .options import json_option, known_provider, option, provider_option, repeated
from .selection import RULES, SELECTION

AT: Final = "Name of a node or of a result, or #17 for a position."
"""The help of ``--at``."""


@dataclass(frozen=True)
class PlaceChoices:
    """The options that these commands share."""

    rewrite: tuple[str, ...] = repeated("PATTERN is a rule of FILE (repeatable).", type=RULES, metavar="FILE")
    after: str | None = option('Run these patterns first, such as "default" ("": only clean up).', type=SELECTION)
    provider: str = provider_option("Provider to optimize for.", type=known_provider, metavar="TEXT")
    as_json: bool = json_option()


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
