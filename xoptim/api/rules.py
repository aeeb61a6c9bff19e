"""Rules in text form: read from files, registered with the built-in patterns, or run by a
`SubgraphRewriter` in place of these patterns.
"""

from collections.abc import Container, Iterable
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import onnx

from xoptim.api.optimizing import optimize
from xoptim.catalogue.registry import register, registry
from xoptim.dialects.filters import register_filter
from xoptim.dialects.text import Check, Pairs, TextPattern, parse_rules, rule_class
from xoptim.dialects.text_function import FunctionSource, TextPlace, parse_functions, without_text
from xoptim.engine.options import OptimizationOptions
from xoptim.facts.errors import TextRuleError
from xoptim.match.lines import calling_frame
from xoptim.system.reading import read_file

__all__ = [
    "SubgraphRewriter",
    "parse_rules",
    "read_rules",
    "register_filter",
    "register_rewrite",
    "rewrite_rule",
]

AnyModel = TypeVar("AnyModel")
Function: TypeAlias = "str | onnx.FunctionProto"


def read_rules(*paths: str | Path) -> list[type[TextPattern]]:
    """The rules in files, in order; see `xoptim.dialects.text.parse_rules`.

    Raises `TextRuleError` when a file cannot be read, or contains a mistake; the message names
    file, line and column.

    Args:
        *paths: files of pairs of ONNX functions, by convention ``*.onnxtxt``.
    """
    rules: dict[str, type[TextPattern]] = {}
    for path in paths:
        try:
            text = read_file(Path(path)).decode("utf-8-sig")
        except OSError as error:
            raise TextRuleError(
                f"{path}: cannot read the rules: {error.strerror or error}"
            ) from error
        except UnicodeDecodeError as error:
            raise TextRuleError(
                f"{path}: cannot read the rules: the file is not UTF-8 text"
            ) from error
        for rule in parse_rules(text, str(path), len(rules)):
            if rule.name() in rules:
                place = rules[rule.name()].rule.match.place
                raise rule.rule.match.place.error(
                    f"rule {rule.name()!r} is already defined in {place.file}:{place.line}"
                )
            rules[rule.name()] = rule
    return list(rules.values())


def rewrite_rule(
    match: Function,
    replace: Function,
    *,
    name: str = "",
    filters: Iterable[Check] = (),
    value_name_pairs: Pairs = (),
    **settings: Any,
) -> type[TextPattern]:
    """Make a pattern class from two functions: the subgraph to find, and its replacement.

    Raises `TextRuleError` when a function, a pair or a setting is invalid.

    Args:
        match: the subgraph to find: a ``FunctionProto``, or text as ``f (x) => (y) { y = Relu (x)
            }``. A header ``<domain: ..., opset_import: [...]>`` may be omitted, and the name of
            the function does not matter.
        replace: the replacement.
        name: of the pattern; by default the domain of ``match``, else made from the operators.
        filters: called with the view of the graph and the match; all must return true.
        value_name_pairs: pairs of a result of ``replace`` and one of ``match``: the producer of the
            first takes the name and the metadata of the producer of the second.
        **settings: settings of the rule, named as in ``rule.settings`` (those in ``match`` override
            them), and ``examples``.
    """
    rule = _rule(
        match,
        replace,
        (),
        name=name,
        filters=filters,
        value_name_pairs=value_name_pairs,
        **settings,
    )
    # The search of a pattern pack skips classes of other modules: see `patterns_of`.
    rule.__module__ = calling_frame().f_globals.get("__name__", rule.__module__)
    return rule


def register_rewrite(
    pattern_text: Function,
    replacement_text: Function,
    *,
    name: str = "",
    filters: Iterable[Check] = (),
    value_name_pairs: Pairs = (),
    **settings: Any,
) -> type[TextPattern]:
    """Make a rule and add it to the preset ``"default"``.

    ``pattern_text`` and ``replacement_text`` are the ``match`` and ``replace`` of `rewrite_rule`;
    the other arguments have the same names there. Returns the pattern;
    ``xoptim.database().unregister(pattern.name())`` removes it again.

    Raises:
        TextRuleError: as for `rewrite_rule`.
        ValueError: when the name is taken.
    """
    arguments = {"name": name, "filters": filters, "value_name_pairs": value_name_pairs, **settings}
    rule = _rule(pattern_text, replacement_text, registry().names(), **arguments)
    register(rule, "default")
    return rule


class SubgraphRewriter:
    """Rewrites models by its own rules only, like TorchScript's class of this name.

    A rule begins once those registered before it have nothing left to do; if it makes nodes that
    they rewrite, they run again.
    """

    def __init__(self) -> None:
        self._patterns: list[type[TextPattern]] = []

    @property
    def patterns(self) -> list[type[TextPattern]]:
        """The rules in the order of registration."""
        return list(self._patterns)

    def register_rewrite(
        self,
        pattern: Function,
        replacement: Function,
        *,
        name: str = "",
        filters: Iterable[Check] = (),
        value_name_pairs: Pairs = (),
        **settings: Any,
    ) -> type[TextPattern]:
        """Add a rule, after all other rules; its phase and priority are ignored.

        ``pattern`` and ``replacement`` are the ``match`` and ``replace`` of `rewrite_rule`; the
        other arguments have the same names there.

        Raises:
            TextRuleError: as for `rewrite_rule`.
            ValueError: when the name is taken.
        """
        names = {rule.name() for rule in self._patterns}
        rule = _rule(
            pattern,
            replacement,
            names,
            name=name,
            filters=filters,
            value_name_pairs=value_name_pairs,
            **settings,
        )
        if rule.name() in names:
            raise ValueError(f"the name {rule.name()!r} is taken; choose another")
        order = {"phase": "canonicalize", "priority": len(self._patterns), "__doc__": rule.__doc__}
        self._patterns.append(type(rule.__name__, (rule,), order))
        return self._patterns[-1]

    def run(
        self, model: AnyModel, options: OptimizationOptions | None = None, **changes: Any
    ) -> AnyModel:
        """Rewrite a model, which is left unchanged.

        Without ``options``, folding and merging are off unless ``changes`` set them.

        Returns a model of the same kind.

        Args:
            model: as for `xoptim.optimize`.
            options: other options; the selection of patterns in them is ignored.
            **changes: as for `xoptim.optimize`, such as ``constant_folding=True``.
        """
        defaults = {"constant_folding": False, "merge": False} if options is None else {}
        settings = {**defaults, **changes, "patterns": self._patterns or None}
        return optimize(model, options, **settings)


def _rule(
    pattern: Function, replacement: Function, names: Container[str], *, name: str, **arguments: Any
) -> type[TextPattern]:
    """A rule; a generated name differs from ``names``."""
    match, replace = _source(pattern, "pattern"), _source(replacement, "replacement")
    hooks = {key: arguments.pop(key) for key in ("filters", "value_name_pairs")}
    requested_name = name or match.proto.domain
    rule = rule_class(match, replace, requested_name, **hooks, settings=arguments)
    number, base = 1, rule.name()
    while not requested_name and rule.name() in names:
        number += 1
        rule = rule_class(match, replace, f"{base}{number}", **hooks, settings=arguments)
    return rule


def _source(function: Function, label: str) -> FunctionSource:
    if isinstance(function, onnx.FunctionProto):
        return without_text(function, label)
    functions = parse_functions(function, label)
    if len(functions) != 1:
        where = functions[1].place if functions else TextPlace(label, 1, 1)
        raise where.error(f"expected one function, found {len(functions)}")
    return functions[0]
