"""Cells of LSTM, GRU and RNN, written as MatMuls and elementwise operators."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from xoptim.match import GraphView, Node

from .._nodes import is_op
from .._shapes import unstretched
from ._sums import Block, Source, Sum, SumReader, Term, is_zero

_MAX_WEIGHT: Final = 1e4
"""Largest magnitude of weights and biases with which the order of sums only changes rounding."""


@dataclass(frozen=True)
class Gate:
    """The sum that is the operand of a gate's activation.

    Attributes:
        terms: the MatMuls of the input and of the state before the step.
        bias: the bias, one number for each element of the state.
        state_bias: in a GRU with ``linear_before_reset``, the bias of the MatMul of the state.
    """

    terms: Sequence[Term]
    bias: np.ndarray
    state_bias: np.ndarray


@dataclass(frozen=True)
class Cell:
    """One step of a recurrence.

    Attributes:
        hidden: the state after the step, of shape (batch, hidden size).
        gates: the gates in the order of the ONNX operator. A gate is ``None`` if it multiplies only
            a state of zeros.
        nodes: the nodes of the step.
        cell_state: the cell state of an LSTM after the step.
        cell_state_before: the cell state before the step; empty if it is 0, or there is none.
        hidden_before: the state before the step; empty if it is 0. ``None`` if the formula does not
            tell which operand is the state (LSTM and RNN).
        activation: the activation of an RNN.
        resets_after: whether the reset gate of a GRU multiplies the result of the state's MatMul
            instead of the state (``linear_before_reset``).
    """

    hidden: str
    gates: Sequence[Gate | None]
    nodes: Sequence[Node]
    cell_state: str = ""
    cell_state_before: str = ""
    hidden_before: str | None = None
    activation: str = ""
    resets_after: bool = False

    def states(self) -> list[str]:
        """The tensors that may be the state before the step."""
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
        """Whether all weights and biases are finite, with magnitudes of at most 10,000.

        Then the order in which MatMuls and biases are added only changes rounding.
        """
        names = {block.name for block in (*self.inputs, *self.states)}
        constants = [g.get_computed_constant(name) for name in names]
        arrays = [*constants, *self.biases, *self.state_biases]
        return all(array is not None and np.abs(array).max() <= _MAX_WEIGHT for array in arrays)


def weights_of(cell: Cell, state: str) -> tuple[Weights, Source, str] | None:
    """The weights of a cell whose state before the step is ``state``, with the source of its input.

    ``None`` unless each gate is the sum of a MatMul of the input and a MatMul of the state.

    Returns:
        the weights, the source of the input, and the name of the input, which may be empty.
    """
    inputs, states, gates = list[Term](), list[Term](), list[Gate]()
    for gate in cell.gates:
        if gate is None or len(gate.terms) != 2:
            return None
        state_terms = [term for term in gate.terms if term.name == state]
        input_terms = [term for term in gate.terms if term.name != state]
        if len(state_terms) != 1:
            return None
        states += state_terms
        inputs += input_terms
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


def first_cell_input(cell: Cell, weights: Weights) -> tuple[Source, str] | None:
    """The source and the name of the input of a cell with these weights and a state of zeros.

    ``None`` for cells with other weights or another state.
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
    """Whether biases are equal, except for the rounding of sums of float32 constants."""
    return all(np.allclose(x, z, rtol=1e-9, atol=0) for x, z in zip(a, b, strict=True))


def _operand_orders(node: Node) -> Iterator[tuple[str, str]]:
    """The operands of a commutative node in both orders."""
    first, second = node.input
    yield first, second
    yield second, first


class _Reader:
    """Reads one cell, and collects its nodes.

    Args:
        g: the graph.
        nodes: nodes of the cell that were found before.
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
        """The gate whose activation computes a tensor, directly or before a slice of columns."""
        sums = SumReader(self._g)
        columns = sums.columns(name)
        node = None if columns is None else self._g.node_before(columns[0])
        if columns is None or not is_op(node, activation):
            return None
        total = sums.read_columns((node.input[0], *columns[1:]))
        if total is None or total.remainder:
            return None
        self._nodes |= {node: None, **sums.nodes}
        return Gate(total.terms, total.bias, np.zeros_like(total.bias))

    def total(self, name: str) -> Sum | None:
        """A tensor as a sum of MatMuls and biases."""
        sums = SumReader(self._g)
        total = sums.read(name)
        self._nodes |= sums.nodes
        return total

    def nodes(self) -> list[Node]:
        """The nodes of the cell in their order."""
        return sorted(self._nodes, key=lambda node: node.label)

    def state(self, name: str) -> str:
        """The name of a state, without an Expand to the batch; empty if the state is 0."""
        if not name or is_zero(self._g, name):
            return ""
        return unstretched(self._g, name) or name


def read_lstm(g: GraphView, hidden: str) -> Cell | None:
    """The LSTM cell o · tanh(f · c + i · tanh(j)) that computes ``hidden``, or ``None``."""
    node = g.node_before(hidden)
    if not is_op(node, "Mul"):
        return None
    for output_factor, activated in _operand_orders(node):
        tanh = g.node_before(activated)
        if not is_op(tanh, "Tanh"):
            continue
        cell_state = tanh.input[0]
        for kept_part, new_part in _summands(g, cell_state):
            reader = _Reader(g, (node, tanh))
            gates = _lstm_gates(reader, output_factor, new_part)
            kept = _kept_factors(reader, cell_state, kept_part)
            if gates is not None and kept is not None:
                input_gate, output_gate, cell_gate = gates
                forget_gate, old_state = kept
                in_order = (input_gate, output_gate, forget_gate, cell_gate)
                return Cell(hidden, in_order, reader.nodes(), cell_state, old_state)
    return None


def _summands(g: GraphView, cell_state: str) -> list[tuple[str, str]]:
    """The pairs (kept part, new part) whose sum may be the cell state of an LSTM.

    The kept part is empty if the previous cell state is 0.
    """
    node = g.node_before(cell_state)
    if is_op(node, "Mul"):
        return [("", cell_state)]
    return [*_operand_orders(node)] if is_op(node, "Add") else []


def _lstm_gates(
    reader: _Reader, output_factor: str, new_part: str
) -> tuple[Gate, Gate, Gate] | None:
    """The input gate, the output gate and the cell gate of an LSTM, or ``None``.

    The product of the input gate and the cell gate is the new part of the cell state.
    """
    output_gate, product = reader.gate(output_factor, "Sigmoid"), reader.op(new_part, "Mul")
    if output_gate is None or product is None:
        return None
    for first, second in _operand_orders(product):
        input_gate, cell_gate = reader.gate(first, "Sigmoid"), reader.gate(second, "Tanh")
        if input_gate is not None and cell_gate is not None:
            return input_gate, output_gate, cell_gate
    return None


def _kept_factors(
    reader: _Reader, cell_state: str, kept_part: str
) -> tuple[Gate | None, str] | None:
    """The forget gate and the cell state that it multiplies; ``(None, "")`` if nothing is kept.

    ``None`` instead of the pair if the kept part is not a product with a forget gate.
    """
    if not kept_part:
        return None, ""
    product = reader.op(kept_part, "Mul") if reader.op(cell_state, "Add") is not None else None
    for first, second in _operand_orders(product) if product is not None else ():
        forget_gate = reader.gate(first, "Sigmoid")
        if forget_gate is not None:
            return forget_gate, reader.state(second)
    return None


class _Update(NamedTuple):
    """The state of a GRU as ``(1 - gate) * candidate + gate * old_state``.

    Attributes:
        gate, candidate, old_state: tensors; ``old_state`` is empty if the state is 0.
        nodes: the nodes that compute the state from these tensors.
    """

    gate: str
    candidate: str
    old_state: str
    nodes: Sequence[Node]


def read_gru(g: GraphView, hidden: str) -> Cell | None:
    """The GRU cell (1 - z) · n + z · h, or n + z · (h - n), that computes ``hidden``, if any."""
    for update in _updates(g, hidden):
        reader = _Reader(g, update.nodes)
        gate, tanh = reader.gate(update.gate, "Sigmoid"), reader.op(update.candidate, "Tanh")
        total = None if tanh is None else reader.total(tanh.input[0])
        if gate is None or total is None or len(total.remainder) > 1:
            continue
        state = reader.state(update.old_state)
        form = _reset_after if total.remainder else _reset_before
        other_gates = form(reader, total, state)
        if other_gates is not None:
            gates = (gate, *other_gates)
            resets_after = bool(total.remainder)
            return Cell(hidden, gates, reader.nodes(), "", "", state, "", resets_after)
    return None


def _updates(g: GraphView, hidden: str) -> Iterator[_Update]:
    """All ways to read a tensor as the state of a GRU."""
    node = g.node_before(hidden)
    if is_op(node, "Mul"):
        for gate, candidate, nodes in _candidate_products(g, hidden):
            yield _Update(gate, candidate, "", nodes)
    if not is_op(node, "Add"):
        return
    for first, second in _operand_orders(node):
        product = g.node_before(second)
        if not is_op(product, "Mul"):
            continue
        for gate, factor in _operand_orders(product):
            difference = g.node_before(factor)
            if is_op(difference, "Sub") and difference.input[1] == first:
                yield _Update(gate, first, difference.input[0], (node, product, difference))
            for inner_gate, candidate, nodes in _candidate_products(g, first):
                if inner_gate == gate:
                    yield _Update(gate, candidate, factor, (node, product, *nodes))


def _candidate_products(g: GraphView, name: str) -> Iterator[tuple[str, str, tuple[Node, ...]]]:
    """The gate, the candidate state and the nodes of ``(1 - gate) * candidate``."""
    product = g.node_before(name)
    for factor, candidate in _operand_orders(product) if is_op(product, "Mul") else ():
        node = g.node_before(factor)
        if is_op(node, "Sub") and product and g.is_constant_scalar(node.input[0], 1.0):
            yield node.input[1], candidate, (product, node)


def _reset(reader: _Reader, name: str) -> tuple[Gate, str] | None:
    """The gate and the other factor of a product; ``None`` for other tensors."""
    product = reader.op(name, "Mul")
    for first, second in _operand_orders(product) if product is not None else ():
        gate = reader.gate(first, "Sigmoid")
        if gate is not None:
            return gate, second
    return None


def _reset_after(reader: _Reader, total: Sum, state: str) -> tuple[Gate, Gate] | None:
    """The gates of a GRU whose reset gate multiplies the result of the state's MatMul.

    The operand of the Tanh is the sum of the input's MatMuls and of this product.

    Returns:
        the reset gate and the candidate state; ``None`` for other sums.
    """
    name, start, end = total.remainder[0]
    reset = None if start or end != total.bias.size else _reset(reader, name)
    inner = None if reset is None else reader.total(reset[1])
    if reset is None or inner is None or inner.remainder:
        return None
    if any(term.name == state for term in total.terms):
        return None
    if any(term.name != state for term in inner.terms):
        return None
    return reset[0], Gate([*total.terms, *inner.terms], total.bias, inner.bias)


def _reset_before(reader: _Reader, total: Sum, state: str) -> tuple[Gate | None, Gate] | None:
    """The gates of a GRU whose reset gate multiplies the state before its MatMul.

    Returns:
        the reset gate and the candidate state; ``None`` for other sums. The reset gate is ``None``
        if the state is 0 and not reset.
    """
    gate, terms = None, list[Term]()
    for term in total.terms:
        reset = _reset(reader, term.name) if term.name else None
        if reset is None:
            terms.append(term)
            continue
        gate, reset_state = reset[0], reader.state(reset[1])
        if reset_state != state:
            return None
        terms += [Term(Source(reset_state), reset_state, term.block)] if reset_state else []
    if gate is None and state:
        return None
    return gate, Gate(terms, total.bias, np.zeros_like(total.bias))


def read_rnn(g: GraphView, hidden: str) -> Cell | None:
    """The RNN cell that computes ``hidden``, tanh or relu of a sum of MatMuls, or ``None``."""
    node = g.node_before(hidden)
    if not is_op(node, "Tanh", "Relu"):
        return None
    reader = _Reader(g, ())
    gate = reader.gate(hidden, node.op_type)
    if gate is None:
        return None
    return Cell(hidden, (gate,), reader.nodes(), activation=node.op_type)
