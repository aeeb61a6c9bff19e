"""A traced pattern as a flat program: the order in which its nodes are looked for, starting at the anchor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from xoptim.facts.schema import is_commutative
from xoptim.match.trace import PatternNode, Symbol, Trace

Key = tuple[str, str]
Kind = Literal["inputs", "up", "down"]


@dataclass(frozen=True, slots=True)
class Step:
    """One instruction.

    ``inputs``: compare the operands of a node that was found. ``up``: the producer of ``symbol`` must be the pattern's
    ``node``. ``down``: some consumer of ``symbol`` must be.
    """

    kind: Kind
    node: PatternNode
    symbol: Symbol | None = None


@dataclass(frozen=True, slots=True)
class Program:
    """One variant of a pattern, ready to run.

    Attributes:
        trace: what `match_pattern` described.
        anchor: where the search starts.
        steps: what to do then.
        near: operators of the producers that the anchor needs; empty when it needs none.
        outputs: registers of the results that the replacement gives.
        size: number of registers.
    """

    trace: Trace
    anchor: PatternNode
    steps: tuple[Step, ...]
    near: frozenset[Key]
    outputs: frozenset[int]
    size: int

    @property
    def anchor_key(self) -> Key:
        """Operator of the anchor."""
        return self.anchor.domain, self.anchor.op_type


def compile_trace(trace: Trace) -> Program:
    """Order the nodes of a pattern for matching: producers first, then consumers of what is known.

    The anchor is the last node that gives a result of the pattern, as in the seed document.

    Raises:
        TypeError: when the pattern is empty, not connected, or returns what it does not compute.
    """
    makers = [symbol.producer for symbol in trace.outputs]
    if not makers or any(maker is None for maker in makers):
        raise TypeError(f"match_pattern in {trace.file} must return results of g.op calls")
    anchor = max((maker for maker in makers if maker is not None), key=lambda node: node.index)
    steps: list[Step] = []
    found = {anchor.index}
    queue = [anchor]
    while queue:
        node = queue.pop(0)
        steps.append(Step("inputs", node))
        for symbol in node.inputs:
            if symbol is not None and symbol.producer is not None and symbol.producer.index not in found:
                found.add(symbol.producer.index)
                steps.append(Step("up", symbol.producer, symbol))
                queue.append(symbol.producer)
        if not queue:
            forward = _forward(trace, found)
            if forward is not None:
                found.add(forward.node.index)
                steps.append(forward)
                queue.append(forward.node)
    if len(found) < len(trace.nodes):
        missing = next(node for node in trace.nodes if node.index not in found)
        raise TypeError(f"{missing.op_type} of match_pattern in {trace.file} is not connected to the rest")
    near = frozenset((s.producer.domain, s.producer.op_type) for s in anchor.inputs if s is not None and s.producer is not None)
    outputs = frozenset(symbol.index for symbol in trace.outputs)
    return Program(trace, anchor, tuple(steps), near, outputs, len(trace.symbols))


def _forward(trace: Trace, found: set[int]) -> Step | None:
    """A node not found yet that reads a result known by now."""
    known = {s.index for n in trace.nodes if n.index in found for s in (*n.inputs, *n.outputs) if s is not None}
    for node in trace.nodes:
        if node.index not in found:
            for symbol in node.inputs:
                if symbol is not None and symbol.index in known and symbol.literal is None:
                    return Step("down", node, symbol)
    return None


def operand_orders(node: PatternNode) -> tuple[tuple[int, ...], ...]:
    """The orders in which the operands of a node may stand."""
    straight = tuple(range(len(node.inputs)))
    if len(straight) == 2 and is_commutative(node.op_type, node.domain) and node.inputs[0] is not node.inputs[1]:
        return straight, (1, 0)
    return (straight,)
