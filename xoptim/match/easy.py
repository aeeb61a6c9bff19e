"""Patterns declared by two functions: what to look for, and what to put in its place."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, Literal

from xoptim.facts.errors import RewriteError
from xoptim.graph.node import Node
from xoptim.match.matcher import Attempt
from xoptim.match.pattern import PatternOptimization
from xoptim.match.program import CONSTANT, Program, compile_trace
from xoptim.match.refusal import Refusal, listener
from xoptim.match.result import MatchResult
from xoptim.match.trace import trace
from xoptim.match.view import GraphBuilderPatternOptimization, PatternRewriter


class Match(Mapping[str, Any]):
    """What a declarative pattern found: captured results (names), attributes, options, and derived values, by name.

    Attributes:
        nodes: the matched nodes in the order of the calls in `match_pattern`.
        outputs: names of the results that the replacement must give.
    """

    __slots__ = ("_bindings", "nodes", "outputs")

    def __init__(self, bindings: dict[str, Any], nodes: list[Node], outputs: list[str]) -> None:
        self._bindings = bindings
        self.nodes = nodes
        self.outputs = outputs

    def derive(self, **values: Any) -> bool:
        """Hand values to `apply_pattern`, which receives them as parameters of these names.

        Returns:
            True, so that a validation can end with it.
        """
        self._bindings.update(values)
        return True

    def __getitem__(self, name: str) -> Any:
        return self._bindings[name]

    def __getattr__(self, name: str) -> Any:
        try:
            return self._bindings[name]
        except KeyError:
            raise AttributeError(f"the pattern captures no {name!r}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._bindings)

    def __len__(self) -> int:
        return len(self._bindings)


class EasyPatternOptimization(PatternOptimization):
    """A pattern in two functions written as ``g.op.Add(x, y)`` calls.

    - ``match_pattern(self, g, x, ...)`` describes the subgraph and returns its results; see
      `xoptim.match.trace.PatternBuilder` for what can be said. Parameters stand for results from outside; annotate them with
      `Constant`, `Scalar` or `Optional`.
    - ``validate_mapping(self, g, m)`` says what the form of the subgraph cannot; it may hand on values with ``m.derive``.
    - ``apply_pattern(self, g, x, ...)`` makes the replacement and returns as many results as `match_pattern`. Its parameters
      are any of the captured results, attributes, options and derived values, by name.

    Class attributes:
        interior: what to do when a result in between is read elsewhere too: ``refuse`` the match, or ``keep`` its producer.
    """

    interior: ClassVar[Literal["refuse", "keep"]] = "refuse"

    def match_pattern(self, *args: Any, **kwargs: Any) -> Any:
        """Describe the subgraph to look for."""
        raise NotImplementedError(f"{type(self).__name__} has no match_pattern")

    def apply_pattern(self, *args: Any, **kwargs: Any) -> Any:
        """Make the replacement."""
        raise NotImplementedError(f"{type(self).__name__} has no apply_pattern")

    def validate_mapping(self, g: GraphBuilderPatternOptimization, m: Match) -> bool | None:
        """Check what the form of the subgraph cannot say. ``return self.none(msg=...)`` refuses."""
        return True

    def validate_attribute_mapping(self, g: GraphBuilderPatternOptimization, m: Match) -> bool | None:
        """Check captured attributes; called before `validate_mapping`. ``return self.none(msg=...)`` refuses."""
        return True

    def anchor_keys(self) -> frozenset[tuple[str, str]]:
        """Operators of the anchors of all variants."""
        return frozenset(program.anchor_key for program in compiled(self))

    def near_keys(self) -> frozenset[tuple[str, str]]:
        """Operators, one of which must produce an input of the anchor."""
        near = [program.near for program in compiled(self)]
        return frozenset(key for key in near if key is not None) if None not in near else frozenset()

    def reach(self) -> int:
        """How many nodes lie between the anchor and the farthest other node."""
        return max(program.reach for program in compiled(self))

    def match(self, g: GraphBuilderPatternOptimization, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        """Try all variants at a node."""
        programs = compiled(self)
        near = _producers(g, node) if len(programs) > 1 else None
        for program in programs:
            if node.op_type == program.anchor.op_type and node.domain == program.anchor.domain:
                if near is not None and program.near is not None and program.near not in near and listener() is None:
                    continue
                attempt = Attempt(program, g, self.name())
                result = attempt.run(node, partial(self._accept, g, node))
                if result is not None:
                    return result
        return None

    def _accept(self, g: GraphBuilderPatternOptimization, anchor: Node, attempt: Attempt) -> MatchResult | None:
        nodes = [node for node in attempt.nodes if node is not None]
        program = attempt.program
        outputs = [attempt.names[symbol.index] or "" for symbol in program.trace.outputs]
        operands = {attempt.names[s.index] for s in program.trace.symbols if s.producer is None and s.literal is None}
        if not operands.isdisjoint(outputs):
            self._refuse(program, anchor, "an operand is one of the results")
            return None
        kept = _needed_outside(g, nodes, set(outputs), operands)
        if kept and self.interior == "refuse":
            self._refuse(program, kept[0], "a result in between is read elsewhere")
            return None
        bindings: dict[str, Any] = {s.name: attempt.names[s.index] or "" for s in program.trace.symbols if s.name}
        bindings.update(attempt.attributes)
        bindings.update(program.trace.options)
        match = Match(bindings, nodes, outputs)
        if not self.validate_attribute_mapping(g, match) or not self.validate_mapping(g, match):
            return None
        result = MatchResult(self, nodes, partial(self._rewrite, match, kept), bindings=bindings)
        result.anchor = anchor
        return result

    def _refuse(self, program: Program, node: Node, reason: str) -> None:
        listen = listener()
        if listen is not None:
            line = program.anchor.line
            listen(Refusal(self.name(), node, reason, program.trace.file, line, len(program.steps)))

    def _rewrite(self, match: Match, kept: Sequence[Node], g: PatternRewriter, *nodes: Node) -> list[Node]:
        arguments = {name: match[name] for name in _parameters(self)}
        results = self.apply_pattern(g, **arguments)
        given = [results] if isinstance(results, str) else list(results)
        if len(given) != len(match.outputs):
            raise RewriteError(f"{self.name()}: apply_pattern gives {len(given)} results, {len(match.outputs)} expected")
        return [*kept, *_connect(g, given, match.outputs)]


def _producers(g: GraphBuilderPatternOptimization, node: Node) -> set[tuple[str, str]]:
    """Operators that produce the inputs of a node; `CONSTANT` stands for whatever else may be constant."""
    producers = [g.graph.producer(name) for name in node.input]
    return {CONSTANT, *((p.domain, p.op_type) for p in producers if p is not None)}


def _connect(g: PatternRewriter, given: Sequence[str], wanted: Sequence[str]) -> list[Node]:
    """Give the results of the replacement the names of the results they stand for."""
    created = g.created
    renamed: dict[str, str] = {}
    extra: list[Node] = []
    made = {name for node in created for name in node.output}
    for name, target in zip(given, wanted, strict=True):
        if name in made and name not in renamed:
            renamed[name] = target
        else:
            extra.append(g.make_node("Identity", [renamed.get(name, name)], [target]))
    for node in created:
        node.input = tuple(renamed.get(name, name) for name in node.input)
        node.output = tuple(renamed.get(name, name) for name in node.output)
    return [*created, *extra]


def _needed_outside(
    g: GraphBuilderPatternOptimization, nodes: Sequence[Node], outputs: set[str], operands: set[str | None]
) -> list[Node]:
    """The matched nodes that must stay: something else or the replacement reads a result of theirs; and what these need."""
    graph = g.graph
    inside = set(nodes)
    kept: set[Node] = set()
    pending = []
    for node in nodes:
        for name in node.output:
            if (
                name
                and name not in outputs
                and (
                    name in operands
                    or graph.is_output(name)
                    or graph.is_captured(name)
                    or any(n not in inside for n in graph.consumers(name))
                )
            ):
                pending.append(node)
                break
    while pending:
        node = pending.pop()
        if node not in kept:
            kept.add(node)
            producers = (graph.producer(name) for name in node.input if name)
            pending.extend(p for p in producers if p in inside and p not in kept)
    return [node for node in nodes if node in kept]


_PROGRAMS: dict[type[EasyPatternOptimization], tuple[Program, ...]] = {}
_PARAMETERS: dict[type[EasyPatternOptimization], tuple[str, ...]] = {}


def compiled(pattern: EasyPatternOptimization) -> tuple[Program, ...]:
    """The variants of a declarative pattern, traced and compiled once a class."""
    cls = type(pattern)
    found = _PROGRAMS.get(cls)
    if found is None:
        found = _PROGRAMS[cls] = tuple(compile_trace(variant) for variant in trace(pattern.match_pattern))
    return found


def _parameters(pattern: EasyPatternOptimization) -> tuple[str, ...]:
    cls = type(pattern)
    found = _PARAMETERS.get(cls)
    if found is None:
        found = _PARAMETERS[cls] = tuple(inspect.signature(pattern.apply_pattern).parameters)[1:]
    return found
