"""Run a program against a graph: bidirectional from the anchor, with backtracking over operand orders and consumers.

An attempt returns a match or ``None``; `xoptim.match.near_miss` runs the same steps again to report why it failed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import islice, permutations
from typing import Any, TypeAlias

import numpy as np

from xoptim.facts.attributes import AttributeReference, same_attribute
from xoptim.facts.families import STRETCHING
from xoptim.facts.moved import MOVED_DEFAULTS, moved_inputs
from xoptim.facts.schema import attribute_default, is_commutative
from xoptim.graph.node import Node
from xoptim.graph.tensors import UNIFORM_LIMIT
from xoptim.match.moved import read_moved
from xoptim.match.program import Program, Step
from xoptim.match.refusal import Misfit
from xoptim.match.result import MatchResult
from xoptim.match.trace import ANY, AnyOf, Capture, Constant, Optional, PatternNode, Scalar, Symbol, Variadic
from xoptim.match.view import GraphBuilderPatternOptimization, equals_literal

_MOST_ORDERS = 720
"""Maximal number of orders of operands that are tried, the given one first: all orders of six operands."""
Examine: TypeAlias = "Callable[[Attempt], MatchResult | Misfit]"


class Attempt:
    """One attempt to find a program at one node.

    Args:
        program: the program to find.
        g: the view of the graph.
        examine: called with this attempt when all nodes fit one by one and the registers are filled; after a `Misfit` the
            search continues.

    Attributes:
        names: result name in each register, ``None`` until it is known.
        nodes: graph node of each pattern node.
        extra: the inner graph nodes of trees of an associative operator.
        attributes: captured attributes, and captured lists of results.
    """

    __slots__ = ("attributes", "examine", "extra", "g", "names", "nodes", "program")

    def __init__(self, program: Program, g: GraphBuilderPatternOptimization, examine: Examine) -> None:
        self.program = program
        self.g = g
        self.examine = examine
        self.names: list[str | None] = [None] * program.size
        self.nodes: list[Node | None] = [None] * program.count
        self.extra: list[Node] = []
        self.attributes: dict[str, Any] = {}

    def run(self, anchor: Node) -> MatchResult | None:
        """Search for an assignment that ``examine`` accepts, starting at a node."""
        return self._steps(0) if self._bind(self.program.anchor, anchor) else None

    @property
    def bound(self) -> list[Node]:
        """The graph nodes found so far, in the order of the pattern nodes, without those of trees."""
        return [node for node in self.nodes if node is not None]

    # ---------------------------------------------------------------- search

    def _steps(self, position: int) -> MatchResult | None:
        """Run the rest of the program."""
        for step in self.program.steps[position:]:
            position += 1
            wanted = step.node
            if step.kind == "inputs":
                orders = step.orders
                if not step.is_straight:
                    return self._first(step, position, orders or self._orders(wanted), self._operands)
                if not self._operands(wanted, orders[0]):
                    return None
            elif step.kind == "up":
                node = self._producer(self._name(step), wanted)
                if node is None or not self._bind(wanted, node):
                    return None
            elif step.kind == "down":
                return self._first(step, position, self._readers(self._name(step), wanted), self._bind)
            else:
                return self._first(step, position, self._trees(wanted), self._terms)
        return self._complete()

    def _first(
        self, step: Step, position: int, choices: Iterable[Any], fits: Callable[[PatternNode, Any], bool]
    ) -> MatchResult | None:
        """The match of the first of several choices with which the rest of the program succeeds."""
        names, nodes, extra, attributes = self.names, self.nodes, self.extra, self.attributes
        for choice in choices:
            self.names, self.nodes, self.extra, self.attributes = names[:], nodes[:], extra[:], attributes.copy()
            if fits(step.node, choice):
                found = self._steps(position)
                if found is not None:
                    return found
        self.names, self.nodes, self.extra, self.attributes = names, nodes, extra, attributes
        return None

    def _complete(self) -> MatchResult | None:
        """Examine the match as a whole, after all nodes fit one by one."""
        found = self.examine(self)
        return found if isinstance(found, MatchResult) else None

    def _name(self, step: Step) -> str:
        """The result, or the first of the results, from which a step continues; empty when there is none."""
        symbol = step.symbol
        assert symbol is not None
        if symbol.kind is Variadic:
            listed: tuple[str, ...] = self.attributes[symbol.name]
            return listed[0] if listed else ""
        return self.names[symbol.index] or ""

    def _orders(self, wanted: PatternNode) -> Iterable[tuple[int, ...]]:
        """Orders of operands that depend on their number: first those that the pattern lists, then the remaining ones."""
        places = range(len(self._found(wanted).input))
        orders: Iterable[tuple[int, ...]]
        if wanted.variadic < 0:
            orders = permutations(places) if len(places) == len(wanted.inputs) else (tuple(range(len(wanted.inputs))),)
        else:
            firsts = permutations(places, len(wanted.inputs) - 1)
            orders = ((*first, *(p for p in places if p not in first)) for first in firsts)
        return islice(orders, _MOST_ORDERS)

    def _producer(self, name: str, wanted: PatternNode) -> Node | None:
        """The node that computes a result; it may be the graph node of ``wanted``."""
        return self.g.graph.producer(name)

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
        """The operands, in all orders, of all trees of the operator with as many operands as the pattern node."""
        count = len(wanted.inputs)
        pending: list[tuple[tuple[str, ...], tuple[Node, ...], int]] = [(self._found(wanted).input, (), 0)]
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

    # ---------------------------------------------------------------- nodes

    def _found(self, wanted: PatternNode) -> Node:
        """The graph node of a pattern node that has one."""
        node = self.nodes[wanted.index]
        assert node is not None
        return node

    def _is_taken(self, node: Node) -> bool:
        """Whether a graph node is already bound to a pattern node."""
        return node in self.nodes or node in self.extra

    def _bind(self, wanted: PatternNode, node: Node) -> bool:
        """Pair a pattern node with a graph node: operator, attributes, results."""
        return (
            node.op_type == wanted.op_type
            and node.domain == wanted.domain
            and not self._is_taken(node)
            and self._attributes(wanted, node)
            and self._results(wanted, node)
        )

    def _results(self, wanted: PatternNode, node: Node) -> bool:
        """Pair the results of a pattern node with those of a graph node."""
        symbols = wanted.outputs
        if symbols and symbols[-1].kind is Variadic:
            symbols = symbols[:-1]
            if not self._unify_list(wanted.outputs[-1], node.output[len(symbols) :], wanted, node):
                return False
        if len(node.output) < len(symbols):
            return False
        names = self.names
        for symbol, name in zip(symbols, node.output, strict=False):
            known = names[symbol.index]
            if known is None:
                names[symbol.index] = name
            elif known != name:
                return False
        self.nodes[wanted.index] = node
        return True

    # ---------------------------------------------------------------- operands

    def _operands(self, wanted: PatternNode, order: tuple[int, ...]) -> bool:
        """Compare the operands of a node in one order."""
        node = self.nodes[wanted.index]
        assert node is not None
        if wanted.variadic >= 0:
            return self._operands_and_list(wanted, node, order)
        inputs, names = node.input, self.names
        count = len(inputs)
        if count > len(wanted.inputs) and not self._has_defaults_behind(wanted, node):
            return False
        for place, symbol in zip(order, wanted.inputs, strict=True):
            if symbol is None:
                if not self._is_absent(place, wanted, node):
                    return False
                continue
            name = inputs[place] if place < count else ""
            known = names[symbol.index]
            if known is None and name and symbol.is_plain:
                names[symbol.index] = name
            elif known != name and not self._unify(symbol, name, wanted, node):
                return False
        return True

    def _is_absent(self, place: int, wanted: PatternNode, node: Node) -> bool:
        """Whether an operand is absent, as the pattern requires."""
        return place >= len(node.input) or not node.input[place]

    def _has_defaults_behind(self, wanted: PatternNode, node: Node) -> bool:
        """Whether all operands after those that the pattern lists may be present."""
        moved = moved_inputs(node.op_type, node.opset) if not node.domain else {}
        for place in range(len(wanted.inputs), len(node.input)):
            name = node.input[place]
            if name and not self._may_be_unnamed(wanted, node, moved.get(place, ""), name):
                return False
        return True

    def _may_be_unnamed(self, wanted: PatternNode, node: Node, attribute: str, name: str) -> bool:
        """Whether an operand that the pattern does not list is an attribute that the pattern mentions, or has its default."""
        if not attribute or wanted.others is ANY or attribute in wanted.attributes:
            return bool(attribute)
        default = MOVED_DEFAULTS.get((node.op_type, attribute))
        return default is not None and self.g.close(name, default)

    def _operands_and_list(self, wanted: PatternNode, node: Node, order: tuple[int, ...]) -> bool:
        """Compare operands; one symbol takes all that remain."""
        variadic, named = wanted.variadic, len(wanted.inputs) - 1
        if len(node.input) < named:
            return False
        if not wanted.any_order and not is_commutative(wanted.op_type, wanted.domain):
            behind = len(node.input) - (named - variadic)
            places = range(len(node.input))
            order = (*places[:variadic], *places[behind:], *places[variadic:behind])
        symbols = (*wanted.inputs[:variadic], *wanted.inputs[variadic + 1 :])
        for place, symbol in zip(order, symbols, strict=False):
            if symbol is None:
                if not self._is_absent(place, wanted, node):
                    return False
            elif not self._unify(symbol, node.input[place], wanted, node):
                return False
        rest = wanted.inputs[variadic]
        assert rest is not None
        return self._unify_list(rest, tuple(node.input[place] for place in order[named:]), wanted, node)

    def _terms(self, wanted: PatternNode, tree: tuple[tuple[str, ...], tuple[Node, ...]]) -> bool:
        """Compare the operands of a tree of an associative operator."""
        leaves, inner = tree
        node = self._found(wanted)
        if any(self._is_taken(n) or not self._attributes(wanted, n) for n in inner):
            return False
        for place, (symbol, name) in enumerate(zip(wanted.inputs, leaves, strict=True)):
            assert symbol is not None
            if not self._unify(symbol, name, wanted, node, (*leaves[:place], *leaves[place + 1 :])):
                return False
        self.extra += inner
        return True

    def _unify(self, symbol: Symbol, name: str, wanted: PatternNode, node: Node, beside: Sequence[str] | None = None) -> bool:
        """Pair an operand of the pattern with one of the graph; a symbol stands for one name only.

        Args:
            symbol: the operand of the pattern.
            name: the operand of the graph, empty when absent.
            wanted: the pattern node that reads it.
            node: the node that reads it.
            beside: the other operands; those of the node when not given.
        """
        known = self.names[symbol.index]
        if known is not None:
            return known == name
        if symbol.is_plain:
            if not name and symbol.producer is None:
                return False
        elif not self._suits(symbol, name) or not self._keeps_shape(symbol, name, node, beside):
            return False
        self.names[symbol.index] = name
        return True

    def _unify_list(self, symbol: Symbol, names: tuple[str, ...], wanted: PatternNode, node: Node) -> bool:
        """Pair a symbol that stands for several results with the remaining results."""
        known = self.attributes.get(symbol.name)
        if known is not None:
            return bool(known == names)
        if len(names) < symbol.least:
            return False
        if symbol.elements is Constant and not all(self.g.is_constant(name) for name in names if name):
            return False
        self.attributes[symbol.name] = names
        return True

    # ---------------------------------------------------------------- constants

    def _suits(self, symbol: Symbol, name: str) -> bool:
        """Whether a result satisfies the literal or the annotation of a symbol."""
        if symbol.literal is not None:
            return bool(name) and self._is_literal(name, symbol.literal)
        kind = symbol.kind
        if kind is Variadic or not name:
            return kind is Optional
        if kind is Scalar:
            number = self.g.get_constant_scalar(name)
            return number is not None and (symbol.predicate is None or bool(symbol.predicate(number)))
        if kind is Constant and not self.g.is_constant(name):
            return False
        if symbol.predicate is None:
            return True
        value = self.g.get_computed_constant(name)
        return value is not None and bool(symbol.predicate(value))

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

    def _keeps_shape(self, symbol: Symbol, name: str, node: Node, beside: Sequence[str] | None) -> bool:
        """Whether the other operands determine the shape of the result, so that a constant may stand for a number."""
        if not name or (symbol.literal is None and symbol.kind is not Scalar) or node.op_type not in STRETCHING:
            return True
        shape = self.g.info(name).shape
        if shape == ():
            return True
        if shape is None:
            return False
        if beside is None:
            beside = [other for other in node.input if other and other != name]
        others = [self.g.info(other).shape for other in beside]
        # An operand whose axes all have length 1 may still raise the rank of the result.
        if all(d == 1 for d in shape):
            return any(other is not None and len(other) >= len(shape) for other in others)
        result = self.g.info(node.output[0]).shape
        return result is not None and result in others

    # ---------------------------------------------------------------- attributes

    def _attributes(self, wanted: PatternNode, node: Node) -> bool:
        """Compare the attributes, including those that became operands."""
        for name, expected in wanted.attributes.items():
            if expected is not ANY and not self._attribute(name, expected, wanted, node):
                return False
        if wanted.others is None:
            for name in node.attribute:
                if name not in wanted.attributes and not self._is_default(name, wanted, node):
                    return False
            return True
        return not isinstance(wanted.others, Capture) or self._capture_others(wanted.others, wanted, node)

    def _attribute(self, name: str, expected: Any, wanted: PatternNode, node: Node) -> bool:
        """Compare one attribute that the pattern mentions."""
        value = read_moved(self.g.graph, node, name)
        if isinstance(value, AttributeReference):
            return False
        if isinstance(expected, Capture):
            return self._capture(expected, value)
        if isinstance(expected, AnyOf):
            return any(same_attribute(value, choice) for choice in expected.values)
        if callable(expected):
            return value is not None and bool(expected(value))
        return value is None if expected is None else same_attribute(value, expected)

    def _capture(self, expected: Capture, value: Any) -> bool:
        """Capture the value of an attribute; a name stands for one value only."""
        if value is None and not expected.optional:
            return False
        if expected.predicate is not None and not expected.predicate(value):
            return False
        if expected.name in self.attributes:
            return same_attribute(self.attributes[expected.name], value)
        self.attributes[expected.name] = value
        return True

    def _capture_others(self, others: Capture, wanted: PatternNode, node: Node) -> bool:
        """Capture all attributes that the pattern does not mention."""
        if node.bodies or any(isinstance(value, AttributeReference) for value in node.attribute.values()):
            return False
        self.attributes[others.name] = {k: v for k, v in node.attribute.items() if k not in wanted.attributes}
        return True

    def _is_default(self, name: str, wanted: PatternNode, node: Node) -> bool:
        """Whether an attribute that the pattern does not mention has the schema's default."""
        rank = self.g.info(node.input[0]).rank if node.input and node.input[0] else None
        kernel = node.attribute.get("kernel_shape")
        default = attribute_default(node.op_type, node.domain, node.opset, name, rank, kernel)
        return default is not None and same_attribute(node.attribute[name], default)
