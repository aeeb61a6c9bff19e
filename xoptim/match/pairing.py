"""Run a program against a graph: the partial match, and the search from the anchor with
backtracking over orders.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import islice, permutations
from typing import Any, TypeAlias

from xoptim.facts.schema import has_variadic_results
from xoptim.graph.node import Node
from xoptim.match.conditions import keeps_shape, suits, unexpected_operands, unfit_attribute
from xoptim.match.pattern import MatchResult
from xoptim.match.program import MatchStep, Program
from xoptim.match.refusal import Misfit
from xoptim.match.trace import Constant, PatternNode, Symbol, Variadic
from xoptim.match.view import GraphView
from xoptim.operators.registry import is_commutative

Tree: TypeAlias = tuple[tuple[str, ...], tuple[Node, ...]]
"""The operands of a tree of nodes with an associative operator, and its nodes without the root."""


class Pairing:
    """The nodes and results of a graph that are paired with those of a program, consistently.

    Each method that pairs returns whether the pair fits. A method that returns False may leave some
    pairs behind: `alternatives` removes them.
    """

    __slots__ = ("attributes", "extra", "g", "names", "nodes", "program")

    def __init__(self, program: Program, g: GraphView) -> None:
        self.program = program
        self.g = g
        # result name in each register, ``None`` until it is known
        self.names: list[str | None] = [None] * program.size
        self.nodes: list[Node | None] = [None] * program.count  # graph node of each pattern node
        self.extra: list[Node] = []  # the inner graph nodes of trees of an associative operator
        self.attributes: dict[str, Any] = {}  # captured attributes, and captured lists of results

    @property
    def bound(self) -> list[Node]:
        """The graph nodes found so far, in the order of the pattern nodes, without trees."""
        return list(filter(None, self.nodes))

    def node_of(self, spec: PatternNode) -> Node:
        """The graph node of a pattern node that has one."""
        node = self.nodes[spec.index]
        assert node is not None
        return node

    def alternatives(
        self, spec: PatternNode, choices: Iterable[Any], fits: Callable[[PatternNode, Any], bool]
    ) -> Iterator[None]:
        """Pair a pattern node with each choice (a node, an order of operands, a tree) that fits,
        one after another.

        Pairs made with one choice are removed before the next choice.
        """
        names, nodes, extra, attributes = self.names, self.nodes, self.extra, self.attributes
        for choice in choices:
            self.names, self.nodes, self.extra, self.attributes = (
                names[:],
                nodes[:],
                extra[:],
                attributes.copy(),
            )
            if fits(spec, choice):
                yield
        self.names, self.nodes, self.extra, self.attributes = names, nodes, extra, attributes

    # ---------------------------------------------------------------- nodes

    def bind(self, spec: PatternNode, node: Node) -> bool:
        """Pair a pattern node with a graph node: operator, attributes, results."""
        return (
            node.op_type == spec.op_type
            and node.domain == spec.domain
            and node not in self.nodes
            and node not in self.extra
            and (
                (spec.is_bare and not node.attribute)
                or unfit_attribute(self.g, spec, node, self.attributes) is None
            )
            and self._results(spec, node)
        )

    def _results(self, spec: PatternNode, node: Node) -> bool:
        symbols, outputs = spec.outputs, node.output
        if len(symbols) == 1 == len(outputs) and symbols[0].kind is not Variadic:
            index = symbols[0].index
            if self.names[index] not in (None, outputs[0]):
                return False
            self.names[index] = outputs[0]
            self.nodes[spec.index] = node
            return True
        if symbols and symbols[-1].kind is Variadic:
            symbols = symbols[:-1]
            if not self._unify_list(spec.outputs[-1], node.output[len(symbols) :], spec, node):
                return False
        if len(node.output) < len(symbols) or not self._may_have_more_results(spec, node):
            return False
        names = self.names
        for symbol, name in zip(symbols, node.output, strict=False):
            partner = names[symbol.index]
            if partner is None:
                names[symbol.index] = name
            elif partner != name:
                return False
        self.nodes[spec.index] = node
        return True

    def _may_have_more_results(self, spec: PatternNode, node: Node) -> bool:
        """Whether a node may have more results than the pattern node.

        Further results must not change the meaning of the first ones, as they do in Split.
        """
        if len(node.output) <= len(spec.outputs) or any(
            symbol.kind is Variadic for symbol in spec.outputs[-1:]
        ):
            return True
        return not has_variadic_results(node.op_type, node.domain)

    # ---------------------------------------------------------------- operands

    def operands(self, spec: PatternNode, order: tuple[int, ...]) -> bool:
        """Pair the operands of a node in one order."""
        node = self.nodes[spec.index]
        assert node is not None
        if spec.variadic >= 0:
            return self._operands_and_list(spec, node, order)
        inputs, names = node.input, self.names
        count = len(inputs)
        if count > len(spec.inputs) and not self._may_have_more_operands(spec, node):
            return False
        for place, symbol in zip(order, spec.inputs, strict=True):
            if symbol is None:
                if not self._is_absent(place, spec, node):
                    return False
                continue
            name = inputs[place] if place < count else ""
            partner = names[symbol.index]
            if partner is None and name and symbol.is_plain:
                if symbol.producer is not None and not self._may_produce(symbol.producer, name):
                    return False
                names[symbol.index] = name
            elif partner != name and not self._unify(symbol, name, spec, node):
                return False
        return True

    def _may_produce(self, spec: PatternNode, name: str) -> bool:
        """Whether the producer of a result has the operator of a pattern node.

        The next step tests it as well. To test it at once saves trying an order of operands.
        """
        producer = self.g.graph.producer(name)
        return (
            producer is not None
            and producer.op_type == spec.op_type
            and producer.domain == spec.domain
        )

    def _is_absent(self, place: int, spec: PatternNode, node: Node) -> bool:
        return place >= len(node.input) or not node.input[place]

    def _may_have_more_operands(self, spec: PatternNode, node: Node) -> bool:
        """Whether the operands after those that the pattern lists may be present."""
        return not unexpected_operands(self.g, spec, node)

    def _operands_and_list(self, spec: PatternNode, node: Node, order: tuple[int, ...]) -> bool:
        """Pair operands; one symbol takes all remaining operands."""
        variadic, count = spec.variadic, len(spec.inputs) - 1
        if len(node.input) < count:
            return False
        if not spec.any_order and not is_commutative(spec.op_type, spec.domain):
            tail = len(node.input) - (count - variadic)
            places = range(len(node.input))
            order = (*places[:variadic], *places[tail:], *places[variadic:tail])
        for place, symbol in zip(
            order, (*spec.inputs[:variadic], *spec.inputs[variadic + 1 :]), strict=False
        ):
            if symbol is None:
                if not self._is_absent(place, spec, node):
                    return False
            elif not self._unify(symbol, node.input[place], spec, node):
                return False
        list_symbol = spec.inputs[variadic]
        assert list_symbol is not None
        return self._unify_list(
            list_symbol, tuple(node.input[place] for place in order[count:]), spec, node
        )

    def terms(self, spec: PatternNode, tree: Tree) -> bool:
        """Pair the operands of a tree of an associative operator."""
        leaves, inner = tree
        node = self.node_of(spec)
        if not all(self._is_inner(spec, child) for child in inner):
            return False
        for place, (symbol, name) in enumerate(zip(spec.inputs, leaves, strict=True)):
            assert symbol is not None
            if not self._unify(symbol, name, spec, node, (*leaves[:place], *leaves[place + 1 :])):
                return False
        self.extra += inner
        return True

    def _is_inner(self, spec: PatternNode, node: Node) -> bool:
        """Whether a node may be an inner node of the tree that an associative pattern node
        matches.
        """
        is_paired = node in self.nodes or node in self.extra
        return not is_paired and unfit_attribute(self.g, spec, node, self.attributes) is None

    def _unify(
        self,
        symbol: Symbol,
        name: str,
        spec: PatternNode,
        node: Node,
        siblings: Sequence[str] | None = None,
    ) -> bool:
        """Pair an operand of the pattern with one of the graph, empty when absent."""
        partner = self.names[symbol.index]
        if partner is not None:
            return partner == name
        if symbol.is_plain:
            if not name and symbol.producer is None:
                return False
        elif not suits(self.g, symbol, name) or not keeps_shape(
            self.g, symbol, name, node, siblings
        ):
            return False
        self.names[symbol.index] = name
        return True

    def _unify_list(
        self, symbol: Symbol, names: tuple[str, ...], spec: PatternNode, node: Node
    ) -> bool:
        """Pair a symbol that matches several results with the remaining results."""
        partners = self.attributes.get(symbol.name)
        if partners is not None:
            return bool(partners == names)
        if len(names) < symbol.least:
            return False
        if symbol.elements is Constant and not all(
            self.g.is_constant(name) for name in names if name
        ):
            return False
        self.attributes[symbol.name] = names
        return True


_MAX_ORDERS = 720
"""Maximal number of orders of operands that are tried, beginning with the order of the node. Six
operands have this many orders.
"""
Examine: TypeAlias = Callable[[Pairing], MatchResult | Misfit | None]


class MatchAttempt:
    """One attempt to match a program at one node, with a pairing that is empty at first.

    When all nodes fit one by one, the registers are filled, and ``examine`` is called with the
    pairing. The search continues until ``examine`` returns a match.
    """

    __slots__ = ("examine", "graph", "pairing")

    def __init__(self, pairing: Pairing, examine: Examine) -> None:
        self.pairing = pairing
        self.graph = pairing.g.graph
        self.examine = examine

    def run(self, anchor: Node) -> MatchResult | None:
        """Search for an assignment that ``examine`` accepts, starting at a node."""
        return self._steps(0) if self.pairing.bind(self.pairing.program.anchor, anchor) else None

    def _steps(self, position: int) -> MatchResult | None:
        pairing = self.pairing
        choices: Iterable[Any]
        fits: Callable[[PatternNode, Any], bool]
        for step in pairing.program.steps[position:]:
            position += 1
            spec = step.node
            if step.kind == "inputs":
                if not step.is_straight:
                    choices, fits = step.orders or self._orders(spec), pairing.operands
                    break
                if not pairing.operands(spec, step.orders[0]):
                    return None
            elif step.kind == "up":
                node = self._producer(self._name(step), spec)
                if node is None or not pairing.bind(spec, node):
                    return None
            elif step.kind == "down":
                readers = self._readers(self._name(step), spec)
                if step.most_readers is not None and self._are_too_many(readers, step.most_readers):
                    return None
                choices, fits = readers, pairing.bind
                break
            else:
                choices, fits = self._trees(spec), pairing.terms
                break
        else:
            result = self.examine(pairing)
            return result if isinstance(result, MatchResult) else None
        for _ in pairing.alternatives(spec, choices, fits):
            match = self._steps(position)
            if match is not None:
                return match
        return None

    def _name(self, step: MatchStep) -> str:
        """The result, or the first of the results, from which a step continues.

        Empty when there is none.
        """
        symbol = step.symbol
        assert symbol is not None
        if symbol.kind is Variadic:
            names: tuple[str, ...] = self.pairing.attributes[symbol.name]
            return names[0] if names else ""
        return self.pairing.names[symbol.index] or ""

    def _orders(self, spec: PatternNode) -> Iterable[tuple[int, ...]]:
        """The orders of operands to try, if they depend on the number of operands of the node.

        In each order, the operands that the pattern lists precede the remaining ones.
        """
        places = range(len(self.pairing.node_of(spec).input))
        orders: Iterable[tuple[int, ...]]
        if spec.variadic < 0:
            orders = (
                permutations(places)
                if len(places) == len(spec.inputs)
                else (tuple(range(len(spec.inputs))),)
            )
        else:
            prefixes = permutations(places, len(spec.inputs) - 1)
            orders = ((*prefix, *(p for p in places if p not in prefix)) for prefix in prefixes)
        return islice(orders, _MAX_ORDERS)

    def _producer(self, name: str, spec: PatternNode) -> Node | None:
        return self.graph.producer(name)

    def _readers(self, name: str, spec: PatternNode) -> Collection[Node]:
        """Nodes that read a result, directly or, for an associative operator, within a tree of such
        nodes.
        """
        readers = self.graph.consumers(name)
        if not spec.associative:
            return readers
        nodes = dict.fromkeys(readers)
        edge = list(nodes)
        for _ in range(len(spec.inputs) - 2):
            tree = [n for n in edge if n.op_type == spec.op_type and n.domain == spec.domain]
            edge = [
                reader
                for n in tree
                for reader in self.graph.consumers(n.output[0])
                if reader not in nodes
            ]
            nodes.update(dict.fromkeys(edge))
        return nodes

    def _are_too_many(self, readers: Collection[Node], limit: int) -> bool:
        """Whether an interior result has so many readers that one of them is not in the match."""
        return len(readers) > limit

    def _trees(self, spec: PatternNode) -> Iterator[Tree]:
        """The operands, in all orders, of all trees of the operator with as many operands as the
        pattern node.
        """
        count = len(spec.inputs)
        pending: list[tuple[tuple[str, ...], tuple[Node, ...], int]] = [
            (self.pairing.node_of(spec).input, (), 0)
        ]
        while pending:
            leaves, inner, start = pending.pop()
            if len(leaves) == count:
                yield from ((order, inner) for order in permutations(leaves))
            for place in range(len(leaves) - 1, start - 1, -1):
                node = self.graph.producer(leaves[place])
                if (
                    node is not None
                    and node.op_type == spec.op_type
                    and node.domain == spec.domain
                    and node not in inner
                    and len(leaves) - 1 + len(node.input) <= count
                ):
                    pending.append(
                        (
                            (*leaves[:place], *node.input, *leaves[place + 1 :]),
                            (*inner, node),
                            place,
                        )
                    )
