"""A traced pattern as a flat program: the order in which its nodes are searched, starting at the
anchor.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import chain
from typing import Literal

from xoptim.graph.graph import Graph
from xoptim.graph.node import Node
from xoptim.match.literals import is_short
from xoptim.match.pattern import CONSTANT, Key
from xoptim.match.trace import Constant, PatternNode, Scalar, Symbol, Trace, Variadic
from xoptim.operators.registry import is_commutative

Kind = Literal["inputs", "terms", "up", "down"]


@dataclass(frozen=True, slots=True, eq=False)
class Need:
    """An operator that must produce an operand of a node, with the operators that must produce its
    own operands.

    Equal needs are one object (`_need`).
    """

    key: Key
    needs: tuple["Need", ...]

    def is_met(self, graph: Graph, node: Node) -> bool:
        """Whether a producer of an operand of the node fits.

        Each need is tested on its own, so that one producer may meet several needs.
        """
        domain, op_type = self.key
        for name in node.input:
            producer = graph.producer(name)
            if (
                producer is not None
                and producer.op_type == op_type
                and producer.domain == domain
                and all(need.is_met(graph, producer) for need in self.needs)
            ):
                return True
        return False


def _is_chain(needs: Sequence[Need], path: Sequence[Key]) -> bool:
    """Whether needs are those of a path of producers, and no others."""
    for key in path:
        if len(needs) != 1 or needs[0].key != key:
            break
        needs = needs[0].needs
    return not needs


@cache
def _need(key: Key, needs: tuple[Need, ...]) -> Need:
    return Need(key, needs)


@dataclass(frozen=True, slots=True)
class MatchStep:
    """One instruction.

    ``inputs``: compare the operands of a node that was found, in one of ``orders`` (in all orders
    when it is empty). ``terms``: the same with the operands of a tree of nodes with an associative
    operator. ``up``: the producer of ``symbol`` must be the pattern's ``node``. ``down``: a
    consumer of ``symbol`` must be ``node``.
    """

    kind: Kind
    node: PatternNode
    symbol: Symbol | None = None
    orders: tuple[tuple[int, ...], ...] = ()
    # for ``down``, how many nodes may read ``symbol`` when all must belong to the match
    most_readers: int | None = None
    is_straight: bool = field(init=False)  # whether there is one order only

    def __post_init__(self) -> None:
        object.__setattr__(self, "is_straight", len(self.orders) == 1)


@dataclass(frozen=True, slots=True)
class Program:
    """One variant of a pattern, ready to run, with its numbers of registers (``size``) and nodes
    (``count``).
    """

    trace: Trace
    anchor: PatternNode
    steps: tuple[MatchStep, ...]
    # Operators of a chain of producers: the first must produce an input of the anchor, the second
    # an input of the first, ...; the last may be `CONSTANT` or a `literal_key`. May be empty
    path: tuple[Key, ...]
    size: int
    count: int
    # distance from the anchor to the farthest other node, plus one: a change within it may make the
    # program match
    reach: int
    needs: tuple[Need, ...] = field(init=False)  # the operators above the anchor
    has_path_only: bool = field(init=False)  # whether ``path`` states all needs
    # operators that must read a result of the anchor
    consumers: tuple[Key, ...] = field(init=False)
    anchor_key: Key = field(init=False)  # operator of the anchor
    # results that are captured: name and register
    captures: tuple[tuple[str, int], ...] = field(init=False)
    # registers of the results from outside that the pattern reads, except lists of results
    operands: tuple[int, ...] = field(init=False)
    lists: tuple[str, ...] = field(init=False)  # names of the lists of results from outside

    def __post_init__(self) -> None:
        inputs = [s for s in self.trace.symbols if s.producer is None and s.literal is None]
        needs = _needs(self.anchor)
        values = {
            "needs": needs,
            "has_path_only": _is_chain(needs, self.path),
            "consumers": _consumers(self.steps, self.anchor),
            "anchor_key": (self.anchor.domain, self.anchor.op_type),
            "captures": tuple((s.name, s.index) for s in self.trace.symbols if s.name),
            "operands": tuple(s.index for s in inputs if s.kind is not Variadic),
            "lists": tuple(s.name for s in inputs if s.kind is Variadic),
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)


def worth_trying(programs: Sequence[Program], graph: Graph, node: Node) -> list[Program]:
    """The programs for which the operators around a node do not exclude it as the anchor.

    Args:
        programs: the variants of a pattern, which share many needs: each need is tested once.
        graph: the graph of the node.
        node: a node that an index of the paths selected.
    """
    if len(programs) == 1:
        program = programs[0]
        if not program.has_path_only and not all(n.is_met(graph, node) for n in program.needs):
            return []
        is_read = not program.consumers or _readers(graph, node).issuperset(program.consumers)
        return [program] if is_read else []
    key = node.domain, node.op_type
    producers = _operators(filter(None, map(graph.producer, node.input)))
    readers: set[Key] = set()  # a result may have very many
    are_met: dict[Need, bool] = {}
    chosen: list[Program] = []
    for program in programs:
        if program.anchor_key != key:
            continue
        for need in program.needs:
            if need.key not in producers:
                break
            is_met = are_met.get(need)
            if is_met is None:
                is_met = are_met[need] = need.is_met(graph, node)
            if not is_met:
                break
        else:
            if program.consumers and not readers:
                readers = _readers(graph, node)
            if readers.issuperset(program.consumers):
                chosen.append(program)
    return chosen


def _readers(graph: Graph, node: Node) -> set[Key]:
    """The operators of the nodes that read the results of a node."""
    return _operators(chain.from_iterable(map(graph.consumers, node.output)))


def _operators(nodes: Iterable[Node]) -> set[Key]:
    return {(node.domain, node.op_type) for node in nodes}


def compile_trace(
    trace: Trace, anchors: Sequence[Key] = (), interior: Literal["keep", "refuse"] = "keep"
) -> Program:
    """Order the nodes of a pattern for matching: producers first, then consumers of known results.

    The anchor is the node with the rarest operator (see `_frequency`), the last one among equals;
    only nodes with an operator in ``anchors`` count, if there are any. ``interior`` is the
    pattern's class attribute. Raises `TypeError` when the pattern is empty, not connected, returns
    results that it does not compute, or has no such anchor.
    """
    anchor = _anchor(trace, anchors)
    steps: list[MatchStep] = []
    depth = {anchor.index: 0}
    queue = [anchor]
    while queue:
        node = queue.pop(0)
        steps.append(
            MatchStep("terms" if node.associative else "inputs", node, orders=operand_orders(node))
        )
        for symbol in node.inputs:
            producer = None if symbol is None else symbol.producer
            if producer is None or producer.index in depth:
                continue
            depth[producer.index] = depth[node.index] + 1
            steps.append(MatchStep("up", producer, symbol))
            queue.append(producer)
        forward = None if queue else _forward(trace, depth)
        if forward is not None:
            depth[forward.node.index] = 1 + min(
                depth[n.index] for n in _neighbours(trace, forward.node) if n.index in depth
            )
            steps.append(
                replace(forward, most_readers=_most_readers(trace, forward.symbol, interior))
            )
            queue.append(forward.node)
    if len(depth) < len(trace.nodes):
        missing = next(node for node in trace.nodes if node.index not in depth)
        raise TypeError(
            f"{missing.op_type} of match_pattern in {trace.file} is not connected to the rest"
        )
    return Program(
        trace,
        anchor,
        tuple(steps),
        _path(anchor),
        len(trace.symbols),
        len(trace.nodes),
        max(depth.values()) + 1,
    )


def _anchor(trace: Trace, anchors: Sequence[Key]) -> PatternNode:
    if not trace.outputs or any(symbol.producer is None for symbol in trace.outputs):
        raise TypeError(f"match_pattern in {trace.file} must return results of g.op calls")
    candidates = [
        node for node in trace.nodes if not anchors or (node.domain, node.op_type) in anchors
    ]
    if not candidates:
        raise TypeError(
            f"match_pattern in {trace.file} has no node with an operator of its anchors"
        )
    return min(candidates, key=lambda node: (_frequency(node), -node.index))


LITERAL = "="
"""In place of a domain: marks a stored constant of one value."""
_COMMON = (
    "Cast",
    "Div",
    "Sub",
    "Gather",
    "Concat",
    "Unsqueeze",
    "Transpose",
    "Reshape",
    "MatMul",
    "Mul",
    "Add",
)
"""Frequent operators of exported models, the most frequent last."""


def literal_key(value: float) -> Key:
    """The key of stored constants of a value; 0 and -0 are one value."""
    return LITERAL, repr(float(value) + 0.0)


_MAX_NEEDS = 4
"""Maximal number of levels of needs: the numbers of ways up through a pattern, and up through a
graph, may double with each level.
"""


def _needs(node: PatternNode, levels: int = _MAX_NEEDS) -> tuple[Need, ...]:
    """The operators that must produce the operands of a pattern node.

    The operands of an associative tree may belong to its inner nodes, so they need none.
    """
    if not levels or (node.associative and len(node.inputs) > 2):
        return ()
    producers = [s.producer for s in node.inputs if s is not None and s.producer is not None]
    needs = (
        _need((p.domain, p.op_type), _needs(p, levels - 1))
        for p in sorted(dict.fromkeys(producers), key=_frequency)
    )
    return tuple(dict.fromkeys(needs))


def _consumers(steps: Sequence[MatchStep], anchor: PatternNode) -> tuple[Key, ...]:
    """The operators of the nodes of a pattern that read a result of the anchor.

    A tree of an associative operator may read it by an inner node of the same operator.
    """
    readers = [
        step.node
        for step in steps
        if step.kind == "down" and step.symbol is not None and step.symbol.producer is anchor
    ]
    return tuple(dict.fromkeys((node.domain, node.op_type) for node in readers))


def _frequency(node: PatternNode) -> int:
    return 0 if node.domain or node.op_type not in _COMMON else 1 + _COMMON.index(node.op_type)


_MAX_PATH = 3
"""Maximal number of producers in a path."""


def _path(anchor: PatternNode) -> tuple[Key, ...]:
    """The most selective path from the anchor to its producers: at each node, the producer of the
    rarest operator.
    """
    path: list[Key] = []
    node = anchor
    # The operands of an associative tree may belong to its inner nodes, so they do not restrict the
    # producers of the root.
    while len(path) < _MAX_PATH and not (node.associative and len(node.inputs) > 2):
        producers = [s.producer for s in node.inputs if s is not None and s.producer is not None]
        if not producers:
            return (*path, *_constant_key(node))
        node = min(producers, key=_frequency)
        path.append((node.domain, node.op_type))
    return tuple(path)


def _constant_key(node: PatternNode) -> tuple[Key, ...]:
    """The key of a constant operand: of a literal that is compared exactly, else `CONSTANT`."""
    constants = [
        s
        for s in node.inputs
        if s is not None and (s.literal is not None or s.kind in (Constant, Scalar))
    ]
    literals = [
        s.literal for s in constants if isinstance(s.literal, (int, float)) and is_short(s.literal)
    ]
    return (literal_key(literals[0]),) if literals else (CONSTANT,) if constants else ()


def _neighbours(trace: Trace, node: PatternNode) -> list[PatternNode]:
    registers = {s.index for s in (*node.inputs, *node.outputs) if s is not None}
    return [
        n
        for n in trace.nodes
        if n is not node
        and any(s is not None and s.index in registers for s in (*n.inputs, *n.outputs))
    ]


def _forward(trace: Trace, depth: Mapping[int, int]) -> MatchStep | None:
    """The step to another node of the pattern that reads a value of the nodes so far.

    A result of the nodes is preferred to an operand.
    """
    registers = {
        s.index
        for n in trace.nodes
        if n.index in depth
        for s in (*n.inputs, *n.outputs)
        if s is not None
    }
    steps = [
        MatchStep("down", node, symbol)
        for node in trace.nodes
        if node.index not in depth
        for symbol in node.inputs
        if symbol is not None and symbol.index in registers and symbol.literal is None
    ]
    return min(
        steps, key=lambda step: step.symbol is None or step.symbol.producer is None, default=None
    )


def _most_readers(trace: Trace, symbol: Symbol | None, interior: str) -> int | None:
    """Maximal number of readers of a result, ``None`` for any number.

    Only the other nodes of the pattern may read an interior result.
    """
    is_open = (
        symbol is None
        or symbol.producer is None
        or symbol in trace.outputs
        or (symbol.interior or interior) == "keep"
    )
    return (
        None if is_open or any(node.associative for node in trace.nodes) else len(trace.nodes) - 1
    )


def operand_orders(node: PatternNode) -> tuple[tuple[int, ...], ...]:
    """The orders in which the operands of a node may come.

    Empty when they depend on the number of operands.
    """
    straight = tuple(range(len(node.inputs)))
    if not node.any_order and not is_commutative(node.op_type, node.domain):
        return (straight,)
    if node.variadic >= 0 or len(straight) > 2:
        return ()
    return (
        (straight, (1, 0))
        if len(straight) == 2 and node.inputs[0] is not node.inputs[1]
        else (straight,)
    )
