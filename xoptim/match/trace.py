"""Run `match_pattern` once, with symbols instead of results, to learn the subgraph that it describes."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True, slots=True)
class Capture:
    """Stands for an attribute of any value, which is captured under a name."""

    name: str
    predicate: Callable[[Any], bool] | None = None
    optional: bool = False


@dataclass(frozen=True, slots=True)
class AnyOf:
    """Stands for an attribute that has one of several values."""

    values: tuple[Any, ...]


class _Anything:
    def __repr__(self) -> str:
        return "ANY"


ANY = _Anything()
"""Stands for an attribute, or with ``attributes=ANY`` for all that are not mentioned, of whatever value."""


class Constant:
    """Annotation of a parameter of `match_pattern`: the result must be constant."""


class Scalar(Constant):
    """Annotation of a parameter of `match_pattern`: the result must be a constant with one element."""


class Optional:
    """Annotation of a parameter of `match_pattern`: the input may be left out; it is then captured as ``""``."""


@dataclass(slots=True, eq=False)
class Symbol:
    """A result in a pattern.

    Attributes:
        index: register that holds the name of the matching result.
        name: parameter of `match_pattern` it stands for, empty for results in between.
        producer: pattern node that makes it.
        literal: value that it must have.
        kind: annotation of the parameter.
    """

    index: int
    name: str = ""
    producer: PatternNode | None = None
    literal: Any = None
    kind: type | None = None


@dataclass(slots=True, eq=False)
class PatternNode:
    """A node in a pattern."""

    index: int
    op_type: str
    domain: str
    inputs: list[Symbol | None]
    outputs: list[Symbol]
    attributes: dict[str, Any]
    others: Any
    line: int = 0


@dataclass(slots=True)
class Trace:
    """One variant of a pattern: its nodes in the order of the calls, and what it returns."""

    nodes: list[PatternNode] = field(default_factory=list)
    symbols: list[Symbol] = field(default_factory=list)
    outputs: list[Symbol] = field(default_factory=list)
    options: dict[str, bool] = field(default_factory=dict)
    file: str = ""


class PatternBuilder:
    """The ``g`` of `match_pattern`: ``g.op.Add(x, y)`` adds a node to the pattern and returns its result.

    Operands are results, numbers or arrays (a constant of that value, in any form in which a model can store it), or
    ``None`` for an input that must be absent. Attributes are values, `AnyOf`, `ANY`, predicates, or ``g.capture("name")``;
    one that is not mentioned must have its schema's default. What became an input in later operator sets (``axes`` of
    ReduceMean, ``min`` of Clip, ...) is written as an attribute.
    """

    ANY = ANY

    def __init__(self, choices: Sequence[bool]) -> None:
        self.trace = Trace()
        self._choices = list(choices)
        self.op = _Ops(self)

    def option(self, name: str) -> bool:
        """A choice: the pattern is tried with both answers. ``if g.option("bias"): y = g.op.Add(y, b)``."""
        if name not in self.trace.options:
            position = len(self.trace.options)
            if position == len(self._choices):
                self._choices.append(True)
            self.trace.options[name] = self._choices[position]
        return self.trace.options[name]

    def capture(self, name: str, predicate: Callable[[Any], bool] | None = None, *, optional: bool = False) -> Capture:
        """An attribute of any value (that satisfies the predicate), to be used in `validate_mapping` and `apply_pattern`."""
        return Capture(name, predicate, optional)

    def any_of(self, *values: Any) -> AnyOf:
        """An attribute with one of several values."""
        return AnyOf(values)

    def symbol(self, name: str = "", kind: type | None = None, literal: Any = None) -> Symbol:
        """A new result of the pattern."""
        found = Symbol(len(self.trace.symbols), name, None, literal, kind)
        self.trace.symbols.append(found)
        return found

    def add(self, op_type: str, operands: Sequence[Any], outputs: int, domain: str, attributes: dict[str, Any]) -> Any:
        """Add a node to the pattern."""
        inputs = [self._operand(operand) for operand in operands]
        others = attributes.pop("attributes", None)
        line = sys._getframe(2).f_lineno
        node = PatternNode(len(self.trace.nodes), op_type, domain, inputs, [], attributes, others, line)
        for _ in range(outputs):
            result = self.symbol()
            result.producer = node
            node.outputs.append(result)
        self.trace.nodes.append(node)
        return node.outputs[0] if outputs == 1 else tuple(node.outputs)

    def _operand(self, operand: Any) -> Symbol | None:
        if operand is None or isinstance(operand, Symbol):
            return operand
        if isinstance(operand, np.generic):
            operand = operand.item()
        if isinstance(operand, (bool, int, float, list, tuple, np.ndarray)):
            literal = operand if isinstance(operand, (bool, int, float)) else np.asarray(operand)
            return self.symbol(literal=literal)
        raise TypeError(f"{operand!r} cannot be an operand of a pattern")


class _Ops:
    def __init__(self, builder: PatternBuilder) -> None:
        self._builder = builder

    def __getattr__(self, op_type: str) -> Callable[..., Any]:
        if op_type.startswith("__"):
            raise AttributeError(op_type)

        def call(*operands: Any, outputs: int = 1, domain: str = "", **attributes: Any) -> Any:
            return self._builder.add(op_type, operands, outputs, domain, attributes)

        return call


_KINDS: dict[str, type] = {kind.__name__: kind for kind in (Constant, Scalar, Optional)}


def trace(function: Callable[..., Any]) -> list[Trace]:
    """All variants of a pattern: one for each combination of answers to `PatternBuilder.option`.

    Args:
        function: the bound method `match_pattern`.
    """
    parameters = list(inspect.signature(function).parameters.values())[1:]
    variants: list[Trace] = []
    pending: list[list[bool]] = [[]]
    while pending:
        choices = pending.pop()
        builder = PatternBuilder(choices)
        symbols = [builder.symbol(p.name, _kind(p.annotation)) for p in parameters]
        results = function(builder, *symbols)
        found = builder.trace
        found.outputs = list(results) if isinstance(results, (tuple, list)) else [results]
        found.file = function.__code__.co_filename
        variants.append(found)
        answers = list(found.options.values())
        # The other answer to each question that this run was the first to ask.
        pending += [[*answers[:position], False] for position in reversed(range(len(choices), len(answers)))]
    return variants


def _kind(annotation: Any) -> type | None:
    if isinstance(annotation, str):
        return _KINDS.get(annotation.rpartition(".")[2])
    return annotation if annotation in _KINDS.values() else None
