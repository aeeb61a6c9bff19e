"""A partial match: which nodes and results of the graph are paired with which of a pattern."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeAlias

from xoptim.facts.schema import has_variadic_results, is_commutative
from xoptim.graph.node import Node
from xoptim.match.conditions import keeps_shape, suits, unexpected_operands, unfit_attribute
from xoptim.match.program import Program
from xoptim.match.trace import Constant, PatternNode, Symbol, Variadic
from xoptim.match.view import GraphBuilderPatternOptimization

Tree: TypeAlias = tuple[tuple[str, ...], tuple[Node, ...]]
"""The operands of a tree of nodes with an associative operator, and its nodes without the root."""


class Pairing:
    """The nodes and results of a graph that are paired with a program's; no pair contradicts another one.

    Each method that pairs returns whether the pair fits. When it does not, pairs may have been made in part: `alternatives`
    takes them back.
    """

    __slots__ = ("attributes", "extra", "g", "names", "nodes", "program")

    def __init__(self, program: Program, g: GraphBuilderPatternOptimization) -> None:
        self.program = program
        self.g = g
        self.names: list[str | None] = [None] * program.size  # result name in each register, ``None`` until it is known
        self.nodes: list[Node | None] = [None] * program.count  # graph node of each pattern node
        self.extra: list[Node] = []  # the inner graph nodes of trees of an associative operator
        self.attributes: dict[str, Any] = {}  # captured attributes, and captured lists of results

    @property
    def bound(self) -> list[Node]:
        """The graph nodes found so far, in the order of the pattern nodes, without trees."""
        return list(filter(None, self.nodes))

    def node_of(self, wanted: PatternNode) -> Node:
        """The graph node of a pattern node that has one."""
        node = self.nodes[wanted.index]
        assert node is not None
        return node

    def alternatives(
        self, wanted: PatternNode, choices: Iterable[Any], fits: Callable[[PatternNode, Any], bool]
    ) -> Iterator[None]:
        """Pair a pattern node with each choice (a node, an order of operands, a tree) that fits, one after another.

        Pairs made since are taken back before the next choice.
        """
        names, nodes, extra, attributes = self.names, self.nodes, self.extra, self.attributes
        for choice in choices:
            self.names, self.nodes, self.extra, self.attributes = names[:], nodes[:], extra[:], attributes.copy()
            if fits(wanted, choice):
                yield
        self.names, self.nodes, self.extra, self.attributes = names, nodes, extra, attributes

    # ---------------------------------------------------------------- nodes

    def bind(self, wanted: PatternNode, node: Node) -> bool:
        """Pair a pattern node with a graph node: operator, attributes, results."""
        return (
            node.op_type == wanted.op_type
            and node.domain == wanted.domain
            and node not in self.nodes
            and node not in self.extra
            and unfit_attribute(self.g, wanted, node, self.attributes) is None
            and self._results(wanted, node)
        )

    def _results(self, wanted: PatternNode, node: Node) -> bool:
        """Pair the results of a pattern node with a graph node's."""
        symbols = wanted.outputs
        if symbols and symbols[-1].kind is Variadic:
            symbols = symbols[:-1]
            if not self._unify_list(wanted.outputs[-1], node.output[len(symbols) :], wanted, node):
                return False
        if len(node.output) < len(symbols) or not self._has_as_many(wanted, node):
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

    def _has_as_many(self, wanted: PatternNode, node: Node) -> bool:
        """Whether a node has no more results than the pattern names, where their number decides what they are, as in Split."""
        if len(node.output) <= len(wanted.outputs) or any(symbol.kind is Variadic for symbol in wanted.outputs[-1:]):
            return True
        return not has_variadic_results(node.op_type, node.domain)

    # ---------------------------------------------------------------- operands

    def operands(self, wanted: PatternNode, order: tuple[int, ...]) -> bool:
        """Pair the operands of a node in one order."""
        node = self.nodes[wanted.index]
        assert node is not None
        if wanted.variadic >= 0:
            return self._operands_and_list(wanted, node, order)
        inputs, names = node.input, self.names
        count = len(inputs)
        if count > len(wanted.inputs) and not self._has_no_more(wanted, node):
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
        return place >= len(node.input) or not node.input[place]

    def _has_no_more(self, wanted: PatternNode, node: Node) -> bool:
        """Whether all operands after those that the pattern lists may be present."""
        return not unexpected_operands(self.g, wanted, node)

    def _operands_and_list(self, wanted: PatternNode, node: Node, order: tuple[int, ...]) -> bool:
        """Pair operands; one symbol takes all that remain."""
        variadic, named = wanted.variadic, len(wanted.inputs) - 1
        if len(node.input) < named:
            return False
        if not wanted.any_order and not is_commutative(wanted.op_type, wanted.domain):
            behind = len(node.input) - (named - variadic)
            places = range(len(node.input))
            order = (*places[:variadic], *places[behind:], *places[variadic:behind])
        for place, symbol in zip(order, (*wanted.inputs[:variadic], *wanted.inputs[variadic + 1 :]), strict=False):
            if symbol is None:
                if not self._is_absent(place, wanted, node):
                    return False
            elif not self._unify(symbol, node.input[place], wanted, node):
                return False
        rest = wanted.inputs[variadic]
        assert rest is not None
        return self._unify_list(rest, tuple(node.input[place] for place in order[named:]), wanted, node)

    def terms(self, wanted: PatternNode, tree: Tree) -> bool:
        """Pair the operands of a tree of an associative operator."""
        leaves, inner = tree
        node = self.node_of(wanted)
        if not all(self._is_inner(wanted, each) for each in inner):
            return False
        for place, (symbol, name) in enumerate(zip(wanted.inputs, leaves, strict=True)):
            assert symbol is not None
            if not self._unify(symbol, name, wanted, node, (*leaves[:place], *leaves[place + 1 :])):
                return False
        self.extra += inner
        return True

    def _is_inner(self, wanted: PatternNode, node: Node) -> bool:
        """Whether a node with the operator of an associative one may be an inner node of its tree."""
        is_taken = node in self.nodes or node in self.extra
        return not is_taken and unfit_attribute(self.g, wanted, node, self.attributes) is None

    def _unify(self, symbol: Symbol, name: str, wanted: PatternNode, node: Node, beside: Sequence[str] | None = None) -> bool:
        """Pair an operand of the pattern with one of the graph, empty when absent; a symbol is paired with one name only."""
        known = self.names[symbol.index]
        if known is not None:
            return known == name
        if symbol.is_plain:
            if not name and symbol.producer is None:
                return False
        elif not suits(self.g, symbol, name) or not keeps_shape(self.g, symbol, name, node, beside):
            return False
        self.names[symbol.index] = name
        return True

    def _unify_list(self, symbol: Symbol, names: tuple[str, ...], wanted: PatternNode, node: Node) -> bool:
        """Pair a symbol that matches several results with the remaining results."""
        known = self.attributes.get(symbol.name)
        if known is not None:
            return bool(known == names)
        if len(names) < symbol.least:
            return False
        if symbol.elements is Constant and not all(self.g.is_constant(name) for name in names if name):
            return False
        self.attributes[symbol.name] = names
        return True
