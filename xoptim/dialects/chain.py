"""Patterns declared as chains of operators, written from the last one in the dataflow backwards."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, ClassVar, Literal, TypeAlias, TypeVar, overload

from onnx.defs import OpSchema

from xoptim.facts.schema import schema
from xoptim.facts.words import whole_number
from xoptim.match import (
    ANY,
    EasyPatternOptimization,
    GraphView,
    Match,
    MatchResult,
    Node,
    PatternBuilder,
    PatternRewriter,
    Symbol,
)
from xoptim.match.extending import Condition, disjoint, operator_key

INITIALIZER = "Initializer"
"""Last entry of a chain of parameters: a stored constant, as an initializer or in a Constant
node.
"""
Rule: TypeAlias = Callable[[PatternRewriter, Match], Any]
"""Makes the replacement of a match.

Returns the names of the results, one or several, like `apply_pattern`.
"""
Area: TypeAlias = Literal["any", "constant", "variable"]
View: TypeAlias = GraphView


class ChainPattern(EasyPatternOptimization):
    """A chain of operators: each reads the result of the next one in `entries`.

    Every entry but the last has one input: the next entry computes one operand, the others are
    parameters, that is, constants (in a constant sub-graph: stored constants). Only the chain may
    read the result of an entry other than the first; outputs of the graph and subgraphs count as
    readers. Of an operator with several results, the chain reads the first.

    A rule of a `xoptim.dialects.chain.ChainRegistry`, or `apply_pattern`, makes the replacement of
    a match. Both receive

    - ``entries``: the matched nodes, in the order of `entries`;
    - ``inputs``: the operands of the last entry, in their order;
    - ``parameters``: for each entry, the names of its constant operands but for the one that the
      chain computes;
    - ``sub_matches``: for each entry, the matches of its `sub_patterns` by parameter.

    Class attributes:
        rule: makes the replacement; ``None`` for `apply_pattern`.
        region: where to look: among results computed from constants only, among the others, or
            everywhere.
    """

    derives = ("entries", "inputs", "parameters", "sub_matches")
    rule: ClassVar[Rule | None] = None
    region: ClassVar[Area] = "any"

    @classmethod
    def entries(cls) -> Sequence[str]:
        """Operators (``"domain::Op"`` outside the standard domain) from the root, the last one in
        the dataflow, backwards.

        A chain of parameters may end with the entry ``"Initializer"``, a stored constant.
        """
        raise NotImplementedError(f"{cls.__name__} has no entries")

    @classmethod
    def config_patterns(cls) -> Sequence[Mapping[str, Any]]:
        """For each entry, attributes and their values, which may be predicates.

        Other attributes may have any value. The sequence may be shorter than the chain. An
        attribute that a node does not write has its schema's default.
        """
        return ()

    @classmethod
    def sub_patterns(cls) -> Sequence[Mapping[str, type[ChainPattern]]]:
        """For each entry, inputs and a chain that must be somewhere in the constant sub-graph that
        feeds each of them.

        Inputs are named as in the operator's schema, ``"W"`` or ``"B"`` of Conv, or by position,
        ``"input_0"``, ``"input_1"``.
        """
        return ()

    @classmethod
    def is_output(cls) -> bool:
        """Whether the root must compute an output: of the graph, or, in a constant sub-graph, the
        operand that it feeds.
        """
        return False

    def match_pattern(self, g: PatternBuilder) -> Any:
        """The chain, as calls from the last entry to the first."""
        cls = type(self)
        entries, configs = _declared(cls)
        g.place = _place(cls.entries)
        flow: Symbol | None = None
        for position in reversed(range(len(entries))):
            if entries[position] == INITIALIZER:
                flow = g.constant("initializer")
                continue
            domain, op_type = operator_key(entries[position])
            make = partial(
                getattr(g.op, op_type), domain=domain, attributes=ANY, **configs[position]
            )
            # The chain continues with the first result of a node; nothing reads the others.
            outputs: Any = (
                (g.symbol(), g.variadic(f"results_{position}"))
                if position
                else g.variadic("results", least=1)
            )
            if flow is None:
                results = make(g.variadic("operands"), outputs=outputs)
            else:
                results = make(
                    flow,
                    g.variadic(f"operands_{position}", constant=True),
                    outputs=outputs,
                    any_order=True,
                )
            flow = results[0] if position else results
        g.trace.conditions += _conditions(cls)
        return flow

    def reach(self) -> int:
        """The length of the chain and of the chains that feed its parameters."""
        sub_chains = [
            sub.entries() for parameters in self.sub_patterns() for sub in parameters.values()
        ]
        return super().reach() + max(map(len, sub_chains), default=0)

    def replacement(self, g: PatternRewriter, match: Match) -> Any:
        """The results of the rule, and ``None`` for further, unread results of the root."""
        rule = type(self).rule
        results = super().replacement(g, match) if rule is None else rule(g, match)
        names = (
            [results]
            if isinstance(results, str)
            else list(results)
            if isinstance(results, (tuple, list))
            else None
        )
        if names is None or any(g.is_used(name) for name in match.outputs[len(names) :]):
            return results
        return [*names, *[None] * (len(match.outputs) - len(names))]


def matches_feeding(g: View, name: str, pattern: type[ChainPattern]) -> list[MatchResult]:
    """The matches of a chain in the constant sub-graph that computes a result, each node in one of
    them at most.

    There is no match when the result is not constant. With `ChainPattern.is_output`, the root must
    compute this result.
    """
    if not g.is_constant(name):
        return []
    nodes = _sub_graph(g, name)
    if tuple(pattern.entries()) == (INITIALIZER,):
        return [
            _stored(pattern, leaf)
            for leaf in _leaves(g, name, () if pattern.is_output() else nodes)
        ]
    if pattern.is_output():
        nodes = nodes[-1:]  # the producer of the result comes after the producers of its operands
    rooted = _rooted(pattern)
    keys = rooted.anchor_keys()
    matches = [rooted.match(g, node, []) for node in nodes if (node.domain, node.op_type) in keys]
    return disjoint(match for match in matches if match is not None)


# ---------------------------------------------------------------- declarations of the class methods


def _declared(cls: type[ChainPattern]) -> tuple[list[str], list[Mapping[str, Any]]]:
    """Entries and their attributes, checked."""
    entries, configs, subs = (
        list(cls.entries()),
        list(cls.config_patterns()),
        list(cls.sub_patterns()),
    )
    operators = entries[:-1] if entries[-1:] == [INITIALIZER] else entries
    if not operators or INITIALIZER in operators:
        raise TypeError(
            f"{cls.__name__}: entries are operators; at least one of them precedes {INITIALIZER!r}"
        )
    for method, values in (("config_patterns", configs), ("sub_patterns", subs)):
        if len(values) > len(operators):
            raise TypeError(
                f"{cls.__name__}: {method} has {len(values)} elements, but there are "
                f"{len(operators)} operators"
            )
    return entries, configs + [{}] * (len(entries) - len(configs))


def _conditions(cls: type[ChainPattern]) -> list[Condition]:
    """The conditions besides the form of the chain, each with the line that states it."""
    entries_file, line = _place(cls.entries)
    ends_stored = cls.entries()[-1] == INITIALIZER

    def condition(
        check: Callable[[Any, Any], bool], reason: str, method: Callable[..., Any]
    ) -> Condition:
        file, number = _place(method)
        return Condition(check, reason, number if file == entries_file else line)

    conditions = [
        condition(
            partial(_has_one_input, ends_stored),
            "an operator of the chain has another computed operand",
            cls.entries,
        )
    ]
    if cls.region != "any":
        in_constants = cls.region == "constant"
        reason = f"the result is {'not ' if in_constants else ''}constant"
        conditions.append(
            condition(lambda g, m: g.is_constant(m.outputs[0]) is in_constants, reason, cls.entries)
        )
    if cls.is_output():
        conditions.append(
            condition(
                partial(_gives_output, cls.region),
                "the result is not a graph output",
                cls.is_output,
            )
        )
    conditions.append(condition(_derive_values, "", cls.entries))
    for position, parameters in enumerate(cls.sub_patterns()):
        for parameter, sub in parameters.items():
            reason = f"{sub.name()} does not match at {parameter!r} of {cls.entries()[position]}"
            conditions.append(
                condition(partial(_is_fed, position, parameter, sub), reason, cls.sub_patterns)
            )
    return conditions


def _place(method: Callable[..., Any]) -> tuple[str, int]:
    code = getattr(method, "__func__", method).__code__
    return code.co_filename, code.co_firstlineno


# -------------------------------------------------------------------- conditions


def _has_one_input(ends_stored: bool, g: View, m: Match) -> bool:
    """In a constant sub-graph, stored operands are parameters, and one operand may be computed.

    Outside of constant sub-graphs, `match_pattern` requires the other operands to be constant.
    """
    if ends_stored and any(name and g.graph.tensor(name) is None for name in m.nodes[0].input):
        return False
    for before, node in pairwise(m.nodes):
        if node.bodies:  # a subgraph may read any result
            return False
        operands = (name for name in node.input if name and name != before.output[0])
        if g.is_constant(before.output[0]) and any(
            g.graph.tensor(name) is None for name in operands
        ):
            return False
    return True


def _gives_output(region: Area, g: View, m: Match) -> bool:
    """Whether a result of the root leaves the graph, or the constant sub-graph when the pattern
    looks only there.
    """
    if any(map(g.is_output, m.outputs)):
        return True
    readers = (
        [reader for name in m.outputs for reader in g.next_nodes(name)]
        if region == "constant"
        else []
    )
    return any(not g.is_constant(name) for reader in readers for name in reader.output if name)


def _derive_values(g: View, m: Match) -> bool:
    """Derive the values that rules receive, in the order of the entries."""
    computed = {node.output[0] for node in m.nodes[:-1]}
    parameters = [
        tuple(n for n in node.input if n not in computed and g.is_constant(n))
        for node in reversed(m.nodes)
    ]
    return m.derive(
        entries=tuple(reversed(m.nodes)),
        inputs=m.nodes[0].input,
        parameters=tuple(parameters),
        sub_matches=tuple({} for _ in m.nodes),
    )


def _is_fed(position: int, parameter: str, pattern: type[ChainPattern], g: View, m: Match) -> bool:
    """Whether a sub-pattern is in the constant sub-graph of an input; derives the matches."""
    names = _operands_of(parameter, m["entries"][position])
    matches = [match for name in names for match in matches_feeding(g, name, pattern)]
    m["sub_matches"][position][parameter] = matches
    return bool(matches)


def _operands_of(parameter: str, node: Node) -> tuple[str, ...]:
    """The operands of a formal input: one, none when it is omitted, or several when it is
    variadic.
    """
    definition = schema(node.op_type, node.domain, node.opset)
    formal = [] if definition is None else list(definition.inputs)
    for place, port in enumerate(formal):
        if port.name == parameter:
            is_variadic = port.option == OpSchema.FormalParameterOption.Variadic
            return node.input[place:] if is_variadic else node.input[place : place + 1]
    number = (
        whole_number(parameter.removeprefix("input_")) if parameter.startswith("input_") else None
    )
    if number is not None:
        return node.input[number : number + 1]
    names = ", ".join(port.name for port in formal) or "input_0, input_1, ..."
    raise TypeError(f"{node.op_type} has no input {parameter!r}; it has {names}")


# -------------------------------------------------------------------- constant sub-graphs


def _sub_graph(g: View, name: str) -> list[Node]:
    """The nodes that compute a constant, in the order of the graph; none when it is stored."""
    nodes: set[Node] = set()
    pending = [name]
    while pending:
        result = pending.pop()
        node = g.graph.producer(result) if result and g.graph.tensor(result) is None else None
        if node is not None and node not in nodes:
            nodes.add(node)
            pending += node.input
    return sorted(nodes, key=lambda node: node.label)


def _leaves(g: View, name: str, nodes: Sequence[Node]) -> list[str]:
    """The stored constants that a constant is computed from, or itself."""
    names = dict.fromkeys((name, *(operand for node in nodes for operand in node.input)))
    return [leaf for leaf in names if leaf and g.graph.tensor(leaf) is not None]


def _stored(pattern: type[ChainPattern], name: str) -> MatchResult:
    """The match of a chain that consists of a stored constant only."""
    bindings = {
        "initializer": name,
        "entries": (),
        "inputs": (name,),
        "parameters": (),
        "sub_matches": (),
    }
    return MatchResult(pattern(), [], lambda g, *nodes: [], bindings=bindings)


_ROOTED: dict[type[ChainPattern], ChainPattern] = {}


def _rooted(pattern: type[ChainPattern]) -> ChainPattern:
    """The same chain, searched from its root, wherever its result is read."""
    instance = _ROOTED.get(pattern)
    if instance is None:
        members = {"anchors": (pattern.entries()[0],), "is_output": classmethod(lambda cls: False)}
        subclass: type[ChainPattern] = type(
            pattern.__name__, (pattern,), {**members, "__module__": pattern.__module__}
        )
        instance = _ROOTED[pattern] = subclass()
    return instance


Kind: TypeAlias = Literal["parameter", "shatter", "fuse"]
AnyRule = TypeVar("AnyRule", bound=Rule)
_KINDS: dict[str, tuple[int, Area]] = {
    "parameter": (0, "constant"),
    "shatter": (100, "variable"),
    "fuse": (200, "variable"),
}
"""Base priority of the patterns of a kind, and their region."""


class ChainRegistry:
    """Patterns and their rules: ``rule(g, match)`` makes nodes with ``g.op`` and returns the names
    of the results.

    Rules for parameters apply where all operands are constant, the others everywhere else. First
    the rules of the kind ``parameter`` run, then ``shatter`` (one node into several), then ``fuse``
    (several nodes into one), and from the beginning again as long as anything changes. The
    `priority` of a pattern, below 100, orders it among the rules of its kind.

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
        self._classes: dict[type[ChainPattern], type[ChainPattern]] = {}

    @overload
    def register(self, pattern: type[ChainPattern]) -> Callable[[AnyRule], AnyRule]: ...

    @overload
    def register(self, pattern: type[ChainPattern], rule: AnyRule) -> AnyRule: ...

    def register(
        self, pattern: type[ChainPattern], rule: AnyRule | None = None
    ) -> AnyRule | Callable[[AnyRule], AnyRule]:
        """Register the rule for the matches of a pattern.

        ``@registry.register(pattern)`` decorates the rule.

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
            raise TypeError(
                f"a rule is called with the graph and the match; {rule!r} cannot be called"
            )
        if pattern in self._rules:
            raise ValueError(f"{pattern.name()} has a rule of the kind {self.kind!r} already")
        self._rules[pattern] = rule
        self._classes[pattern] = self._pattern_class(pattern, rule)
        return rule

    def rule_of(self, pattern: type[ChainPattern]) -> Rule:
        """The rule of a pattern; raises `LookupError` when it has none."""
        if pattern not in self._rules:
            raise LookupError(f"{pattern.name()} has no rule of the kind {self.kind!r}")
        return self._rules[pattern]

    def patterns(self) -> list[type[ChainPattern]]:
        """The patterns with their rules, ready for ``optimize(model, patterns=...)``.

        Each is named after the kind and the pattern, ``FuseMatMulRelu``, so that a pattern may be
        in several registries.
        """
        return list(self._classes.values())

    def __iter__(self) -> Iterator[type[ChainPattern]]:
        return iter(self._rules)

    def __len__(self) -> int:
        return len(self._rules)

    def __contains__(self, pattern: object) -> bool:
        return pattern in self._rules

    def _pattern_class(self, pattern: type[ChainPattern], rule: Rule) -> type[ChainPattern]:
        base_priority, region = _KINDS[self.kind]
        members = {
            "rule": staticmethod(rule),
            "priority": base_priority + pattern.priority,
            "region": region,
            "__module__": pattern.__module__,
            "__doc__": getattr(rule, "__doc__", None) or pattern.__doc__,
        }
        return type(f"{self.kind.title()}{pattern.name()}Pattern", (pattern,), members)
