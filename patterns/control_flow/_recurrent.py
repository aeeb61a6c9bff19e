"""LSTM, GRU and RNN in place of their cells."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from xoptim.match import GraphView, Node, PatternRewriter

from ._cells import Cell, Weights, begins_at_zero, equal_weights, weights_of
from ._sums import Block, Source

Read = Callable[[GraphView, str], Cell | None]


@dataclass(frozen=True)
class Chain:
    """Equal cells, each of which reads the state of the one before.

    Attributes:
        cells: in the order in which they run.
        inputs: where the input of each cell comes from, and its name, which may be empty.
        weights: of all cells.
        hidden, memory: the states before the first cell; empty for zeros.
    """

    cells: Sequence[Cell]
    inputs: Sequence[tuple[Source, str]]
    weights: Weights
    hidden: str
    memory: str

    def nodes(self) -> list[Node]:
        """The nodes of all cells in their order."""
        nodes = {node for cell in self.cells for node in cell.nodes}
        return sorted(nodes, key=lambda node: node.label)


def weights_before(g: GraphView, last: Cell, read: Read) -> Weights | None:
    """The weights of a cell if it reads the state of another cell; ``None`` otherwise."""
    for state in last.states():
        own = weights_of(last, state)
        before = read(g, state) if own is not None and state else None
        if own is None or before is None or before.memory != last.memory_before:
            continue
        if _step(before, own[0]) is not None:
            return own[0]
    return None


def chain_of(g: GraphView, last: Cell, weights: Weights, read: Read) -> Chain:
    """The longest chain of cells with some weights that ends with a cell."""
    cells, inputs = list[Cell](), list[tuple[Source, str]]()
    cell: Cell | None = last
    hidden, memory = last.hidden, last.memory
    while cell is not None and (cell.hidden, cell.memory) == (hidden, memory):
        step = _step(cell, weights)
        if step is None:
            break
        hidden, memory = step[0], cell.memory_before
        cells.append(cell)
        inputs.append(step[1:])
        cell = read(g, hidden) if g.same_shape(hidden, last.hidden) else None
    return Chain(cells[::-1], inputs[::-1], weights, hidden, memory)


def _step(cell: Cell, weights: Weights) -> tuple[str, Source, str] | None:
    """The state before a cell with these weights, empty for zeros, and where its input comes from.

    ``None`` for other weights.
    """
    for state in cell.states():
        own = weights_of(cell, state) if state else None
        if own is not None and equal_weights(own[0], weights):
            return state, *own[1:]
    zeros = begins_at_zero(cell, weights)
    return None if zeros is None else ("", *zeros)


def operands(g: PatternRewriter, weights: Weights) -> tuple[str, str, np.ndarray | None]:
    """The weights of the inputs and of the states, and the biases, of an operator in one direction;
    no biases where all are 0.
    """
    inputs, states = (_stack(g, blocks) for blocks in (weights.inputs, weights.states))
    biases = np.concatenate([*weights.biases, *weights.state_biases]).astype(np.float32)
    return inputs, states, biases[None] if biases.any() else None


def _stack(g: PatternRewriter, blocks: Sequence[Block]) -> str:
    """The weights of all gates, of shape (1, gates * hidden size, features)."""
    rows = [_transposed(g, block) for block in blocks]
    stack = g.op.Concat(*rows, axis=0) if len(rows) > 1 else rows[0]
    result: str = g.op.Unsqueeze(stack, axes=[0])
    return result


def _transposed(g: PatternRewriter, block: Block) -> str:
    """The weights of a gate, of shape (hidden size, features)."""
    name, spans = block.name, [block.outputs, block.features]
    if not block.is_transposed:
        name = g.op.Transpose(name, perm=[1, 0])
    shape = g.static_shape(block.name) or ()
    sizes = shape if block.is_transposed else shape[::-1]
    cut = [axis for axis in (0, 1) if spans[axis] != (0, sizes[axis])]
    if cut:
        starts, ends = ([spans[axis][end] for axis in cut] for end in (0, 1))
        name = g.op.Slice(name, starts=starts, ends=ends, axes=cut)
    return name


def initial_state(g: PatternRewriter, name: str, x: str, size: int) -> str:
    """The states before the first step, of shape (1, batch, hidden size), for an input of shape
    (steps, batch, features).
    """
    shape, whole = g.try_infer_shape(name), g.try_infer_shape(x)
    if shape is None or whole is None or shape != (whole[1], size):
        batch = g.op.Slice(g.op.Shape(x), starts=[1], ends=[2], axes=[0])
        name = g.op.Expand(name, g.op.Concat(batch, np.array([size]), axis=0))
    result: str = g.op.Unsqueeze(name, axes=[0])
    return result
