"""Chains of LSTM, GRU or RNN cells, and the operands of the operator that replaces them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from xoptim.match import GraphView, Node, PatternRewriter

from ._cells import Cell, Weights, equal_weights, first_cell_input, weights_of
from ._sums import Block, Source

CellReader = Callable[[GraphView, str], Cell | None]
"""Returns the cell that computes a state of this name, such as `_cells.read_lstm`."""


@dataclass(frozen=True)
class Chain:
    """Cells with equal weights, each of which reads the state of its predecessor.

    Attributes:
        cells: the cells, in the order in which they run.
        inputs: the source and the name of the input of each cell; the name may be empty.
        weights: the common weights.
        hidden, cell_state: the states before the first cell; empty for zeros.
    """

    cells: Sequence[Cell]
    inputs: Sequence[tuple[Source, str]]
    weights: Weights
    hidden: str
    cell_state: str

    def nodes(self) -> list[Node]:
        """The nodes of all cells in their order."""
        nodes = {node for cell in self.cells for node in cell.nodes}
        return sorted(nodes, key=lambda node: node.label)


def weights_before(g: GraphView, last: Cell, read: CellReader) -> Weights | None:
    """The weights of a cell if it reads the state of a cell with equal weights, else ``None``."""
    for state in last.states():
        parts = weights_of(last, state)
        preceding_cell = read(g, state) if parts is not None and state else None
        if parts is None or preceding_cell is None:
            continue
        if preceding_cell.cell_state != last.cell_state_before:
            continue
        if _step(preceding_cell, parts[0]) is not None:
            return parts[0]
    return None


def chain_of(g: GraphView, last: Cell, weights: Weights, read: CellReader) -> Chain:
    """The longest chain of cells with these weights that ends with the cell ``last``."""
    cells, inputs = list[Cell](), list[tuple[Source, str]]()
    cell: Cell | None = last
    hidden, cell_state = last.hidden, last.cell_state
    while cell is not None and (cell.hidden, cell.cell_state) == (hidden, cell_state):
        step = _step(cell, weights)
        if step is None:
            break
        hidden, cell_state = step[0], cell.cell_state_before
        cells.append(cell)
        inputs.append(step[1:])
        cell = read(g, hidden) if g.same_shape(hidden, last.hidden) else None
    return Chain(cells[::-1], inputs[::-1], weights, hidden, cell_state)


def _step(cell: Cell, weights: Weights) -> tuple[str, Source, str] | None:
    """The state before a cell with these weights, and the source and the name of its input.

    The state is empty for zeros. ``None`` for a cell with other weights.
    """
    for state in cell.states():
        parts = weights_of(cell, state) if state else None
        if parts is not None and equal_weights(parts[0], weights):
            return state, *parts[1:]
    zeros = first_cell_input(cell, weights)
    return None if zeros is None else ("", *zeros)


def operands(g: PatternRewriter, weights: Weights) -> tuple[str, str, np.ndarray | None]:
    """The operands W, R and B of an operator with one direction; B is ``None`` if it is 0."""
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
    """The states before the first step, of shape (1, batch, hidden size).

    ``x`` is the input, of shape (steps, batch, features).
    """
    shape, input_shape = g.try_infer_shape(name), g.try_infer_shape(x)
    if shape is None or input_shape is None or shape != (input_shape[1], size):
        batch = g.op.Slice(g.op.Shape(x), starts=[1], ends=[2], axes=[0])
        name = g.op.Expand(name, g.op.Concat(batch, np.array([size]), axis=0))
    result: str = g.op.Unsqueeze(name, axes=[0])
    return result
