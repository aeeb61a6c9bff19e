"""Run a program against a graph: bidirectional from the anchor, with backtracking over operand orders and consumers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

import numpy as np

from xoptim.facts.attributes import AttributeReference, same_attribute
from xoptim.facts.schema import attribute_default
from xoptim.graph.node import Node
from xoptim.graph.tensors import UNIFORM_LIMIT
from xoptim.match.moved import MOVED_DEFAULTS, moved_inputs, read_moved
from xoptim.match.program import Program, Step
from xoptim.match.refusal import Refusal, listener
from xoptim.match.result import MatchResult
from xoptim.match.trace import ANY, AnyOf, Capture, Constant, Optional, PatternNode, Scalar, Symbol
from xoptim.match.view import GraphBuilderPatternOptimization, equals_literal

_BROADCASTING = frozenset(
    (
        *("Add", "Sub", "Mul", "Div", "Pow", "Mod", "Max", "Min", "Sum", "Mean", "Where", "PRelu", "And", "Or", "Xor", "Equal"),
        *("Greater", "GreaterOrEqual", "Less", "LessOrEqual", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitShift"),
    )
)

Accept: TypeAlias = "Callable[[Attempt], MatchResult | None]"


class Attempt:
    """One attempt to find a program at one node.

    Attributes:
        names: result name in each register, ``None`` while unknown.
        nodes: graph node of each pattern node.
        attributes: captured attributes.
        reason: first condition that failed on the way that led furthest; kept only when somebody listens.
    """

    __slots__ = ("_accept", "_furthest", "_heard", "_listen", "attributes", "g", "names", "nodes", "pattern", "program")

    def __init__(self, program: Program, g: GraphBuilderPatternOptimization, pattern: str) -> None:
        self.program = program
        self.g = g
        self.pattern = pattern
        self.names: list[str | None] = [None] * program.size
        self.nodes: list[Node | None] = [None] * len(program.trace.nodes)
        self.attributes: dict[str, Any] = {}
        self._listen = listener()
        self._heard = self._listen is not None
        """Reasons are put into words only then."""
        self._furthest: Refusal | None = None

    def run(self, anchor: Node, accept: Accept) -> MatchResult | None:
        """Search for an assignment that ``accept`` takes.

        Args:
            anchor: where to start.
            accept: called with this attempt when everything fits and the registers are filled; what it refuses makes the
                search go on.
        """
        self._accept = accept
        found = self._steps(0) if self._bind(self.program.anchor, anchor, 0) else None
        if found is None and self._listen is not None and self._furthest is not None:
            self._listen(self._furthest)
        return found

    def _steps(self, position: int) -> MatchResult | None:
        steps = self.program.steps
        while position < len(steps):
            step = steps[position]
            position += 1
            if step.kind == "inputs":
                if len(step.orders) > 1:
                    return self._first(step, position, step.orders, self._operands)
                if not self._operands(step.node, step.orders[0], position):
                    return None
                continue
            assert step.symbol is not None
            name = self.names[step.symbol.index]
            assert name is not None
            if step.kind == "down":
                return self._first(step, position, self.g.graph.consumers(name), self._bind)
            node = self.g.graph.producer(name)
            if node is None:
                if self._heard:
                    self._refuse(position, None, f"{name!r} is not produced by {step.node.op_type}", step.node)
                return None
            if not self._bind(step.node, node, position):
                return None
        self._listen = None  # no other way leads further than to a validation, which says itself what it refuses
        return self._accept(self)

    def _first(
        self, step: Step, position: int, choices: Iterable[Any], fits: Callable[[PatternNode, Any, int], bool]
    ) -> MatchResult | None:
        """The first of several choices with which the rest of the program succeeds."""
        names, nodes, attributes = self.names, self.nodes, self.attributes
        for choice in choices:
            self.names, self.nodes, self.attributes = names[:], nodes[:], dict(attributes)
            if fits(step.node, choice, position):
                found = self._steps(position)
                if found is not None:
                    return found
        self.names, self.nodes, self.attributes = names, nodes, attributes
        return None

    def _bind(self, wanted: PatternNode, node: Node, position: int) -> bool:
        """Pair a pattern node with a graph node: operator, attributes, results."""
        if node.op_type != wanted.op_type or node.domain != wanted.domain:
            return self._heard and self._refuse(position, node, f"{wanted.op_type} expected, {node.op_type} found", wanted)
        if node in self.nodes:
            return self._heard and self._refuse(position, node, "the same node cannot play two parts", wanted)
        if len(node.output) < len(wanted.outputs):
            return self._heard and self._refuse(position, node, f"{len(wanted.outputs)} results expected", wanted)
        if not self._attributes(wanted, node, position):
            return False
        self.nodes[wanted.index] = node
        for symbol, name in zip(wanted.outputs, node.output, strict=False):
            known = self.names[symbol.index]
            if known is None:
                self.names[symbol.index] = name
            elif known != name:
                return self._heard and self._refuse(position, node, f"{known!r} expected, {name!r} found", wanted)
        return True

    def _operands(self, wanted: PatternNode, order: tuple[int, ...], position: int) -> bool:
        node = self.nodes[wanted.index]
        assert node is not None
        inputs = node.input
        count = len(wanted.inputs)
        if len(inputs) > count:
            moved = moved_inputs(node.op_type, node.opset) if not node.domain else {}
            for place in range(count, len(inputs)):
                if inputs[place] and not self._may_be_unnamed(wanted, node, moved.get(place, ""), inputs[place]):
                    return self._heard and self._refuse(
                        position, node, f"{count} operands expected, {len(inputs)} found", wanted
                    )
        for place, symbol in zip(order, wanted.inputs, strict=True):
            name = inputs[place] if place < len(inputs) else ""
            if symbol is None:
                if name:
                    return self._heard and self._refuse(position, node, f"operand {place} must be absent", wanted)
            elif not self._unify(symbol, name, wanted, node, position):
                return False
        return True

    def _may_be_unnamed(self, wanted: PatternNode, node: Node, attribute: str, name: str) -> bool:
        """Whether an operand that the pattern does not list is an attribute that it speaks of, or that has its default."""
        if not attribute or wanted.others is ANY or attribute in wanted.attributes:
            return bool(attribute)
        default = MOVED_DEFAULTS.get((node.op_type, attribute))
        return default is not None and self.g.close(name, default)

    def _unify(self, symbol: Symbol, name: str, wanted: PatternNode, node: Node, position: int) -> bool:
        """Pair a result of the pattern with one of the graph; a result stands for one name only."""
        known = self.names[symbol.index]
        if known is not None:
            return known == name or (
                self._heard and self._refuse(position, node, f"{known!r} expected, {name!r} found", wanted)
            )
        if symbol.literal is not None:
            if not name or not self._is_literal(name, symbol.literal):
                return self._heard and self._refuse(position, node, f"{name!r} is not the constant {symbol.literal!r}", wanted)
        elif symbol.kind is None:
            if not name and symbol.producer is None:
                return self._heard and self._refuse(position, node, "an operand is missing", wanted)
            self.names[symbol.index] = name
            return True
        else:
            if symbol.kind is Scalar and self.g.get_constant_scalar(name) is None:
                return self._heard and self._refuse(position, node, f"{name!r} is not a constant with one element", wanted)
            if symbol.kind is Constant and not self.g.is_constant(name):
                return self._heard and self._refuse(position, node, f"{name!r} is not constant", wanted)
            if not name and symbol.kind is not Optional:
                return self._heard and self._refuse(position, node, "an operand is missing", wanted)
        if name and (symbol.literal is not None or symbol.kind is Scalar) and not self._keeps_shape(node, name):
            return self._heard and self._refuse(position, node, f"{name!r} may change the shape of the result", wanted)
        self.names[symbol.index] = name
        return True

    def _is_literal(self, name: str, literal: Any) -> bool:
        tensor = self.g.graph.tensor(name)
        if tensor is not None and not isinstance(literal, np.ndarray):
            value = tensor.uniform()
            return value is not None and equals_literal(value, literal)
        array = self.g.get_computed_constant(name)
        if array is None or not 0 < array.size <= UNIFORM_LIMIT:
            return False
        if not isinstance(literal, np.ndarray):
            return bool((array == array.flat[0]).all()) and equals_literal(array.ravel()[:1], literal)
        if array.shape != literal.shape:
            return False
        return all(equals_literal(a, b.item()) for a, b in zip(array.ravel(), literal.ravel(), strict=True))

    def _keeps_shape(self, node: Node, name: str) -> bool:
        """Whether another operand alone decides the shape of the result, so that a constant may be taken for a number."""
        shape = self.g.info(name).shape
        if shape == () or node.op_type not in _BROADCASTING:
            return True
        others = [self.g.info(other).shape for other in node.input if other and other != name]
        if shape is None:
            return False
        if all(d == 1 for d in shape):
            return any(other is not None and len(other) >= len(shape) for other in others)
        result = self.g.info(node.output[0]).shape
        return result is not None and result in others

    def _attributes(self, wanted: PatternNode, node: Node, position: int) -> bool:
        for name, expected in wanted.attributes.items():
            if expected is not ANY and not self._attribute(name, expected, node):
                return self._heard and self._refuse(position, node, f"attribute {name} does not fit", wanted)
        others = wanted.others
        if others is None:
            for name, value in node.attribute.items():
                if name not in wanted.attributes and not self._is_default(node, name, value):
                    return self._heard and self._refuse(
                        position, node, f"attribute {name}={value!r} is not its default", wanted
                    )
        elif isinstance(others, Capture):
            if any(isinstance(v, AttributeReference) for v in node.attribute.values()) or node.bodies:
                return self._heard and self._refuse(position, node, "attributes cannot be captured", wanted)
            self.attributes[others.name] = {k: v for k, v in node.attribute.items() if k not in wanted.attributes}
        return True

    def _attribute(self, name: str, expected: Any, node: Node) -> bool:
        value = read_moved(self.g.graph, node, name)
        if isinstance(value, AttributeReference):
            return False
        if isinstance(expected, Capture):
            if value is None and not expected.optional:
                return False
            if expected.predicate is not None and not expected.predicate(value):
                return False
            if expected.name in self.attributes:
                return same_attribute(self.attributes[expected.name], value)
            self.attributes[expected.name] = value
            return True
        if isinstance(expected, AnyOf):
            return any(same_attribute(value, choice) for choice in expected.values)
        if callable(expected):
            return bool(expected(value))
        return value is None if expected is None else same_attribute(value, expected)

    def _is_default(self, node: Node, name: str, value: Any) -> bool:
        rank = self.g.info(node.input[0]).rank if node.input and node.input[0] else None
        default = attribute_default(node.op_type, node.domain, node.opset, name, rank, node.attribute.get("kernel_shape"))
        return default is not None and same_attribute(value, default)

    def _refuse(self, position: int, node: Node | None, reason: str, wanted: PatternNode) -> bool:
        if self._listen is not None and (self._furthest is None or self._furthest.progress < position):
            self._furthest = Refusal(self.pattern, node, reason, self.program.trace.file, wanted.line, position)
        return False
