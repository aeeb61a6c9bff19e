"""Sums of MatMuls and biases, from which recurrent cells compute their gates."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np

from xoptim.match import GraphView, Node

from .._nodes import axis_of, is_op, size_along
from .._selections import index_of, part_of
from .._shapes import uniform_value, unstretched

_RANK: Final = 3
"""The rank of a tensor of all steps."""
_MAX_BIAS: Final = 1 << 20
"""Maximum number of elements of a constant that is read as a bias."""
_MAX_SUMMANDS: Final = 32
Columns = tuple[str, int, int]
"""A matrix, and a range of its columns: the first column, and the end after the last one."""


class Source(NamedTuple):
    """A tensor of rank 3 and the index at which it holds a matrix (batch, features).

    If a matrix does not come from such a tensor, its source is the matrix itself.

    Attributes:
        name: the tensor, or the matrix itself.
        axis: the indexed axis of the tensor; -1 for the matrix itself.
        place: the index along this axis; -1 for the matrix itself.
    """

    name: str
    axis: int = -1
    place: int = -1


class Block(NamedTuple):
    """A block of a constant matrix of weights.

    Attributes:
        name: the matrix, of shape (features, outputs).
        is_transposed: whether its shape is (outputs, features) instead.
        features: the range of features, as start and end.
        outputs: the range of outputs, as start and end.
    """

    name: str
    is_transposed: bool
    features: tuple[int, int]
    outputs: tuple[int, int]


class Term(NamedTuple):
    """The MatMul of a matrix and a block of weights.

    Attributes:
        source: the source of the matrix.
        name: the matrix, without an Expand to the batch; empty if one MatMul computes all steps.
        block: the weights.
    """

    source: Source
    name: str
    block: Block


@dataclass
class Sum:
    """A matrix as a sum.

    Attributes:
        terms: the MatMuls by weights.
        bias: the sum of all constants, one number for each column.
        remainder: summands that are neither MatMuls by weights nor constants.
    """

    terms: list[Term] = field(default_factory=list)
    bias: np.ndarray = field(default_factory=lambda: np.zeros(1))
    remainder: list[Columns] = field(default_factory=list)


def is_zero(g: GraphView, name: str) -> bool:
    """Whether all elements of a tensor are known to be 0."""
    value = uniform_value(g, name)
    return value is not None and not value.any()


def source_of(g: GraphView, name: str) -> Source:
    """The tensor of rank 3 from which a matrix is taken, with the index, or the matrix itself."""
    node = g.node_before(name)
    # A Gather by a scalar drops the axis. After a Gather by a vector, a Squeeze drops it.
    gather_drops_axis = is_op(node, "Gather")
    if is_op(node, "Squeeze"):
        axes, rank = g.get_argument(node, "axes"), g.info(node.input[0]).rank
        if not isinstance(axes, list) or len(axes) != 1 or rank != _RANK:
            return Source(name)
        axis = axes[0] % rank
        tensor, start, _ = part_of(g, node.input[0], axis)
        if tensor != node.input[0]:
            return Source(tensor, axis, start)
        node = g.node_before(tensor)
    index = index_of(g, node)
    if index is None or index.drops != gather_drops_axis or g.info(index.source).rank != _RANK:
        return Source(name)
    return Source(index.source, index.axis, index.start)


class SumReader:
    """Reads tensors as sums of MatMuls and biases.

    Attributes:
        nodes: the nodes of all sums that were read, in no order.
    """

    def __init__(self, g: GraphView) -> None:
        self._g = g
        self.nodes: dict[Node, None] = {}

    def columns(self, name: str) -> Columns | None:
        """The columns of the source from which a matrix is sliced, or else its own columns.

        ``None`` if the number of columns is unknown.
        """
        if not isinstance(size_along(self._g, name, 1), int):
            return None
        source, start, end = part_of(self._g, name, 1)
        while name != source:
            node = self._g.node_before(name)
            assert node is not None
            self.nodes[node] = None
            name = node.input[0]
        return source, start, end

    def read(self, name: str) -> Sum | None:
        """A matrix as a sum; ``None`` if its width is unknown, or a bias differs between rows."""
        columns = self.columns(name)
        return None if columns is None else self.read_columns(columns)

    def read_columns(self, columns: Columns) -> Sum | None:
        """Columns of a matrix as a sum; see `read`."""
        total = Sum(bias=np.zeros(columns[2] - columns[1]))
        pending = [columns]
        for _ in range(_MAX_SUMMANDS):
            if not pending:
                return total
            summands = self._summands(pending.pop(), total)
            if summands is None:
                return None
            pending += summands
        return None

    def _summands(self, columns: Columns, total: Sum) -> list[Columns] | None:
        """Add a summand to ``total``, or return the summands of which it consists.

        ``None`` if it is a constant that is not a bias.
        """
        g, (name, start, end) = self._g, columns
        if g.is_constant(name):
            bias = self._bias(*columns)
            if bias is not None:
                total.bias = total.bias + bias
            return None if bias is None else []
        node = g.node_before(name)
        if is_op(node, "Split", "Slice") and isinstance(size_along(g, name, 1), int):
            source, first, _ = part_of(g, name, 1)
            if source != name:
                self.columns(name)  # adds the Splits and Slices to `nodes`
                return [(source, first + start, first + end)]
        if is_op(node, "Add") and self._have_all_columns(node, node.input):
            self.nodes[node] = None
            return [(operand, start, end) for operand in node.input]
        if is_op(node, "MatMul", "Gemm") and self._have_all_columns(node, node.input[2:]):
            terms = self._matmul_terms(node, start, end)
            if terms is not None:
                total.terms += terms
                self.nodes[node] = None
                return [(name, start, end) for name in node.input[2:] if name]
        if is_op(node, "Gather") and self._add_step(node, start, end, total):
            return []
        total.remainder.append(columns)
        return []

    def _have_all_columns(self, node: Node, summands: Sequence[str]) -> bool:
        """Whether all summands of a node, except constants, have as many columns as its result."""
        size = size_along(self._g, node.output[0], 1)
        varying = [name for name in summands if name and not self._g.is_constant(name)]
        return isinstance(size, int) and all(
            self._g.info(name).rank == 2 and size_along(self._g, name, 1) == size
            for name in varying
        )

    def _bias(self, name: str, start: int, end: int) -> np.ndarray | None:
        """The row of a constant with equal rows, for a range of columns; ``None`` for others."""
        shape = self._g.static_shape(name)
        if shape is None or len(shape) > 2 or np.prod(shape, dtype=int) > _MAX_BIAS:
            return None
        array = self._g.get_computed_constant(name)
        if array is None or not array.size:
            return None
        rows = array.reshape(-1, shape[-1] if shape else 1)
        if (rows != rows[0]).any():
            return None
        row = rows[0].astype(np.float64)
        return np.full(end - start, row[0]) if row.size == 1 else row[start:end]

    def _matmul_terms(self, node: Node, start: int, end: int) -> list[Term] | None:
        """The terms of a MatMul, or of a Gemm without its bias.

        A MatMul of concatenated matrices has several terms. ``None`` if the weights are computed.
        """
        g = self._g
        is_gemm = node.op_type == "Gemm"
        if is_gemm and (
            node.get_attribute("transA", 0)
            or node.get_attribute("alpha", 1.0) != 1
            or (len(node.input) > 2 and node.get_attribute("beta", 1.0) != 1)
        ):
            return None
        x, weights = node.input[:2]
        if not g.is_constant(weights) or g.info(weights).rank != 2 or g.info(x).rank != 2:
            return None
        is_transposed = is_gemm and bool(node.get_attribute("transB", 0))
        terms, first = list[Term](), 0
        for name in self._concatenated(x):
            size = size_along(g, name, 1)
            if not isinstance(size, int):
                return None
            block = Block(weights, is_transposed, (first, first + size), (start, end))
            first += size
            if not is_zero(g, name):
                terms.append(Term(source_of(g, name), unstretched(g, name) or name, block))
        return terms

    def _concatenated(self, name: str) -> Iterator[str]:
        """The matrices that a Concat along the columns joins, or else the matrix itself."""
        node = self._g.node_before(name)
        if not is_op(node, "Concat") or axis_of(self._g, node) != 1:
            yield name
            return
        self.nodes[node] = None
        for operand in node.input:
            yield from self._concatenated(operand)

    def _add_step(self, gather: Node, start: int, end: int, total: Sum) -> bool:
        """Add the step that a Gather takes from the result of a MatMul for all steps.

        Returns whether the Gather takes a step of such a MatMul; if not, ``total`` is unchanged.
        """
        g, index = self._g, index_of(self._g, gather)
        name, biases = gather.input[0], list[np.ndarray]()
        if index is None or not index.drops or index.axis > 1:
            return False
        while is_op(node := g.node_before(name), "Add"):
            constants = [operand for operand in node.input if g.is_constant(operand)]
            bias = self._bias(constants[0], start, end) if len(constants) == 1 else None
            if bias is None:
                return False
            biases.append(bias)
            (name,) = (operand for operand in node.input if operand not in constants)
        if not is_op(node, "MatMul"):
            return False
        x, weights = node.input
        size = size_along(g, x, 2)
        if g.info(x).rank != _RANK or g.info(weights).rank != 2 or not isinstance(size, int):
            return False
        columns = size_along(g, gather.output[0], 1)  # A bias may broadcast a single column.
        if not g.is_constant(weights) or size_along(g, weights, 1) != columns:
            return False
        block = Block(weights, False, (0, size), (start, end))
        total.terms.append(Term(Source(x, index.axis, index.start), "", block))
        total.bias = total.bias + sum(biases)
        return True
