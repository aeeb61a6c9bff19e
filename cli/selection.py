"""Options that select patterns and nodes, and the words that a shell offers to complete them."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

import xoptim
from xoptim import (
    ModelPass,
    PatternOptimization,
    Query,
    Rewrite,
    UnknownPatternError,
    resolve,
    select,
    use_operators,
)
from xoptim.api.preparing import chosen, operator_packs, registry

from .options import json_option, known_provider, option, provider_option, repeated
from .preparation import assume_from_model_option


class PatternWord(click.types.StringParamType):
    """The name of a pattern, or another word that selects patterns.

    The command that reads the word reports unknown words.
    """

    name = "WORD"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Completions of a prefix, names of patterns first."""
        names = sorted(registry().names())
        words = (*names, *(word for word in registry().words() if word not in names))
        return [CompletionItem(word) for word in words if word.startswith(incomplete)]


class SelectionText(PatternWord):
    """Words that are joined by ``+``, ``,`` and ``-``."""

    name = "SELECTION"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The text. Fails when the text begins with ``-``, or a word is unknown."""
        text = str(value).strip()
        if text.startswith("-"):
            self.fail(
                f"{text!r} has no patterns to remove from; did you mean `default{text}`?",
                param,
                ctx,
            )
        try:
            chosen(text)
        except UnknownPatternError as error:
            self.fail(str(error), param, ctx)
        return text

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Completions of the last word."""
        parts = re.fullmatch(r"(.*[+,-])?(.*)", incomplete, re.DOTALL)
        assert parts is not None  # it fits any text
        before, last = parts.groups("")
        return [
            CompletionItem(before + item.value) for item in super().shell_complete(ctx, param, last)
        ]


WORD: Final = PatternWord()
SELECTION: Final = SelectionText()
RULES: Final = click.Path()
"""A file of rules; the function that reads it reports mistakes."""


def _patterns(default: str) -> Any:
    return option(
        'Selection of patterns, such as "default+onnxruntime-Gelu".',
        type=SELECTION,
        default=default,
    )


def _words(effect: str, **settings: Any) -> Any:
    return repeated(f"{effect} (repeatable).", type=WORD, metavar="TAG", **settings)


def with_operators(
    _context: click.Context, _option: click.Parameter, words: tuple[str, ...]
) -> tuple[str, ...]:
    """Use the operators of the packs among ``words``, and return the words that select patterns."""
    packs = operator_packs().keys() & {*words} if words else ()
    use_operators(*sorted(packs))
    return tuple(word for word in words if word not in packs or word in registry().words())


def operators_option() -> Any:
    """The option ``--include`` of a command that does not select patterns."""
    text = "Use the custom operators of an installed pack (repeatable)."
    return repeated(text, "--include", metavar="PACK", callback=_use)


def _use(
    context: click.Context, option: click.Parameter, words: tuple[str, ...]
) -> tuple[str, ...]:
    """Use the operators of packs.

    Other words are refused on a command line only: a settings file may have them for other
    commands.
    """
    is_typed = context.get_parameter_source(option.name or "") is ParameterSource.COMMANDLINE
    packs = words if is_typed or not words else sorted(operator_packs().keys() & {*words})
    use_operators(*packs)
    return words


@dataclass(frozen=True)
class Selection:
    """The options that choose patterns, ``default`` by default."""

    patterns: str = _patterns("default")
    include: tuple[str, ...] = _words(
        "Add patterns by name or tag, or use a pack", callback=with_operators
    )
    require: tuple[str, ...] = _words("Keep only patterns by name or tag")
    exclude: tuple[str, ...] = _words("Remove patterns by name or tag")

    @property
    def selects_more(self) -> bool:
        """Whether ``--include`` has a word that is not the name of a pack with operators."""
        return bool({*self.include} - operator_packs().keys())

    def selected(self) -> list[Rewrite]:
        """The patterns in running order, after all four options.

        Raises `UnknownPatternError` when a word is unknown.
        """
        return select(self.query())

    def query(self) -> Query:
        """The selection as a query."""
        return (
            Query.of(self.patterns)
            .including(*self.include)
            .requiring(*self.require)
            .excluding(*self.exclude)
        )


@dataclass(frozen=True)
class SelectionOfAll(Selection):
    """The options that choose patterns, all of them by default."""

    patterns: str = _patterns("all+lower")


@dataclass(frozen=True)
class SelectionWithRules(Selection):
    """The options that choose patterns and files of rules, and that drop patterns."""

    rewrite: tuple[str, ...] = repeated(
        "Also apply the rules of this file: ONNX text or Python (repeatable).",
        type=RULES,
        metavar="FILE",
    )
    drop: tuple[str, ...] = repeated(
        "Disable one pattern, or a step such as constant_folding (repeatable).",
        type=WORD,
        metavar="NAME",
    )

    def with_rules(self) -> Sequence[Query | type[Rewrite]]:
        """The selected patterns, and then the rules.

        Raises `TextRuleError` when a file contains a mistake, and `click.UsageError` when a rule
        has the name of a pattern.
        """
        rules = xoptim.read_rules(*self.rewrite) if self.rewrite else []
        for rule in rules:
            if registry().named(rule.name()):
                place = rule.rule.match.place
                raise click.UsageError(
                    f"{place.file}:{place.line}: {rule.name()!r} is the name of an installed "
                    "pattern; rename the rule"
                )
        return [self.query(), *rules]


AT: Final = "Name of a node or of a result, or #17 for a position."
"""The help of ``--at``."""


@dataclass(frozen=True)
class TrialChoices:
    """The options for trying one pattern at the nodes of a model."""

    rewrite: tuple[str, ...] = repeated(
        "File of rules that has PATTERN (repeatable).", type=RULES, metavar="FILE"
    )
    after: str | None = option('Run this selection first, such as "default".', type=SELECTION)
    provider: str = provider_option(
        "Execution provider to optimize for.", type=known_provider, metavar="TEXT"
    )
    include: tuple[str, ...] = operators_option()
    assume_from_model: bool = assume_from_model_option()
    as_json: bool = json_option()


def rule_of(pattern: str, files: Sequence[str]) -> str | type[PatternOptimization]:
    """The rule named ``pattern`` in the files; without such a rule, ``pattern`` itself."""
    rules = {rule.name(): rule for rule in xoptim.read_rules(*files)} if files else {}
    return rules.get(pattern, pattern)


def beginning_of(pattern: str | type[PatternOptimization]) -> tuple[str, str]:
    """The name of a pattern, and the operators with which its matches begin."""
    rewrites = resolve(pattern) if isinstance(pattern, str) else [pattern]
    cls = next(kind for kind in rewrites if issubclass(kind, PatternOptimization))
    keys = sorted(cls().anchor_keys())
    return (
        cls.name(),
        " or ".join(f"{domain}::{op_type}" if domain else op_type for domain, op_type in keys)
        or "any node",
    )


def counted_nodes(nodes: int) -> str:
    """``no node``, ``1 node``, ``2 nodes``."""
    return f"{nodes or 'no'} node{'s' if nodes > 1 else ''}"


def idle_includes(words: Sequence[str], applied: Mapping[str, int]) -> list[str]:
    """The names of patterns among the words of ``--include`` that were not applied at any node."""
    names = registry().names()
    short = (word.removesuffix("Pattern") for word in words)
    return [name for name in short if name in names and not applied.get(name)]


def is_pass(name: str) -> bool:
    """Whether a name is that of a pass, which cannot be explained at single nodes."""
    return any(issubclass(kind, ModelPass) for kind in resolve(name))
