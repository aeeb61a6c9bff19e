"""Registries: the rules that are applied where a chain matches."""

from collections.abc import Callable, Iterator
from typing import Literal, TypeAlias, TypeVar, overload

from xoptim.dialects.chain import Area, ChainPattern, Rule

Kind: TypeAlias = Literal["parameter", "shatter", "fuse"]
AnyRule = TypeVar("AnyRule", bound=Rule)
_KINDS: dict[str, tuple[int, Area]] = {"parameter": (0, "constant"), "shatter": (100, "variable"), "fuse": (200, "variable")}
"""Priority of the first pattern of a kind, and where such patterns look."""


class ChainRegistry:
    """Patterns and their rules: ``rule(g, match)`` makes nodes with ``g.op`` and returns the names of the results.

    Rules for parameters apply where all operands are constant, the others everywhere else. First the rules of the kind
    ``parameter`` run, then ``shatter`` (one node into several), then ``fuse`` (several nodes into one), and from the beginning
    again as long as anything changes. The `priority` of a pattern, below 100, is that among the rules of its kind.

    Args:
        kind: ``parameter``, ``shatter`` or ``fuse``.

    Raises:
        ValueError: when it is none of these.
    """

    def __init__(self, kind: Kind) -> None:
        if kind not in _KINDS:
            raise ValueError(f"unknown kind of rules {kind!r}; there are: {', '.join(_KINDS)}")
        self.kind = kind
        self._rules: dict[type[ChainPattern], Rule] = {}
        self._made: dict[type[ChainPattern], type[ChainPattern]] = {}

    @overload
    def register(self, pattern: type[ChainPattern]) -> Callable[[AnyRule], AnyRule]: ...

    @overload
    def register(self, pattern: type[ChainPattern], rule: AnyRule) -> AnyRule: ...

    def register(self, pattern: type[ChainPattern], rule: AnyRule | None = None) -> AnyRule | Callable[[AnyRule], AnyRule]:
        """Register the rule for the matches of a pattern; ``@registry.register(pattern)`` decorates the rule.

        Args:
            pattern: the pattern; its metadata (exactness, tags, ...) are those of the rewrite.
            rule: any callable that takes a `xoptim.PatternRewriter` and a `xoptim.Match`.

        Returns:
            The rule, unchanged.

        Raises:
            ValueError: when the pattern has a rule already.
            TypeError: when it is not a chain, or the rule cannot be called.
        """
        if rule is None:
            return lambda decorated: self.register(pattern, decorated)
        if not (isinstance(pattern, type) and issubclass(pattern, ChainPattern)):
            raise TypeError(f"the class of a chain is expected, not {pattern!r}")
        if not callable(rule):
            raise TypeError(f"a rule is called with the graph and the match; {rule!r} cannot be called")
        if pattern in self._rules:
            raise ValueError(f"{pattern.name()} has a rule of the kind {self.kind!r} already")
        self._rules[pattern] = rule
        self._made[pattern] = self._pattern_class(pattern, rule)
        return rule

    def rule_of(self, pattern: type[ChainPattern]) -> Rule:
        """The rule of a pattern; raises `LookupError` when it has none."""
        if pattern not in self._rules:
            raise LookupError(f"{pattern.name()} has no rule of the kind {self.kind!r}")
        return self._rules[pattern]

    def patterns(self) -> list[type[ChainPattern]]:
        """The patterns with their rules, ready for ``optimize(model, patterns=...)``.

        Each is named after the kind and the pattern, ``FuseMatMulRelu``, so that a pattern may be in several registries.
        """
        return list(self._made.values())

    def __iter__(self) -> Iterator[type[ChainPattern]]:
        return iter(self._rules)

    def __len__(self) -> int:
        return len(self._rules)

    def __contains__(self, pattern: object) -> bool:
        return pattern in self._rules

    def _pattern_class(self, pattern: type[ChainPattern], rule: Rule) -> type[ChainPattern]:
        first, region = _KINDS[self.kind]
        members = {
            "rule": staticmethod(rule),
            "priority": first + pattern.priority,
            "region": region,
            "__module__": pattern.__module__,
            "__doc__": getattr(rule, "__doc__", None) or pattern.__doc__,
        }
        return type(f"{self.kind.title()}{pattern.name()}Pattern", (pattern,), members)
