"""Run a program against a graph: bidirectional from the anchor, with backtracking over operand orders and consumers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice, permutations
from typing import Any, TypeAlias

import numpy as np

from xoptim.facts.attributes import AttributeReference, same_attribute
from xoptim.facts.schema import attribute_default, is_commutative
from xoptim.graph.node import Node
from xoptim.graph.tensors import UNIFORM_LIMIT
from xoptim.match.moved import MOVED_DEFAULTS, moved_inputs, read_moved
from xoptim.match.program import Program, Step
from xoptim.match.refusal import Refusal, listener
from xoptim.match.result import MatchResult
from xoptim.match.trace import ANY, AnyOf, Capture, Constant, Optional, PatternNode, Scalar, Symbol, Variadic
from xoptim.match.view import GraphBuilderPatternOptimization, equals_literal

_BROADCASTING = frozenset(
    (
        *("Add", "Sub", "Mul", "Div", "Pow", "Mod", "Max", "Min", "Sum", "Mean", "Where", "PRelu", "And", "Or", "Xor", "Equal"),
        *("Greater", "GreaterOrEqual", "Less", "LessOrEqual", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitShift"),
    )
)

_MOST_ORDERS = 720
"""Orders of many operands that are tried, the given one first: all of those of six."""
Accept: TypeAlias = "Callable[[Attempt], MatchResult | None]"


class Attempt:
    """One attempt to find a program at one node.

    Attributes:
        names: result name in each register, ``None`` while unknown.
        nodes: graph node of each pattern node.
        extra: further graph nodes, of trees of an associative operator.
        attributes: captured attributes, and captured lists of results.
    """

    __slots__ = (
        "_accept",
        "_furthest",
        "_heard",
        "_listen",
        "_waived",
        "attributes",
        "extra",
        "g",
        "names",
        "nodes",
        "pattern",
        "program",
    )

    def __init__(self, program: Program, g: GraphBuilderPatternOptimization, pattern: str) -> None:
        self.program = program
        self.g = g
        self.pattern = pattern
        self.names: list[str | None] = [None] * program.size
        self.nodes: list[Node | None] = [None] * len(program.trace.nodes)
        self.extra: list[Node] = []
        self.attributes: dict[str, Any] = {}
        self._listen = listener()
        self._heard = self._listen is not None
        """Reasons are put into words only then."""
        self._furthest: Refusal | None = None
        self._waived: Refusal | None = None
        """The first condition that failed on this way; one is let pass, to see how much else would fit."""

    def run(self, anchor: Node, accept: Accept) -> MatchResult | None:
        """Search for an assignment that ``accept`` takes.

        Args:
            anchor: where to start.
            accept: called with this attempt when everything fits and the registers are filled; what it refuses makes the
                search go on.
        """
        self._accept = accept
        found = self._steps(0) if self._bind(self.program.anchor, anchor) else None
        if found is None and self._listen is not None and self._furthest is not None:
            self._listen(self._furthest)
        return found

    # ---------------------------------------------------------------- search

    def _steps(self, position: int) -> MatchResult | None:
        steps = self.program.steps
        while position < len(steps):
            step = steps[position]
            position += 1
            if step.kind == "inputs":
                if len(step.orders) == 1:
                    if not self._operands(step.node, step.orders[0]):
                        return None
                    continue
                return self._first(step, position, step.orders or self._orders(step.node), self._operands)
            if step.kind == "terms":
                return self._first(step, position, self._trees(step.node), self._terms)
            assert step.symbol is not None
            name = self._name(step.symbol)
            if step.kind == "down":
                readers = self._readers(name, step.node)
                if self._heard and not readers:
                    self._refuse(None, f"nothing reads {name!r}", step.node, name)
                return self._first(step, position, readers, self._bind)
            node = self.g.graph.producer(name)
            if node is None:
                if self._heard:
                    self._refuse(None, f"{name!r} is not produced by {step.node.op_type}", step.node, name)
                return None
            if not self._bind(step.node, node):
                return None
        if self._waived is not None:
            self._refuse(None, "", self.program.anchor)
            return None
        self._listen = None  # no other way leads further than to a validation, which says itself what it refuses
        return self._accept(self)

    def _first(
        self, step: Step, position: int, choices: Iterable[Any], fits: Callable[[PatternNode, Any], bool]
    ) -> MatchResult | None:
        """The first of several choices with which the rest of the program succeeds."""
        names, nodes, extra, attributes, waived = self.names, self.nodes, self.extra, self.attributes, self._waived
        for choice in choices:
            self.names, self.nodes, self.extra, self.attributes = names[:], nodes[:], extra[:], dict(attributes)
            self._waived = waived
            if fits(step.node, choice):
                found = self._steps(position)
                if found is not None:
                    return found
        self.names, self.nodes, self.extra, self.attributes, self._waived = names, nodes, extra, attributes, waived
        return None

    def _name(self, symbol: Symbol) -> str:
        """The result, or the first of the results, that a symbol stands for."""
        if symbol.kind is Variadic:
            listed: tuple[str, ...] = self.attributes[symbol.name]
            return listed[0] if listed else ""
        name = self.names[symbol.index]
        assert name is not None
        return name

    def _orders(self, wanted: PatternNode) -> Iterable[tuple[int, ...]]:
        """Orders of operands that depend on how many there are: which of them the pattern names, and those left at the end."""
        node = self.nodes[wanted.index]
        assert node is not None
        places = range(len(node.input))
        orders: Iterable[tuple[int, ...]]
        if wanted.variadic < 0:
            orders = permutations(places) if len(places) == len(wanted.inputs) else (tuple(range(len(wanted.inputs))),)
        else:
            firsts = permutations(places, len(wanted.inputs) - 1)
            orders = ((*first, *(p for p in places if p not in first)) for first in firsts)
        return islice(orders, _MOST_ORDERS)

    def _readers(self, name: str, wanted: PatternNode) -> Collection[Node]:
        """Nodes that read a result, directly or, for an associative operator, within a tree of such nodes."""
        readers = self.g.graph.consumers(name)
        if not wanted.associative:
            return readers
        found = dict.fromkeys(readers)
        edge = list(found)
        for _ in range(len(wanted.inputs) - 2):
            tree = [n for n in edge if n.op_type == wanted.op_type and n.domain == wanted.domain]
            edge = [reader for n in tree for reader in self.g.graph.consumers(n.output[0]) if reader not in found]
            found.update(dict.fromkeys(edge))
        return found

    def _trees(self, wanted: PatternNode) -> Iterator[tuple[tuple[str, ...], tuple[Node, ...]]]:
        """The operands, in all orders, of all trees of the operator with as many operands as the pattern has."""
        root = self.nodes[wanted.index]
        assert root is not None
        count = len(wanted.inputs)
        pending: list[tuple[tuple[str, ...], tuple[Node, ...], int]] = [(root.input, (), 0)]
        while pending:
            leaves, inner, start = pending.pop()
            if len(leaves) == count:
                yield from ((order, inner) for order in permutations(leaves))
            for place in range(len(leaves) - 1, start - 1, -1):
                node = self.g.graph.producer(leaves[place])
                if (
                    node is not None
                    and node.op_type == wanted.op_type
                    and node.domain == wanted.domain
                    and node not in inner
                    and len(leaves) - 1 + len(node.input) <= count
                ):
                    pending.append(((*leaves[:place], *node.input, *leaves[place + 1 :]), (*inner, node), place))
        if self._heard and len(root.input) <= count:
            self._refuse(root, f"no tree of {wanted.op_type} with {count} operands", wanted)

    # ---------------------------------------------------------------- conditions

    def _bind(self, wanted: PatternNode, node: Node) -> bool:
        """Pair a pattern node with a graph node: operator, attributes, results."""
        if node.op_type != wanted.op_type or node.domain != wanted.domain:
            reason = f"{wanted.op_type} expected, {node.op_type} found" if self._heard else ""
            if not self._heard or not self._refuse(node, reason, wanted, waive=node not in self.nodes):
                return False
        elif node in self.nodes or node in self.extra:
            return self._heard and self._refuse(node, "the same node cannot play two parts", wanted)
        elif not self._attributes(wanted, node):
            return False
        last = wanted.outputs[-1] if wanted.outputs else None
        fixed = wanted.outputs
        if last is not None and last.kind is Variadic:
            fixed = wanted.outputs[:-1]
            if not self._unify_list(last, node.output[len(fixed) :], wanted, node):
                return False
        if len(node.output) < len(fixed):
            return self._heard and self._refuse(node, f"{len(fixed)} results expected", wanted)
        self.nodes[wanted.index] = node
        for symbol, name in zip(fixed, node.output, strict=False):
            known = self.names[symbol.index]
            if known is None:
                self.names[symbol.index] = name
            elif known != name:
                self.nodes[wanted.index] = None
                return self._heard and self._refuse(node, f"{known!r} expected, {name!r} found", wanted, known, name)
        return True

    def _operands(self, wanted: PatternNode, order: tuple[int, ...]) -> bool:
        node = self.nodes[wanted.index]
        assert node is not None
        inputs = node.input
        count = len(wanted.inputs)
        variadic = wanted.variadic
        if variadic >= 0:
            return self._operands_and_list(wanted, node, order, variadic)
        if len(inputs) > count:
            moved = moved_inputs(node.op_type, node.opset) if not node.domain else {}
            for place in range(count, len(inputs)):
                if inputs[place] and not self._may_be_unnamed(wanted, node, moved.get(place, ""), inputs[place]):
                    reason = f"{count} operands expected, {len(inputs)} found" if self._heard else ""
                    if not self._heard or not self._refuse(node, reason, wanted, waive=True):
                        return False
        for place, symbol in zip(order, wanted.inputs, strict=True):
            name = inputs[place] if place < len(inputs) else ""
            if symbol is None:
                if name and not (
                    self._heard and self._refuse(node, f"operand {place} must be absent", wanted, name, waive=True)
                ):
                    return False
            elif not self._unify(symbol, name, wanted, node):
                return False
        return True

    def _operands_and_list(self, wanted: PatternNode, node: Node, order: tuple[int, ...], variadic: int) -> bool:
        """Compare operands, one symbol taking all that the others leave."""
        named = len(wanted.inputs) - 1
        if len(node.input) < named:
            return self._heard and self._refuse(node, f"at least {named} operands expected, {len(node.input)} found", wanted)
        if not _has_all_orders(wanted):
            behind = len(node.input) - (named - variadic)
            places = range(len(node.input))
            order = (*places[:variadic], *places[behind:], *places[variadic:behind])
        symbols = [symbol for symbol in wanted.inputs if symbol is None or symbol.kind is not Variadic]
        for place, symbol in zip(order, symbols, strict=False):
            name = node.input[place]
            if symbol is None:
                if name:
                    return self._heard and self._refuse(node, f"operand {place} must be absent", wanted, name)
            elif not self._unify(symbol, name, wanted, node):
                return False
        rest = wanted.inputs[variadic]
        assert rest is not None
        return self._unify_list(rest, tuple(node.input[place] for place in order[named:]), wanted, node)

    def _terms(self, wanted: PatternNode, tree: tuple[tuple[str, ...], tuple[Node, ...]]) -> bool:
        """Compare the operands of a tree of an associative operator."""
        leaves, inner = tree
        node = self.nodes[wanted.index]
        assert node is not None
        if any(n in self.nodes or n in self.extra or not self._attributes(wanted, n) for n in inner):
            return False
        for place, (symbol, name) in enumerate(zip(wanted.inputs, leaves, strict=True)):
            assert symbol is not None
            if not self._unify(symbol, name, wanted, node, (*leaves[:place], *leaves[place + 1 :])):
                return False
        self.extra += inner
        return True

    def _may_be_unnamed(self, wanted: PatternNode, node: Node, attribute: str, name: str) -> bool:
        """Whether an operand that the pattern does not list is an attribute that it speaks of, or that has its default."""
        if not attribute or wanted.others is ANY or attribute in wanted.attributes:
            return bool(attribute)
        default = MOVED_DEFAULTS.get((node.op_type, attribute))
        return default is not None and self.g.close(name, default)

    def _unify(self, symbol: Symbol, name: str, wanted: PatternNode, node: Node, beside: Sequence[str] | None = None) -> bool:
        """Pair a result of the pattern with one of the graph; a result stands for one name only.

        Args:
            symbol: of the pattern.
            name: in the graph.
            wanted: the pattern node that reads it.
            node: the node that reads it.
            beside: the other operands; those of the node when not given.
        """
        known = self.names[symbol.index]
        if known is not None:
            return known == name or (
                self._heard and self._refuse(node, f"{known!r} expected, {name!r} found", wanted, known, name, waive=True)
            )
        if symbol.kind is None and symbol.literal is None:
            if not name and symbol.producer is None:
                return self._heard and self._refuse(node, "an operand is missing", wanted)
            self.names[symbol.index] = name
            return True
        if symbol.kind is Variadic:
            return self._heard and self._refuse(node, f"{symbol.name!r} is a list of results, not one", wanted)
        reason = self._unsuitable(symbol, name)
        if reason:
            return self._heard and self._refuse(node, reason, wanted, name, near=self.g.is_constant(name), waive=True)
        if name and (symbol.literal is not None or symbol.kind is Scalar):
            others = [other for other in node.input if other and other != name] if beside is None else beside
            if not self._keeps_shape(node, name, others):
                reason = f"{name!r} may change the shape of the result" if self._heard else ""
                return self._heard and self._refuse(node, reason, wanted, name, waive=True)
        self.names[symbol.index] = name
        return True

    def _unsuitable(self, symbol: Symbol, name: str) -> str:
        """Why a result is not what a literal or the annotation of a symbol asks for, empty when it is."""
        g = self.g
        if symbol.literal is not None:
            fits = bool(name) and self._is_literal(name, symbol.literal)
            return "" if fits else f"{name!r} is not the constant {symbol.literal!r}" if self._heard else "another value"
        if not name:
            return "" if symbol.kind is Optional else "an operand is missing"
        if symbol.kind is Scalar and g.get_constant_scalar(name) is None:
            return f"{name!r} is not a constant with one element"
        if symbol.kind is Constant and not g.is_constant(name):
            return f"{name!r} is not constant"
        if symbol.predicate is not None:
            value = g.get_constant_scalar(name) if symbol.kind is Scalar else g.get_computed_constant(name)
            if value is None or not symbol.predicate(value):
                return f"the value of {name!r} does not satisfy the condition on {symbol.name!r}"
        return ""

    def _unify_list(self, symbol: Symbol, names: tuple[str, ...], wanted: PatternNode, node: Node) -> bool:
        """Pair a symbol that stands for several results with those that are left."""
        known = self.attributes.get(symbol.name)
        if known is not None:
            return known == names or (self._heard and self._refuse(node, f"{known} expected, {names} found", wanted, *names))
        if len(names) < symbol.least:
            return self._heard and self._refuse(
                node, f"at least {symbol.least} results expected for {symbol.name!r}, {len(names)} found", wanted
            )
        if symbol.elements is Constant:
            variable = next((name for name in names if name and not self.g.is_constant(name)), None)
            if variable is not None:
                return self._heard and self._refuse(node, f"{variable!r} is not constant", wanted, variable)
        self.attributes[symbol.name] = names
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

    def _keeps_shape(self, node: Node, name: str, beside: Sequence[str]) -> bool:
        """Whether another operand alone decides the shape of the result, so that a constant may be taken for a number."""
        shape = self.g.info(name).shape
        if shape == () or node.op_type not in _BROADCASTING:
            return True
        others = [self.g.info(other).shape for other in beside]
        if shape is None:
            return False
        if all(d == 1 for d in shape):
            return any(other is not None and len(other) >= len(shape) for other in others)
        result = self.g.info(node.output[0]).shape
        return result is not None and result in others

    def _attributes(self, wanted: PatternNode, node: Node) -> bool:
        for name, expected in wanted.attributes.items():
            if expected is not ANY and not self._attribute(name, expected, node):
                found = read_moved(self.g.graph, node, name) if self._heard else None
                reason = f"attribute {name}={_shown(found)} does not fit"
                if not self._heard or not self._refuse(node, reason, wanted, near=True, waive=True):
                    return False
        others = wanted.others
        if others is None:
            for name, value in node.attribute.items():
                if name not in wanted.attributes and not self._is_default(node, name, value):
                    reason = f"attribute {name}={value!r} is not its default" if self._heard else ""
                    if not self._heard or not self._refuse(node, reason, wanted, near=True, waive=True):
                        return False
        elif isinstance(others, Capture):
            if any(isinstance(v, AttributeReference) for v in node.attribute.values()) or node.bodies:
                return self._heard and self._refuse(node, "attributes cannot be captured", wanted, near=True)
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
            return value is not None and bool(expected(value))
        return value is None if expected is None else same_attribute(value, expected)

    def _is_default(self, node: Node, name: str, value: Any) -> bool:
        rank = self.g.info(node.input[0]).rank if node.input and node.input[0] else None
        default = attribute_default(node.op_type, node.domain, node.opset, name, rank, node.attribute.get("kernel_shape"))
        return default is not None and same_attribute(value, default)

    def _refuse(
        self, node: Node | None, reason: str, wanted: PatternNode, *values: str, near: bool = False, waive: bool = False
    ) -> bool:
        """Remember the first condition that failed on this way, if no other way led further.

        Args:
            node: the node that does not fit.
            reason: why.
            wanted: the pattern node.
            *values: results that the condition is about.
            near: whether only a value is wrong, which is nearer than another operator.
            waive: whether the search may go on as if the condition held.

        Returns:
            Whether the search goes on: no condition has failed before. It then leads to no match.
        """
        if self._listen is None:
            return False
        trace = self.program.trace
        found = self._waived
        if found is None:
            found = Refusal(self.pattern, node, reason, trace.file, wanted.line, near, (), len(trace.nodes), values)
            if waive:
                self._waived = found
                return True
        bound = [n for n in self.nodes if n is not None]
        progress = 1000 * len(bound) + 2 * sum(name is not None for name in self.names) + found.progress
        if self._furthest is None or self._furthest.progress < progress:
            self._furthest = replace(found, progress=progress, matched=tuple(n for n in bound if n is not found.node))
        return False


def _has_all_orders(wanted: PatternNode) -> bool:
    """Whether the operands of a pattern node may stand in any order."""
    return wanted.any_order or is_commutative(wanted.op_type, wanted.domain)


def _shown(value: Any) -> str:
    return "(absent)" if value is None else "(not constant)" if isinstance(value, AttributeReference) else repr(value)
