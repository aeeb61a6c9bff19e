"""Run a program against a graph: bidirectional from the anchor, with backtracking over operand orders and consumers."""

from __future__ import annotations

from typing import Any

import numpy as np

from xoptim.facts.attributes import AttributeReference, same_attribute
from xoptim.facts.schema import attribute_default
from xoptim.graph.node import Node
from xoptim.match.moved import moved_inputs, read_moved
from xoptim.match.program import Program, Step, operand_orders
from xoptim.match.refusal import Refusal, listener
from xoptim.match.trace import ANY, AnyOf, Capture, Constant, Optional, PatternNode, Scalar, Symbol
from xoptim.match.view import GraphBuilderPatternOptimization, equals_literal

_BROADCASTING = frozenset(
    (
        *("Add", "Sub", "Mul", "Div", "Pow", "Mod", "Max", "Min", "Sum", "Mean", "Where", "PRelu", "And", "Or", "Xor", "Equal"),
        *("Greater", "GreaterOrEqual", "Less", "LessOrEqual", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitShift"),
    )
)
UNIFORM_LIMIT = 1 << 14
"""A constant of up to this many elements, all equal, may stand for a number."""


class Attempt:
    """One attempt to find a program at one node.

    Attributes:
        names: result name in each register, ``None`` while unknown.
        nodes: graph node of each pattern node.
        attributes: captured attributes.
        reason: first condition that failed on the way that led furthest; kept only when somebody listens.
    """

    __slots__ = ("_furthest", "_listen", "attributes", "g", "names", "nodes", "pattern", "program")

    def __init__(self, program: Program, g: GraphBuilderPatternOptimization, pattern: str) -> None:
        self.program = program
        self.g = g
        self.pattern = pattern
        self.names: list[str | None] = [None] * program.size
        self.nodes: list[Node | None] = [None] * len(program.trace.nodes)
        self.attributes: dict[str, Any] = {}
        self._listen = listener()
        self._furthest: Refusal | None = None

    def run(self, anchor: Node) -> bool:
        """Try to match; on success the registers are filled."""
        wanted = self.program.anchor
        found = self._bind(wanted, anchor, 0) and self._steps(0)
        if not found and self._listen is not None and self._furthest is not None:
            self._listen(self._furthest)
        return found

    def _steps(self, position: int) -> bool:
        steps = self.program.steps
        while position < len(steps):
            step = steps[position]
            position += 1
            if step.kind == "inputs":
                orders = operand_orders(step.node)
                if len(orders) == 1:
                    if not self._operands(step.node, orders[0], position):
                        return False
                    continue
                return any(self._branch(step, order, position) for order in orders)
            assert step.symbol is not None
            name = self.names[step.symbol.index]
            assert name is not None
            if step.kind == "up":
                node = self.g.graph.producer(name)
                if node is None:
                    return self._refuse(position, None, f"{name!r} is not produced by {step.node.op_type}", step.node)
                if not self._bind(step.node, node, position):
                    return False
                continue
            return any(self._try_consumer(step, node, position) for node in self.g.graph.consumers(name))
        return True

    def _branch(self, step: Step, order: tuple[int, ...], position: int) -> bool:
        saved = self.names[:], self.nodes[:], dict(self.attributes)
        if self._operands(step.node, order, position) and self._steps(position):
            return True
        self.names, self.nodes, self.attributes = saved
        return False

    def _try_consumer(self, step: Step, node: Node, position: int) -> bool:
        saved = self.names[:], self.nodes[:], dict(self.attributes)
        if self._bind(step.node, node, position) and self._steps(position):
            return True
        self.names, self.nodes, self.attributes = saved
        return False

    def _bind(self, wanted: PatternNode, node: Node, position: int) -> bool:
        """Pair a pattern node with a graph node: operator, attributes, results."""
        if node.op_type != wanted.op_type or node.domain != wanted.domain:
            return self._refuse(position, node, f"{wanted.op_type} expected, {node.op_type} found", wanted)
        if node in self.nodes:
            return self._refuse(position, node, "the same node cannot play two parts", wanted)
        if len(node.output) < len(wanted.outputs):
            return self._refuse(position, node, f"{len(wanted.outputs)} results expected", wanted)
        if not self._attributes(wanted, node, position):
            return False
        self.nodes[wanted.index] = node
        return all(
            self._unify(symbol, name, wanted, node, position) for symbol, name in zip(wanted.outputs, node.output, strict=False)
        )

    def _operands(self, wanted: PatternNode, order: tuple[int, ...], position: int) -> bool:
        node = self.nodes[wanted.index]
        assert node is not None
        inputs = node.input
        count = len(wanted.inputs)
        if len(inputs) > count:
            moved = moved_inputs(node.op_type, node.opset) if not node.domain else {}
            extra = [i for i in range(count, len(inputs)) if inputs[i] and i not in moved.values()]
            if extra:
                return self._refuse(position, node, f"{count} operands expected, {len(inputs)} found", wanted)
        for place, symbol in zip(order, wanted.inputs, strict=True):
            name = inputs[place] if place < len(inputs) else ""
            if symbol is None:
                if name:
                    return self._refuse(position, node, f"operand {place} must be absent", wanted)
            elif not self._unify(symbol, name, wanted, node, position):
                return False
        return True

    def _unify(self, symbol: Symbol, name: str, wanted: PatternNode, node: Node, position: int) -> bool:
        """Pair a result of the pattern with one of the graph; a result stands for one name only."""
        known = self.names[symbol.index]
        if known is not None:
            return known == name or self._refuse(position, node, f"{known!r} expected, {name!r} found", wanted)
        if symbol.literal is not None:
            if not name or not self._is_literal(name, symbol.literal):
                return self._refuse(position, node, f"{name!r} is not the constant {symbol.literal!r}", wanted)
        elif symbol.kind is not None:
            if symbol.kind is Scalar and self.g.get_constant_scalar(name) is None:
                return self._refuse(position, node, f"{name!r} is not a constant with one element", wanted)
            if symbol.kind is Constant and not self.g.is_constant(name):
                return self._refuse(position, node, f"{name!r} is not constant", wanted)
            if not name and symbol.kind is not Optional:
                return self._refuse(position, node, "an operand is missing", wanted)
        elif not name and symbol.producer is None:
            return self._refuse(position, node, "an operand is missing", wanted)
        if name and (symbol.literal is not None or symbol.kind is Scalar) and not self._keeps_shape(node, name):
            return self._refuse(position, node, f"{name!r} may change the shape of the result", wanted)
        self.names[symbol.index] = name
        return True

    def _is_literal(self, name: str, literal: Any) -> bool:
        tensor = self.g.graph.tensor(name)
        if tensor is not None and tensor.size > UNIFORM_LIMIT:
            return False
        array = self.g.get_computed_constant(name)
        if array is None:
            return False
        if not isinstance(literal, np.ndarray):
            return array.size > 0 and bool((array == array.flat[0]).all()) and equals_literal(array.flat[0], literal)
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
                return self._refuse(position, node, f"attribute {name} does not fit", wanted)
        others = wanted.others
        if others is None:
            for name, value in node.attribute.items():
                if name not in wanted.attributes and not self._is_default(node, name, value):
                    return self._refuse(position, node, f"attribute {name}={value!r} is not its default", wanted)
        elif isinstance(others, Capture):
            if any(isinstance(v, AttributeReference) for v in node.attribute.values()) or node.bodies:
                return self._refuse(position, node, "attributes cannot be captured", wanted)
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
