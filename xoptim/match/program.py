"""A traced pattern as a flat program: the order in which its nodes are searched, starting at the
anchor.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from xoptim.match.literals import is_short
from xoptim.match.pattern import Key
from xoptim.match.trace import Constant, PatternNode, Scalar, Symbol, Trace, Variadic
from xoptim.operators.registry import is_commutative

Kind = Literal["inputs", "terms", "up", "down"]


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
    near: Key | None = field(init=False)  # the first step of the path
    anchor_key: Key = field(init=False)  # operator of the anchor
    # results that are captured: name and register
    captures: tuple[tuple[str, int], ...] = field(init=False)
    # registers of the results from outside that the pattern reads, except lists of results
    operands: tuple[int, ...] = field(init=False)
    lists: tuple[str, ...] = field(init=False)  # names of the lists of results from outside

    def __post_init__(self) -> None:
        inputs = [s for s in self.trace.symbols if s.producer is None and s.literal is None]
        first = self.path[0] if self.path else None
        values = {
            "near": CONSTANT if first is not None and first[0] == LITERAL else first,
            "anchor_key": (self.anchor.domain, self.anchor.op_type),
            "captures": tuple((s.name, s.index) for s in self.trace.symbols if s.name),
            "operands": tuple(s.index for s in inputs if s.kind is not Variadic),
            "lists": tuple(s.name for s in inputs if s.kind is Variadic),
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)


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


CONSTANT: Key = ("", "<constant>")
"""Marks a stored constant where a producer's operator is expected."""
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
