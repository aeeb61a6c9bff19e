"""Patterns declared by two functions: what to look for, and what to put in its place."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Literal

from xoptim.facts.errors import RewriteError
from xoptim.graph.node import Node
from xoptim.match.matcher import Attempt
from xoptim.match.pattern import Key, PatternOptimization, operator_key
from xoptim.match.program import CONSTANT, Program, compile_trace
from xoptim.match.refusal import Refusal, listener, listening
from xoptim.match.result import MatchResult
from xoptim.match.trace import Capture, Trace, Variadic, trace
from xoptim.match.view import GraphBuilderPatternOptimization, PatternRewriter


class Match(Mapping[str, Any]):
    """What a declarative pattern found: captured results (names), attributes, options, and derived values, by name.

    Attributes:
        nodes: the matched nodes in the order of the calls in `match_pattern`.
        outputs: names of the results that the replacement must give.
        output_names: what `match_pattern` calls them, when it returns a dictionary.
    """

    __slots__ = ("_bindings", "nodes", "output_names", "outputs")

    def __init__(
        self, bindings: dict[str, Any], nodes: list[Node], outputs: list[str], output_names: tuple[str, ...] = ()
    ) -> None:
        self._bindings = bindings
        self.nodes = nodes
        self.outputs = outputs
        self.output_names = output_names

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

    - ``match_pattern(self, g, x, ...)`` describes the subgraph and returns its results, as a tuple or as a dictionary; see
      `xoptim.match.trace.PatternBuilder` for what can be said. Parameters stand for results from outside; annotate them with
      `Constant`, `Scalar`, `Optional` or `Variadic`.
    - ``validate_mapping(self, g, m)`` says what the form of the subgraph cannot; it may hand on values with ``m.derive``.
    - ``apply_pattern(self, g, x, ...)`` makes the replacement and returns the results that take the place of those of
      `match_pattern`: names in the same order, or a dictionary with the same keys; ``None`` (or no entry) for one that nothing
      reads. A result may be an operand. Its parameters are any of the captured results, attributes, answers and derived
      values, by name; what another variant captures, but not this one, is ``None``.

    Class attributes:
        anchors: operators among which the engine chooses where the search starts; all of the pattern when empty.
        interior: what to do when a result in between is read elsewhere too: ``refuse`` the match, or ``keep`` its producer;
            ``g.keep(value)`` and ``g.exclusive(value)`` say it of one result.
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

    def traced(self) -> list[Trace]:
        """The variants of the pattern. Other forms of patterns override this."""
        return trace(self.match_pattern)

    def replacement(self, g: PatternRewriter, match: Match) -> Any:
        """What takes the place of the results. Other forms of patterns override this."""
        return self.apply_pattern(g, **_arguments(self, match))

    def progress(self, line: int) -> int:
        """Validations come when everything else fits."""
        return _COMPLETE + line

    def anchor_keys(self) -> frozenset[Key]:
        """Operators of the anchors of all variants."""
        return frozenset(program.anchor_key for program in compiled(self))

    def paths(self) -> frozenset[tuple[Key, tuple[Key, ...]]]:
        """Operators of the anchors, and what must lead to each of them."""
        return frozenset((program.anchor_key, program.path) for program in compiled(self))

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
        nodes = [*(node for node in attempt.nodes if node is not None), *attempt.extra]
        found, names = attempt.program.trace, attempt.names
        bindings: dict[str, Any] = {s.name: names[s.index] or "" for s in found.symbols if s.name}
        bindings.update(attempt.attributes)
        bindings.update(found.options)
        outputs = list(_flat(bindings[s.name] if s.kind is Variadic else names[s.index] or "" for s in found.outputs))
        operands = set(filter(None, _operands(found, attempt)))
        if not operands.isdisjoint(outputs):
            self._refuse(attempt, anchor, "an operand is one of the results")
            return None
        kept = needed_outside(g, nodes, set(outputs), operands)
        refused = _read_elsewhere(g, attempt, kept, operands, self.interior) if kept else None
        if refused is not None:
            self._refuse(attempt, refused, "a result in between is read elsewhere", *refused.output)
            return None
        double = next((node for node in kept if not set(outputs).isdisjoint(node.output)), None)
        if double is not None:
            self._refuse(attempt, double, "a node that has to stay gives one of the results", *double.output)
            return None
        match = Match(bindings, nodes, outputs, found.output_names)
        if not self._validate(g, attempt, match, anchor):
            return None
        result = MatchResult(self, nodes, partial(self._rewrite, match, kept), bindings=bindings)
        result.anchor = anchor
        return result

    def _validate(self, g: GraphBuilderPatternOptimization, attempt: Attempt, match: Match, anchor: Node) -> bool:
        for condition in attempt.program.trace.conditions:
            if not condition.check(g, match):
                self._refuse(attempt, anchor, condition.reason or "a condition does not hold", line=condition.line)
                return False
        listen = listener()
        if listen is None:
            return bool(self.validate_attribute_mapping(g, match)) and bool(self.validate_mapping(g, match))
        heard: list[Refusal] = []
        for check in (self.validate_attribute_mapping, self.validate_mapping):
            with listening(heard.append):
                fits = check(g, match)
            if not fits:
                for refusal in heard:
                    listen(replace(refusal, matched=tuple(match.nodes), total=len(match.nodes)))
                if not heard:
                    self._refuse(attempt, anchor, f"{check.__name__} says no", line=check.__code__.co_firstlineno)
                return False
        return True

    def _refuse(self, attempt: Attempt, node: Node, reason: str, *values: str, line: int = 0) -> None:
        listen = listener()
        if listen is not None:
            found = attempt.program.trace
            matched = tuple(n for n in attempt.nodes if n is not None)
            where = line or attempt.program.anchor.line
            given = tuple(filter(None, values))
            listen(Refusal(self.name(), node, reason, found.file, where, _COMPLETE, matched, len(found.nodes), given))

    def _rewrite(self, match: Match, kept: Sequence[Node], g: PatternRewriter, *nodes: Node) -> list[Node]:
        results = self.replacement(g, match)
        if isinstance(results, Mapping):
            unknown = [name for name in results if name not in match.output_names]
            if unknown:
                raise RewriteError(f"{self.name()}: apply_pattern gives {unknown[0]!r}, which match_pattern does not return")
            results = [results.get(name) for name in match.output_names]
        given = [results] if isinstance(results, str) or results is None else list(_flat(results))
        if len(given) != len(match.outputs):
            raise RewriteError(f"{self.name()}: apply_pattern gives {len(given)} results, {len(match.outputs)} expected")
        return [*kept, *connect(g, given, match.outputs)]


_COMPLETE = 1_000_000
"""Progress of a match in which nothing but a condition on the whole is missing."""


def _flat(values: Iterable[Any]) -> Iterator[Any]:
    """Results, those of lists of results one by one."""
    for value in values:
        if isinstance(value, (tuple, list)):
            yield from value
        else:
            yield value


def _operands(found: Trace, attempt: Attempt) -> Iterator[str]:
    """Results from outside that the pattern reads."""
    for symbol in found.symbols:
        if symbol.producer is None and symbol.literal is None:
            if symbol.kind is Variadic:
                yield from attempt.attributes.get(symbol.name, ())
            else:
                yield attempt.names[symbol.index] or ""


def _producers(g: GraphBuilderPatternOptimization, node: Node) -> set[Key]:
    """Operators that produce the inputs of a node; `CONSTANT` stands for whatever else may be constant."""
    producers = [g.graph.producer(name) for name in node.input]
    return {CONSTANT, *((p.domain, p.op_type) for p in producers if p is not None)}


def connect(g: PatternRewriter, given: Sequence[str | None], wanted: Sequence[str]) -> list[Node]:
    """Give the results of the replacement the names of the results they stand for."""
    created = g.created
    renamed: dict[str, str] = {}
    extra: list[Node] = []
    made = {name for node in created for name in node.output}
    for name, target in dict.fromkeys(zip(given, wanted, strict=True)):
        if not name or not target:
            continue
        if name in made and name not in renamed:
            renamed[name] = target
        else:
            extra.append(g.make_node("Identity", [renamed.get(name, name)], [target]))
    for node in created:
        node.input = tuple(renamed.get(name, name) for name in node.input)
        node.output = tuple(renamed.get(name, name) for name in node.output)
    return [*created, *extra]


def needed_outside(
    g: GraphBuilderPatternOptimization, nodes: Sequence[Node], outputs: set[str], operands: set[str]
) -> list[Node]:
    """The matched nodes that must stay: something else or the replacement reads a result of theirs; and what these need.

    Args:
        g: the graph.
        nodes: the matched nodes.
        outputs: results that the replacement gives.
        operands: results that it reads.
    """
    graph = g.graph
    inside = set(nodes)
    kept: set[Node] = set()
    pending = [
        node for node in nodes if any(_is_read(g, name, inside, operands) for name in node.output if name not in outputs)
    ]
    while pending:
        node = pending.pop()
        if node not in kept:
            kept.add(node)
            producers = (graph.producer(name) for name in node.input if name)
            pending.extend(p for p in producers if p in inside and p not in kept)
    return [node for node in nodes if node in kept]


def _is_read(g: GraphBuilderPatternOptimization, name: str, inside: set[Node], operands: set[str]) -> bool:
    graph = g.graph
    return bool(name) and (
        name in operands
        or graph.is_output(name)
        or graph.is_captured(name)
        or any(reader not in inside for reader in graph.consumers(name))
    )


def _read_elsewhere(
    g: GraphBuilderPatternOptimization, attempt: Attempt, kept: Sequence[Node], operands: set[str], default: str
) -> Node | None:
    """A node whose result in between is read elsewhere against the will of the pattern."""
    trace = attempt.program.trace
    said = {attempt.names[s.index]: s.interior for s in trace.symbols if s.interior}
    outputs = {attempt.names[s.index] for s in trace.outputs if s.kind is not Variadic}
    inside = {*(node for node in attempt.nodes if node is not None), *attempt.extra}
    for node in kept:
        for name in node.output:
            if said.get(name, default) == "refuse" and name not in outputs and _is_read(g, name, inside, operands):
                return node
    return None


_PROGRAMS: dict[type[EasyPatternOptimization], tuple[Program, ...]] = {}
_PARAMETERS: dict[type[EasyPatternOptimization], tuple[inspect.Parameter, ...]] = {}


def compiled(pattern: EasyPatternOptimization) -> tuple[Program, ...]:
    """The variants of a declarative pattern, traced and compiled once a class."""
    cls = type(pattern)
    found = _PROGRAMS.get(cls)
    if found is None:
        anchors = tuple(map(operator_key, cls.anchors))
        variants = pattern.traced()
        programs = tuple(compile_trace(variant, anchors) for variant in variants)
        _check_parameters(variants)
        found = _PROGRAMS[cls] = programs
    return found


def _check_parameters(variants: Sequence[Trace]) -> None:
    """Make sure that each parameter stands for something in at least one variant.

    Raises:
        TypeError: when none of the operators reads one.
    """
    given = dict.fromkeys(s.name for found in variants for s in found.symbols if s.name and s.producer is None)
    read = {s.name for found in variants for node in found.nodes for s in node.inputs if s is not None}
    unread = next((name for name in given if name not in read), None)
    if unread is not None:
        raise TypeError(f"{variants[0].file}: nothing in match_pattern reads its parameter {unread!r}")


def _arguments(pattern: EasyPatternOptimization, match: Match) -> dict[str, Any]:
    """What `apply_pattern` is called with."""
    given: dict[str, Any] = {}
    for parameter in _parameters(pattern):
        if parameter.name in match:
            given[parameter.name] = match[parameter.name]
        elif parameter.default is inspect.Parameter.empty:
            if not any(parameter.name in _captured(program.trace) for program in compiled(pattern)):
                raise RewriteError(f"{pattern.name()}: apply_pattern asks for {parameter.name!r}, which nothing captures")
            given[parameter.name] = None
    return given


def _captured(found: Trace) -> set[str]:
    """All names under which a variant of a pattern captures something."""
    names = {symbol.name for symbol in found.symbols} | set(found.options)
    for node in found.nodes:
        names |= {value.name for value in (*node.attributes.values(), node.others) if isinstance(value, Capture)}
    return names


def _parameters(pattern: EasyPatternOptimization) -> tuple[inspect.Parameter, ...]:
    cls = type(pattern)
    found = _PARAMETERS.get(cls)
    if found is None:
        found = _PARAMETERS[cls] = tuple(inspect.signature(pattern.apply_pattern).parameters.values())[1:]
    return found
