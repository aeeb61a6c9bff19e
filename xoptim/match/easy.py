"""Patterns declared by two functions: one describes the subgraph, one makes the replacement."""

import inspect
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, Literal

from xoptim.facts.errors import Declined, RewriteError
from xoptim.facts.words import meant
from xoptim.graph.node import Node
from xoptim.graph.walk import is_read_beyond
from xoptim.match.conditions import DeclaredConditions
from xoptim.match.easy_checks import check_description, check_replacement
from xoptim.match.lines import attribute_line, raised_at
from xoptim.match.near_miss import NearPairing, report_miss
from xoptim.match.pairing import MatchAttempt, Pairing
from xoptim.match.pattern import Key, MatchResult, operator_key
from xoptim.match.program import Program, compile_trace, worth_trying
from xoptim.match.refusal import COMPLETE, READ_ELSEWHERE, Misfit, listener, listening
from xoptim.match.trace import Condition, Trace, Variadic, trace
from xoptim.match.view import GraphView, PatternRewriter


class Match(Mapping[str, Any]):
    """The captures of a declared pattern, by name: results (names), attributes, options, and
    derived values.

    Attributes:
        nodes: the matched nodes in the order of the calls in `match_pattern`.
        outputs: names of the results that the replacement must give.
        output_names: names of ``outputs`` in `match_pattern`, when it returns a dictionary.
        derived_names: names of the values passed to `derive` so far.
    """

    __slots__ = ("_bindings", "derived_names", "nodes", "output_names", "outputs")

    def __init__(
        self,
        bindings: dict[str, Any],
        nodes: list[Node],
        outputs: list[str],
        output_names: tuple[str, ...] = (),
    ) -> None:
        self._bindings = bindings
        self.nodes = nodes
        self.outputs = outputs
        self.output_names = output_names
        self.derived_names: set[str] = set()

    def derive(self, **values: Any) -> bool:
        """Pass values to `apply_pattern`, which receives them as parameters of these names.

        The pattern declares the names in `EasyPatternOptimization.derives`. Returns True, so that a
        validation can end with it.
        """
        self._bindings.update(values)
        self.derived_names.update(values)
        return True

    def __getitem__(self, name: str) -> Any:
        return self._bindings[name]

    def __getattr__(self, name: str) -> Any:
        try:
            return self._bindings[name]
        except KeyError:
            raise AttributeError(
                f"the pattern captures no {name!r}{meant(name, self._bindings)}"
            ) from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._bindings)

    def __len__(self) -> int:
        return len(self._bindings)


class EasyPatternOptimization(DeclaredConditions):
    """A pattern in two functions written as ``g.op.Add(x, y)`` calls.

    - ``match_pattern(self, g, x, ...)`` describes the subgraph and returns its results, as a tuple
      or as a dictionary; see `xoptim.match.trace.PatternBuilder` for the language. Parameters are
      results from outside; annotate them with `Constant`, `Scalar`, `Optional` or `Variadic`.
    - ``validate_mapping(self, g, m)`` checks what the form of the subgraph cannot express; it
      passes values to ``apply_pattern`` by ``m.derive(name=value)``.
    - ``apply_pattern(self, g, x, ...)`` makes the replacement and returns a result for each one of
      `match_pattern`: names in the same order, or a dictionary with the same keys; ``None`` (or no
      entry) for one that is not read. A result may be an operand. The parameters are any of the
      captured results, attributes, options and derived values, by name; a capture of another
      variant is ``None``.

    The class attributes of `DeclaredConditions` state conditions on operands.

    Class attributes:
        anchors: operators among which the engine chooses the anchor, where the search starts; all
            operators of the pattern when empty.
        interior: the action when an interior result is also read elsewhere: ``refuse`` the match,
            or ``keep`` its producer; ``g.keep(value)`` and ``g.exclusive(value)`` decide it for one
            result.
        derives: names of all values that the validation of a match passes to ``m.derive``.
    """

    interior: ClassVar[Literal["refuse", "keep"]] = "refuse"
    derives: ClassVar[tuple[str, ...]] = ()

    def match_pattern(self, *args: Any, **kwargs: Any) -> Any:
        """Describe the subgraph to find."""
        raise NotImplementedError(f"{type(self).__name__} has no match_pattern")

    def apply_pattern(self, *args: Any, **kwargs: Any) -> Any:
        """Make the replacement."""
        raise NotImplementedError(f"{type(self).__name__} has no apply_pattern")

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        """Check the conditions that the form of the subgraph cannot express.

        ``return self.none(msg=...)`` refuses.
        """
        return True

    def validate_attribute_mapping(self, g: GraphView, m: Match) -> bool | None:
        """Check captured attributes; called before `validate_mapping`.

        ``return self.none(msg=...)`` refuses.
        """
        return True

    def traced(self) -> list[Trace]:
        """The variants of the pattern. Other forms of patterns override this."""
        return trace(self.match_pattern)

    def replacement(self, g: PatternRewriter, match: Match) -> Any:
        """The results that replace the results of the matched nodes.

        Other forms of patterns override this.
        """
        return self.apply_pattern(g, **_arguments(self, match))

    def progress(self, line: int) -> int:
        """Progress of a validation, which runs when all nodes fit one by one."""
        return COMPLETE + line

    def anchor_keys(self) -> frozenset[Key]:
        """Operators of the anchors of all variants."""
        return frozenset(program.anchor_key for program in compiled(self))

    def paths(self) -> frozenset[tuple[Key, tuple[Key, ...]]]:
        """Operators of the anchors, each with the operators that must lead to it."""
        return frozenset((program.anchor_key, program.path) for program in compiled(self))

    def reach(self) -> int:
        """Distance in nodes from the anchor within which a change may make the pattern match."""
        return max(program.reach for program in compiled(self))

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        """Try all variants at a node.

        A listener receives the nearest miss of each variant that does not match.
        """
        listen = listener()
        examine = partial(self._examine, g, node)
        programs = compiled(self)
        if listen is None:
            for program in worth_trying(programs, g.graph, node):
                result = MatchAttempt(Pairing(program, g), examine).run(node)
                if result is not None:
                    return result
            return None
        for program in programs:
            with listening(None):
                result = MatchAttempt(Pairing(program, g), examine).run(node)
            if result is not None:
                return result
            if program.anchor_key == (node.domain, node.op_type):
                report_miss(NearPairing(program, g, self.name(), listen), examine, node)
        return None

    def _examine(self, g: GraphView, anchor: Node, pairing: Pairing) -> MatchResult | Misfit:
        """Check the conditions on a match whose nodes fit one by one."""
        program, names = pairing.program, pairing.names
        variant = program.trace
        nodes = [*pairing.bound, *pairing.extra]
        bindings: dict[str, Any] = {
            name: names[register] or "" for name, register in program.captures
        }
        bindings.update(pairing.attributes)
        bindings.update(variant.options)
        outputs: list[str] = []
        for symbol in variant.outputs:
            outputs += (
                bindings[symbol.name] if symbol.kind is Variadic else (names[symbol.index] or "",)
            )
        operands = {name for register in program.operands if (name := names[register])}
        for list_name in program.lists:
            operands.update(filter(None, pairing.attributes.get(list_name, ())))
        if not operands.isdisjoint(outputs):
            return Misfit(anchor, "an operand is one of the results")
        kept = needed_outside(g, nodes, set(outputs), operands)
        match = Match(bindings, nodes, outputs, variant.output_names)
        misfit = _cannot_stay(g, pairing, kept, match, operands, self.interior) if kept else None
        misfit = misfit or self._unsatisfied(g, variant.conditions, match, anchor)
        if misfit is not None:
            return misfit
        self._check_derived(match)
        result = MatchResult(self, nodes, partial(self._rewrite, match, kept), bindings=bindings)
        result.anchor = anchor
        return result

    def _unsatisfied(
        self,
        g: GraphView,
        conditions: Sequence[Condition],
        match: Match,
        anchor: Node,
    ) -> Misfit | None:
        """The first condition or validation that refuses a match.

        A condition that raises `Declined` refuses the match as well.
        """
        try:
            for condition in conditions:
                if not condition.check(g, match):
                    return Misfit(
                        anchor, condition.reason or "a condition does not hold", line=condition.line
                    )
            unmet = self.unmet(g, match)
            if unmet is not None:
                file, line = attribute_line(type(self), unmet.attribute) if listener() else ("", 0)
                return Misfit(anchor, unmet.reason, (unmet.operand,), line, file=file)
            for check in (self.validate_attribute_mapping, self.validate_mapping):
                if not check(g, match):
                    return Misfit(
                        anchor,
                        f"{check.__name__} refuses",
                        line=check.__code__.co_firstlineno,
                        is_general=True,
                    )
        except Declined as reason:
            file, line = raised_at(reason)
            return Misfit(anchor, str(reason), line=line, file=file)
        return None

    def _check_derived(self, match: Match) -> None:
        """Raise `RewriteError` unless a match that fits derived the names in `derives`."""
        undeclared = sorted(match.derived_names.difference(self.derives))
        if undeclared:
            raise RewriteError(
                f"{self.name()}: the validation derives {undeclared[0]!r}, which `derives` does "
                f"not name{meant(undeclared[0], self.derives)}"
            )
        missing = [name for name in self.derives if name not in match.derived_names]
        if missing:
            raise RewriteError(
                f"{self.name()}: `derives` names {missing[0]!r}, which the validation does not "
                "derive"
            )

    def _rewrite(
        self, match: Match, kept: Sequence[Node], g: PatternRewriter, *nodes: Node
    ) -> list[Node]:
        results = self.replacement(g, match)
        if results is None:
            raise RewriteError(
                f"{self.name()}: apply_pattern returns nothing; return the results that replace "
                "those of match_pattern"
            )
        if isinstance(results, Mapping):
            unknown = [name for name in results if name not in match.output_names]
            if unknown:
                raise RewriteError(
                    f"{self.name()}: apply_pattern gives {unknown[0]!r}, which match_pattern does "
                    "not return"
                )
            results = [results.get(name) for name in match.output_names]
        values = [results] if isinstance(results, str) else results
        names = [
            name
            for value in values
            for name in (value if isinstance(value, (tuple, list)) else (value,))
        ]
        if len(names) != len(match.outputs):
            raise RewriteError(
                f"{self.name()}: apply_pattern gives {len(names)} results, {len(match.outputs)} "
                "expected"
            )
        return [*kept, *connect(g, names, match.outputs)]


def connect(
    g: PatternRewriter, results: Sequence[str | None], targets: Sequence[str]
) -> list[Node]:
    """Give the results of the replacement the names of the results that they replace.

    Operands and repeated results are copied.
    """
    created = g.created
    new_names: dict[str, str] = {}
    copies: list[Node] = []
    produced = {name for node in created for name in node.output}
    for name, target in dict.fromkeys(zip(results, targets, strict=True)):
        if not name or not target:
            continue
        if name in produced and name not in new_names:
            new_names[name] = target
        else:
            copies.append(g.make_node("Identity", [new_names.get(name, name)], [target]))
    for node in created:
        node.input = tuple(new_names.get(name, name) for name in node.input)
        node.output = tuple(new_names.get(name, name) for name in node.output)
    return [*created, *copies]


def needed_outside(
    g: GraphView, nodes: Sequence[Node], outputs: set[str], operands: set[str]
) -> list[Node]:
    """The matched nodes that must stay because other nodes or the replacement read their results.

    Their matched producers stay as well. ``outputs`` are the results of the replacement,
    ``operands`` the results that it reads.
    """
    graph = g.graph
    matched = set(nodes)
    kept: set[Node] = set()
    pending = [
        n
        for n in nodes
        for name in n.output
        if name not in outputs and _is_read(g, name, matched, operands)
    ]
    while pending:
        node = pending.pop()
        if node not in kept:
            kept.add(node)
            producers = (graph.producer(name) for name in node.input if name)
            pending.extend(p for p in producers if p in matched and p not in kept)
    return [node for node in nodes if node in kept] if kept else []


def _is_read(g: GraphView, name: str, matched: set[Node], operands: set[str]) -> bool:
    return bool(name) and (name in operands or is_read_beyond(g.graph, name, matched))


def _cannot_stay(
    g: GraphView,
    pairing: Pairing,
    kept: Sequence[Node],
    match: Match,
    operands: set[str],
    interior: str,
) -> Misfit | None:
    """The reason why nodes that are needed elsewhere cannot stay next to the replacement, ``None``
    if they can.
    """
    modes = {
        pairing.names[s.index]: s.interior for s in pairing.program.trace.symbols if s.interior
    }
    outputs, matched = set(match.outputs), set(match.nodes)
    for node in kept:
        for name in node.output:
            if (
                modes.get(name, interior) == "refuse"
                and name not in outputs
                and _is_read(g, name, matched, operands)
            ):
                return Misfit(node, READ_ELSEWHERE, node.output)
    for node in kept:
        if not outputs.isdisjoint(node.output):
            return Misfit(node, "a node that must stay produces one of the results", node.output)
    return None


_PROGRAMS: dict[type[EasyPatternOptimization], tuple[Program, ...]] = {}
_PARAMETERS: dict[type[EasyPatternOptimization], tuple[inspect.Parameter, ...]] = {}


def compiled(pattern: EasyPatternOptimization) -> tuple[Program, ...]:
    """The variants of a declarative pattern, traced and compiled once per class."""
    cls = type(pattern)
    cached = _PROGRAMS.get(cls)
    if cached is None:
        anchors = tuple(map(operator_key, cls.anchors))
        variants = pattern.traced()
        if not cls.is_shipped():  # tests check the patterns of xoptim itself
            check(pattern, variants)
        programs = tuple(compile_trace(variant, anchors, pattern.interior) for variant in variants)
        cached = _PROGRAMS[cls] = programs
    return cached


def check(pattern: EasyPatternOptimization, variants: Sequence[Trace]) -> None:
    """Check the two functions and the declarations of a pattern, given its traced variants.

    Raises `PatternError` for a mistake that would stay silent.
    """
    check_description(pattern.name(), variants)
    captured = set().union(*map(_captured, variants))
    pattern.check_declarations(captured)
    check_replacement(pattern.name(), pattern.apply_pattern, captured.union(pattern.derives))


def _arguments(pattern: EasyPatternOptimization, match: Match) -> dict[str, Any]:
    """The arguments of `apply_pattern`.

    A parameter such as ``**captures`` gets all captures that no other parameter names.
    """
    arguments: dict[str, Any] = {}
    for parameter in _parameters(pattern):
        if parameter.kind is parameter.VAR_KEYWORD:
            arguments |= {name: value for name, value in match.items() if name not in arguments}
        elif parameter.name in match:
            arguments[parameter.name] = match[parameter.name]
        elif parameter.default is inspect.Parameter.empty:
            arguments[parameter.name] = None  # a capture of another variant
    return arguments


def _captured(variant: Trace) -> set[str]:
    return (
        {symbol.name for symbol in variant.symbols}
        | set(variant.options)
        | variant.captured_attributes()
    )


def _parameters(pattern: EasyPatternOptimization) -> tuple[inspect.Parameter, ...]:
    cls = type(pattern)
    parameters = _PARAMETERS.get(cls)
    if parameters is None:
        parameters = _PARAMETERS[cls] = tuple(
            inspect.signature(pattern.apply_pattern).parameters.values()
        )[1:]
    return parameters
