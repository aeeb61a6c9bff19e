"""Trace `match_pattern`: run it once, with symbols instead of results, to record the subgraph that
it describes.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np

from xoptim.facts.errors import PatternError
from xoptim.facts.protos import standard_domain
from xoptim.match.lines import calling_frame
from xoptim.match.named import OperatorsByName
from xoptim.operators.registry import is_associative

if TYPE_CHECKING:
    from xoptim.match.ops import PatternOps
else:
    PatternOps = object

Answer = TypeVar("Answer")
_MAX_VARIANTS = 512
"""Maximal number of variants of a pattern, the product of the numbers of answers of its choices."""
_MAX_TERMS = 6
"""Maximal number of operands of an associative operator: they are tried in all orders."""


@dataclass(frozen=True, slots=True)
class Capture:
    """Matches an attribute of any value, which is captured under a name."""

    name: str
    predicate: Callable[[Any], bool] | None = None
    optional: bool = False


@dataclass(frozen=True, slots=True)
class AnyOf:
    """Matches an attribute that has one of several values."""

    values: tuple[Any, ...]


class _Anything:
    def __repr__(self) -> str:
        return "ANY"


ANY = _Anything()
"""Matches an attribute of any value; ``attributes=ANY``: all attributes that are not mentioned."""


class Constant:
    """Annotation of a parameter of `match_pattern`: the result must be constant."""


class Scalar(Constant):
    """Annotation of a parameter of `match_pattern`: the result must be a constant with one
    element.
    """


class Optional:
    """Annotation of a parameter of `match_pattern`: the input may be absent.

    An absent input is captured as ``""``.
    """


class Variadic:
    """Annotation of a parameter of `match_pattern`: all remaining operands, captured as a tuple of
    names.
    """


@dataclass(slots=True, eq=False)
class Symbol:
    """A result in a pattern."""

    index: int  # register that holds the name of the matching result
    name: str = ""  # its parameter of `match_pattern`, empty for interior results
    producer: PatternNode | None = None  # pattern node that produces it
    literal: Any = None  # value that it must have
    kind: type | None = None  # annotation of the parameter
    # Condition on the value of a constant, as an array, or as a number for a `Scalar`
    predicate: Callable[[Any], bool] | None = None
    elements: type | None = None  # for a `Variadic`: annotation of each of its results
    least: int = 0  # for a `Variadic`: minimal number of results
    # Whether it may be read outside the pattern (``keep``) or not (``refuse``); decided by the
    # pattern when empty
    interior: Literal["", "keep", "refuse"] = ""
    is_plain: bool = field(init=False)  # whether it matches any result, with any value

    def __post_init__(self) -> None:
        self.is_plain = self.kind is None and self.literal is None


@dataclass(slots=True, eq=False)
class PatternNode:
    """A node in a pattern.

    ``attributes`` are conditions on the attributes that the pattern mentions, ``others`` is the
    condition on all other attributes.
    """

    index: int  # its place in the order of the calls
    op_type: str
    domain: str
    inputs: list[Symbol | None]  # operands, ``None`` for those that must be absent
    outputs: list[Symbol]
    attributes: dict[str, Any]
    others: Any
    line: int = 0  # of the call in the pattern
    associative: bool = False  # whether a tree of such nodes may match it
    # whether the operands may be in any order, even if the operator is not commutative
    any_order: bool = False
    # place of the operand that takes all remaining ones, -1 when there is none
    variadic: int = field(init=False)
    is_bare: bool = field(init=False)  # whether a node without attributes fits

    def __post_init__(self) -> None:
        self.is_bare = not self.attributes and self.others is None
        self.variadic = next(
            (i for i, s in enumerate(self.inputs) if s is not None and s.kind is Variadic), -1
        )


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition on a match: ``check(g, m)`` must be true."""

    check: Callable[[Any, Any], bool | None]
    reason: str
    line: int


@dataclass(slots=True)
class Trace:
    """One variant of a pattern: its nodes in the order of the calls, its symbols, and the results
    to replace.

    ``output_names`` are given when the pattern names its results; ``options`` are the answers to
    its choices.
    """

    nodes: list[PatternNode] = field(default_factory=list)
    symbols: list[Symbol] = field(default_factory=list)
    outputs: list[Symbol] = field(default_factory=list)
    output_names: tuple[str, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)
    conditions: list[Condition] = field(default_factory=list)
    file: str = ""

    def captured_attributes(self) -> set[str]:
        """The names under which attributes are captured."""
        values = (
            value for node in self.nodes for value in (*node.attributes.values(), node.others)
        )
        return {value.name for value in values if isinstance(value, Capture)}


class PatternBuilder:
    """The ``g`` of `match_pattern`: ``g.op.Add(x, y)`` adds a node to the pattern and returns its
    result.

    Operands are results, numbers or arrays (a constant of that value, in any form in which a model
    can store it), or ``None`` for an input that must be absent. Attributes are values, `any_of`,
    `ANY`, predicates, or ``g.capture("name")``; one that is not mentioned must have its schema's
    default. An attribute that became an input later (``axes`` of ReduceMean, ``min`` of Clip, ...)
    is written as an attribute. ``g.op["class"](x)`` and ``**{"from": 1}`` are for names that Python
    reserves. Further keywords of all operators: ``domain``, ``outputs`` (a number, or
    ``g.variadic("name")`` for any number), ``attributes`` (`ANY` or a capture for all attributes
    that are not mentioned), ``associative=True`` (a sum of sums, in any order: ``g.op.Add(x, y, z,
    associative=True)``) and ``any_order=True``.

    Attributes:
        place: file and line that refusals report instead of the caller's, for patterns that are not
            written in Python.
    """

    ANY = ANY

    def __init__(self, choices: Sequence[int]) -> None:
        self.trace = Trace()
        self.place: tuple[str, int] | None = None
        self._choices = list(choices)
        self._answers: dict[str, int] = {}
        self.counts: list[int] = []
        """Number of answers of each choice."""
        self.op = _Ops(self)

    # ---------------------------------------------------------------- variants

    @property
    def taken(self) -> list[int]:
        """Index of the answer to each choice so far."""
        return self._choices[: len(self.counts)]

    def option(self, name: str) -> bool:
        """A choice: the pattern is tried with both answers.

        ``if g.option("bias"): y = g.op.Add(y, b)``.
        """
        return self.choice(name, True, False)

    def choice(self, name: str, *answers: Answer) -> Answer:
        """One of several answers, captured under ``name``: the pattern is tried with each."""
        if name not in self._answers:
            position = len(self.counts)
            if position == len(self._choices):
                self._choices.append(0)
            self._answers[name] = self._choices[position]
            self.counts.append(len(answers))
        answer: Answer = answers[self._answers[name]]
        self.trace.options[name] = answer
        return answer

    def either(self, *alternatives: Callable[[], Answer], name: str = "") -> Answer:
        """One of several alternatives: ``g.either(lambda: g.op.Relu(x), lambda: g.op.Clip(x,
        min=0.0))``.

        Args:
            *alternatives: functions that describe them.
            name: captures the index of the alternative that matched.
        """
        number: int = self.choice(name or f"either {len(self.counts)}", *range(len(alternatives)))
        return alternatives[number]()

    # ---------------------------------------------------------------- captures and conditions

    def capture(
        self, name: str, predicate: Callable[[Any], bool] | None = None, *, optional: bool = False
    ) -> Capture:
        """An attribute of any value (that satisfies the predicate), to be used in
        `validate_mapping` and `apply_pattern`.
        """
        return Capture(name, predicate, optional)

    def any_of(self, *values: Any) -> AnyOf:
        """An attribute with one of several values."""
        return AnyOf(values)

    def constant(
        self, name: str, predicate: Callable[[Any], bool] | None = None, *, scalar: bool = False
    ) -> Symbol:
        """A constant operand, in any form in which a model can store it.

        Captured as the name of the result.

        Args:
            name: to capture it under.
            predicate: condition on its value: an array, or a number when ``scalar``.
            scalar: whether it must have exactly one element.
        """
        symbol = self._named(name, Scalar if scalar else Constant)
        symbol.predicate = predicate
        return symbol

    def variadic(self, name: str, *, least: int = 0, constant: bool = False) -> Symbol:
        """All operands (or, as ``outputs=``, all results) that remain.

        Captured as a tuple of names.

        Args:
            name: to capture them under.
            least: minimal number.
            constant: whether each must be constant.
        """
        symbol = self._named(name, Variadic)
        symbol.least, symbol.elements = least, Constant if constant else None
        return symbol

    def keep(self, value: Symbol) -> Symbol:
        """Allow other readers of this result of the pattern: its producer then stays."""
        value.interior = "keep"
        return value

    def exclusive(self, value: Symbol) -> Symbol:
        """Refuse a match when this result is read outside the pattern."""
        value.interior = "refuse"
        return value

    def require(self, check: Callable[[Any, Any], bool | None], reason: str = "") -> None:
        """State a condition next to the calls that it belongs to, for instance in an alternative.

        Args:
            check: called with the view of the graph and the match, before
                `validate_attribute_mapping`.
            reason: reported when the condition does not hold.
        """
        self.trace.conditions.append(Condition(check, reason, calling_frame().f_lineno))

    # ---------------------------------------------------------------- nodes

    def symbol(self, name: str = "", kind: type | None = None, literal: Any = None) -> Symbol:
        """A new result of the pattern."""
        symbol = Symbol(len(self.trace.symbols), name, None, literal, kind)
        self.trace.symbols.append(symbol)
        return symbol

    def add(
        self,
        op_type: str,
        operands: Sequence[Any],
        outputs: Any,
        domain: str,
        attributes: dict[str, Any],
    ) -> Any:
        """Add a node to the pattern."""
        inputs = [self._operand(operand) for operand in operands]
        others = attributes.pop("attributes", None)
        associative, any_order = (
            attributes.pop("associative", False),
            attributes.pop("any_order", False),
        )
        line = self.place[1] if self.place is not None else calling_frame(2).f_lineno
        index = len(self.trace.nodes)
        domain = standard_domain(domain)
        node = PatternNode(
            index, op_type, domain, inputs, [], attributes, others, line, associative, any_order
        )
        _check_operands(node)
        if isinstance(outputs, int):
            outputs = [self.symbol() for _ in range(outputs)]
        node.outputs += [outputs] if isinstance(outputs, Symbol) else outputs
        for result in node.outputs:
            result.producer = node
        self.trace.nodes.append(node)
        return node.outputs[0] if len(node.outputs) == 1 else tuple(node.outputs)

    def _named(self, name: str, kind: type) -> Symbol:
        for symbol in self.trace.symbols:
            if symbol.name == name:
                raise _mistake(
                    f"the pattern captures {name!r} twice; use the value that the first call "
                    "returned"
                )
        return self.symbol(name, kind)

    def _operand(self, operand: Any) -> Symbol | None:
        if operand is None or isinstance(operand, Symbol):
            return operand
        if isinstance(operand, np.generic):
            operand = operand.item()
        if isinstance(operand, (bool, int, float, list, tuple, np.ndarray)):
            return self.symbol(
                literal=operand if isinstance(operand, (bool, int, float)) else np.asarray(operand)
            )
        raise _mistake(f"{operand!r} cannot be an operand of a pattern")


def _mistake(text: str) -> PatternError:
    frame = calling_frame()
    while frame.f_code.co_filename == __file__ and frame.f_back is not None:
        frame = frame.f_back
    return PatternError(f"{frame.f_code.co_filename}:{frame.f_lineno}: {text}")


def _check_operands(node: PatternNode) -> None:
    if sum(s is not None and s.kind is Variadic for s in node.inputs) > 1:
        raise _mistake(f"{node.op_type}: only one operand of a pattern can take all remaining ones")
    if node.associative and (
        not is_associative(node.op_type, node.domain) or node.variadic >= 0 or None in node.inputs
    ):
        raise _mistake(
            f"{node.op_type} cannot be matched as an associative operator with these operands"
        )
    if node.associative and not 2 <= len(node.inputs) <= _MAX_TERMS:
        raise _mistake(
            f"an associative {node.op_type} needs 2 to {_MAX_TERMS} operands in a pattern"
        )


class _Ops(OperatorsByName, PatternOps):
    def __init__(self, builder: PatternBuilder) -> None:
        self._builder = builder

    def __getitem__(self, op_type: str) -> Callable[..., Any]:
        def call(
            *operands: Any,
            outputs: int | Symbol | Sequence[Symbol] = 1,
            domain: str = "",
            **attributes: Any,
        ) -> Any:
            return self._builder.add(op_type, operands, outputs, domain, attributes)

        return call


_KINDS: dict[str, type] = {kind.__name__: kind for kind in (Constant, Scalar, Optional, Variadic)}


def trace(function: Callable[..., Any], names: Sequence[str] | None = None) -> list[Trace]:
    """All variants of a pattern: one for each combination of answers to `PatternBuilder.choice`.

    ``function`` is the bound method `match_pattern`; the names of its parameters are read from its
    signature by default. Raises `PatternError` when the pattern cannot be matched; the message
    names the mistake.
    """
    parameters = list(inspect.signature(function).parameters.values())[1:]
    formal = (
        [(p.name, _kind(p.annotation)) for p in parameters]
        if names is None
        else [(name, None) for name in names]
    )
    variants: list[Trace] = []
    pending: list[list[int]] = [[]]
    while pending:
        choices = pending.pop()
        builder = PatternBuilder(choices)
        results = function(builder, *[builder.symbol(name, kind) for name, kind in formal])
        variant = builder.trace
        if isinstance(results, Mapping):
            variant.output_names, results = tuple(results), tuple(results.values())
        variant.outputs = list(results) if isinstance(results, (tuple, list)) else [results]
        variant.file = (
            builder.place[0] if builder.place is not None else function.__code__.co_filename
        )
        variants.append(variant)
        if len(variants) > _MAX_VARIANTS:
            raise PatternError(
                f"{variant.file}: a pattern of more than {_MAX_VARIANTS} variants; write several "
                "patterns"
            )
        answers = builder.taken
        # Queue the other answers of the choices that were new in this run.
        for position in reversed(range(len(choices), len(answers))):
            pending += [
                [*answers[:position], answer]
                for answer in range(builder.counts[position] - 1, 0, -1)
            ]
    return variants


def _kind(annotation: Any) -> type | None:
    if isinstance(annotation, str):
        return _KINDS.get(annotation.rpartition(".")[2])
    return annotation if annotation in _KINDS.values() else None
