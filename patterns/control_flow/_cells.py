"""Cells of LSTM, GRU and RNN, written as elementwise operators and matrix products."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from xoptim.match import GraphView, Node

from .._nodes import is_op
from .._shapes import unstretched
from ._sums import Block, Source, Sum, SumReader, Term, is_zero

_MAX_WEIGHT: Final = 1e4


@dataclass(frozen=True)
class Gate:
    """What a gate is computed from, before its activation.

    Attributes:
        terms: the products of the input and of the state before.
        bias: what is added, one number for each element of the state.
        state_bias: what is added to the product of the state, where a GRU resets that sum.
    """

    terms: Sequence[Term]
    bias: np.ndarray
    state_bias: np.ndarray


@dataclass(frozen=True)
class Cell:
    """One step of a recurrence.

    Attributes:
        hidden: the state after the step, of shape (batch, hidden size).
        gates: in the order of the operator of ONNX; ``None`` for a gate that only changes a state
            that is 0.
        nodes: the nodes of the step.
        memory: the second state of an LSTM after the step.
        memory_before: the second state before the step; empty if it is 0, or there is none.
        hidden_before: the state before the step, if the formula shows it; empty if it is 0.
        activation: of an RNN.
        resets_after: whether a GRU resets the product of the state, and not the state.
    """

    hidden: str
    gates: Sequence[Gate | None]
    nodes: Sequence[Node]
    memory: str = ""
    memory_before: str = ""
    hidden_before: str | None = None
    activation: str = ""
    resets_after: bool = False

    def states(self) -> list[str]:
        """Names that may be the state before the step."""
        if self.hidden_before is not None:
            return [self.hidden_before]
        names = (term.name for gate in self.gates if gate is not None for term in gate.terms)
        return [*dict.fromkeys(name for name in names if name)]


@dataclass(frozen=True)
class Weights:
    """The weights of a cell.

    Attributes:
        inputs: for each gate, the weights of the input.
        states: for each gate, the weights of the state.
        biases, state_biases: for each gate; see `Gate`.
        activation, resets_after: see `Cell`.
    """

    inputs: Sequence[Block]
    states: Sequence[Block]
    biases: Sequence[np.ndarray]
    state_biases: Sequence[np.ndarray]
    activation: str
    resets_after: bool

    def are_moderate(self, g: GraphView) -> bool:
        """Whether all weights and biases are finite and of usual size, so that the order in which
        products and biases are added matters little.
        """
        names = {block.name for block in (*self.inputs, *self.states)}
        constants = [g.get_computed_constant(name) for name in names]
        arrays = [*constants, *self.biases, *self.state_biases]
        return all(array is not None and np.abs(array).max() <= _MAX_WEIGHT for array in arrays)


def weights_of(cell: Cell, state: str) -> tuple[Weights, Source, str] | None:
    """The weights of a cell with this state before the step, where its input comes from, and its
    name, which may be empty.

    ``None`` unless each gate is the sum of a product of the input and a product of the state.
    """
    inputs, states, gates = list[Term](), list[Term](), list[Gate]()
    for gate in cell.gates:
        if gate is None or len(gate.terms) != 2:
            return None
        own = [term for term in gate.terms if term.name == state]
        others = [term for term in gate.terms if term.name != state]
        if len(own) != 1:
            return None
        states += own
        inputs += others
        gates.append(gate)
    if len({(term.source, term.name) for term in inputs}) != 1:
        return None
    weights = Weights(
        [term.block for term in inputs],
        [term.block for term in states],
        [gate.bias for gate in gates],
        [gate.state_bias for gate in gates],
        cell.activation,
        cell.resets_after,
    )
    return weights, inputs[0].source, inputs[0].name


def equal_weights(a: Weights, b: Weights) -> bool:
    """Whether two cells have the same weights."""
    return (
        a.inputs == b.inputs
        and a.states == b.states
        and _equal(a.biases, b.biases)
        and _equal(a.state_biases, b.state_biases)
        and (a.activation, a.resets_after) == (b.activation, b.resets_after)
    )


def begins_at_zero(cell: Cell, weights: Weights) -> tuple[Source, str] | None:
    """Where the input of a cell comes from that has these weights, and a state before the step that
    is 0; ``None`` for any other cell.
    """
    sources = set[tuple[Source, str]]()
    for place, gate in enumerate(cell.gates):
        if gate is None:
            continue
        fits = len(gate.terms) == 1 and gate.terms[0].block == weights.inputs[place]
        if not fits or not _equal(
            [gate.bias, gate.state_bias], [weights.biases[place], weights.state_biases[place]]
        ):
            return None
        sources.add((gate.terms[0].source, gate.terms[0].name))
    (source,) = sources if len(sources) == 1 else (None,)
    return source if cell.activation == weights.activation else None


def _equal(a: Sequence[np.ndarray], b: Sequence[np.ndarray]) -> bool:
    """Whether biases are equal but for the order of their summands, which are float32."""
    return all(np.allclose(x, z, rtol=1e-9, atol=0) for x, z in zip(a, b, strict=True))


def _both(node: Node) -> Iterator[tuple[str, str]]:
    """The operands of a commutative node in both orders."""
    first, second = node.input
    yield first, second
    yield second, first


class _Reader:
    """Reads one cell, and collects its nodes.

    Args:
        g: the graph.
        nodes: the nodes of the cell that are known.
    """

    def __init__(self, g: GraphView, nodes: Iterable[Node]) -> None:
        self._g = g
        self._nodes = dict.fromkeys(nodes)

    def op(self, name: str, op_type: str) -> Node | None:
        """The producer of a result, if it is this operator."""
        node = self._g.node_before(name)
        if not is_op(node, op_type):
            return None
        self._nodes[node] = None
        return node

    def gate(self, name: str, activation: str) -> Gate | None:
        """The gate whose activated value is a result, or columns of a result."""
        sums = SumReader(self._g)
        columns = sums.columns(name)
        node = None if columns is None else self._g.node_before(columns[0])
        if columns is None or not is_op(node, activation):
            return None
        total = sums.read_columns((node.input[0], *columns[1:]))
        if total is None or total.others:
            return None
        self._nodes |= {node: None, **sums.nodes}
        return Gate(total.terms, total.bias, np.zeros_like(total.bias))

    def total(self, name: str) -> Sum | None:
        """The sum that a result is."""
        sums = SumReader(self._g)
        total = sums.read(name)
        self._nodes |= sums.nodes
        return total

    def nodes(self) -> list[Node]:
        """The nodes of the cell in their order."""
        return sorted(self._nodes, key=lambda node: node.label)

    def state(self, name: str) -> str:
        """The name of a state, or of what an Expand makes it from; empty if the state is 0."""
        if not name or is_zero(self._g, name):
            return ""
        return unstretched(self._g, name) or name


def read_lstm(g: GraphView, hidden: str) -> Cell | None:
    """The LSTM cell o · tanh(f · c + i · tanh(j)) whose result is a state; ``None`` if it is not
    one.
    """
    node = g.node_before(hidden)
    if not is_op(node, "Mul"):
        return None
    for leave, activated in _both(node):
        tanh = g.node_before(activated)
        if not is_op(tanh, "Tanh"):
            continue
        memory = tanh.input[0]
        for keep, enter in _summands(g, memory):
            reader = _Reader(g, (node, tanh))
            gates = _lstm_gates(reader, leave, enter)
            kept = _kept(reader, memory, keep)
            if gates is not None and kept is not None:
                enters, leaves, new = gates
                keeps, before = kept
                in_order = (enters, leaves, keeps, new)
                return Cell(hidden, in_order, reader.nodes(), memory, before)
    return None


def _summands(g: GraphView, memory: str) -> list[tuple[str, str]]:
    """What a memory may keep of the memory before, and what enters it."""
    node = g.node_before(memory)
    if is_op(node, "Mul"):
        return [("", memory)]
    return [*_both(node)] if is_op(node, "Add") else []


def _lstm_gates(reader: _Reader, leave: str, enter: str) -> tuple[Gate, Gate, Gate] | None:
    """The gates by which something enters the memory and leaves it, and what enters."""
    leaves, product = reader.gate(leave, "Sigmoid"), reader.op(enter, "Mul")
    if leaves is None or product is None:
        return None
    for gate, new in _both(product):
        enters, activated = reader.gate(gate, "Sigmoid"), reader.gate(new, "Tanh")
        if enters is not None and activated is not None:
            return enters, leaves, activated
    return None


def _kept(reader: _Reader, memory: str, keep: str) -> tuple[Gate | None, str] | None:
    """The gate that keeps the memory before, and this memory: no gate and no memory where nothing
    is kept.
    """
    if not keep:
        return None, ""
    product = reader.op(keep, "Mul") if reader.op(memory, "Add") is not None else None
    for gate, before in _both(product) if product is not None else ():
        keeps = reader.gate(gate, "Sigmoid")
        if keeps is not None:
            return keeps, reader.state(before)
    return None


class _Update(NamedTuple):
    """How a GRU computes its state: ``(1 - gate) * new + gate * before``.

    Attributes:
        gate, new, before: results; no state before where it is 0.
        nodes: the nodes that compute the state from them.
    """

    gate: str
    new: str
    before: str
    nodes: Sequence[Node]


def read_gru(g: GraphView, hidden: str) -> Cell | None:
    """The GRU cell (1 - z) · n + z · h, or n + z · (h - n), whose result is a state; ``None`` if it
    is not one.
    """
    for update in _updates(g, hidden):
        reader = _Reader(g, update.nodes)
        gate, tanh = reader.gate(update.gate, "Sigmoid"), reader.op(update.new, "Tanh")
        total = None if tanh is None else reader.total(tanh.input[0])
        if gate is None or total is None or len(total.others) > 1:
            continue
        state = reader.state(update.before)
        form = _reset_after if total.others else _reset_before
        new = form(reader, total, state)
        if new is not None:
            gates = (gate, *new)
            resets_after = bool(total.others)
            return Cell(hidden, gates, reader.nodes(), "", "", state, "", resets_after)
    return None


def _updates(g: GraphView, hidden: str) -> Iterator[_Update]:
    """The ways to read a result as the state of a GRU."""
    node = g.node_before(hidden)
    if is_op(node, "Mul"):
        yield from (_Update(gate, new, "", nodes) for gate, new, nodes in _changes(g, hidden))
    if not is_op(node, "Add"):
        return
    for first, second in _both(node):
        product = g.node_before(second)
        if not is_op(product, "Mul"):
            continue
        for gate, other in _both(product):
            difference = g.node_before(other)
            if is_op(difference, "Sub") and difference.input[1] == first:
                yield _Update(gate, first, difference.input[0], (node, product, difference))
            for own, new, nodes in _changes(g, first):
                if own == gate:
                    yield _Update(gate, new, other, (node, product, *nodes))


def _changes(g: GraphView, name: str) -> Iterator[tuple[str, str, tuple[Node, ...]]]:
    """The gate, the new state and the nodes of ``(1 - gate) * new``."""
    product = g.node_before(name)
    for rest, new in _both(product) if is_op(product, "Mul") else ():
        node = g.node_before(rest)
        if is_op(node, "Sub") and product and g.is_constant_scalar(node.input[0], 1.0):
            yield node.input[1], new, (product, node)


def _reset(reader: _Reader, name: str) -> tuple[Gate, str] | None:
    """The gate and the other factor of a product; ``None`` if a result is no such product."""
    product = reader.op(name, "Mul")
    for first, second in _both(product) if product is not None else ():
        gate = reader.gate(first, "Sigmoid")
        if gate is not None:
            return gate, second
    return None


def _reset_after(reader: _Reader, total: Sum, state: str) -> tuple[Gate, Gate] | None:
    """The gate that resets the product of the state, and the new state: a sum of products of the
    input and another summand.
    """
    name, start, end = total.others[0]
    reset = None if start or end != total.bias.size else _reset(reader, name)
    inner = None if reset is None else reader.total(reset[1])
    if reset is None or inner is None or inner.others:
        return None
    if any(term.name == state for term in total.terms):
        return None
    if any(term.name != state for term in inner.terms):
        return None
    return reset[0], Gate([*total.terms, *inner.terms], total.bias, inner.bias)


def _reset_before(reader: _Reader, total: Sum, state: str) -> tuple[Gate | None, Gate] | None:
    """The gate that resets the state, and the new state; no gate where the state is 0 and is not
    reset.
    """
    gate, terms = None, list[Term]()
    for term in total.terms:
        reset = _reset(reader, term.name) if term.name else None
        if reset is None:
            terms.append(term)
            continue
        gate, own = reset[0], reader.state(reset[1])
        if own != state:
            return None
        terms += [Term(Source(own), own, term.block)] if own else []
    if gate is None and state:
        return None
    return gate, Gate(terms, total.bias, np.zeros_like(total.bias))


def read_rnn(g: GraphView, hidden: str) -> Cell | None:
    """The RNN cell tanh(...), or relu(...), of a sum of products whose result is a state; ``None``
    if it is not one.
    """
    node = g.node_before(hidden)
    if not is_op(node, "Tanh", "Relu"):
        return None
    reader = _Reader(g, ())
    gate = reader.gate(hidden, node.op_type)
    if gate is None:
        return None
    return Cell(hidden, (gate,), reader.nodes(), activation=node.op_type)
