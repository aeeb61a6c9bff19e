"""The views of a node that the facets of operators read, and the types of these facets."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias

import numpy as np

from xoptim.facts.dims import Dim, SymbolicDim
from xoptim.facts.shapes import Info

Array: TypeAlias = np.ndarray[Any, Any]
Results: TypeAlias = Sequence[Info | None]


class NodeContext(Protocol):
    """The view of one node that a formula reads. Inputs and outputs are positions, never names."""

    op_type: str
    domain: str
    opset: int
    """Version of the operator set of ``domain`` that the model imports."""
    inputs: Sequence[Info | None]
    """Facts about each input.

    ``None`` for an optional input that is omitted; inputs omitted at the end may be missing.
    """
    num_outputs: int

    def input(self, index: int) -> Info | None:
        """Facts about an input, ``None`` when it is absent or beyond the end."""

    def attribute(self, name: str, default: Any = None) -> Any:
        """Value of an attribute in Python terms (int, float, str, list, ndarray, ...), ``default``
        when absent.
        """

    def constant(self, index: int) -> np.ndarray | None:
        """Value of an input when it is a constant small enough to be read, else ``None``."""

    def ints(self, index: int) -> list[int] | None:
        """Elements of an integer input when all of them are known numbers, flattened, else
        ``None``.
        """

    def data(self, index: int) -> tuple[Dim, ...] | None:
        """Elements of an integer input of rank 0 or 1, numbers or symbols, when known."""

    def fresh(self, *, nonnegative: bool = True) -> SymbolicDim:
        """A new anonymous symbol, equal only to itself."""

    def assumes(self, word: str) -> bool:
        """Whether a default assumption, such as ``addressable``, holds for the model."""

    def body(self, name: str, inputs: Sequence[Info | None] | None = None) -> list[Info]:
        """Facts about the outputs of the subgraph in attribute ``name``.

        ``inputs`` are facts about the formal inputs of the body (Loop, Scan, SequenceMap) that hold
        at every iteration.
        """


Formula: TypeAlias = Callable[[Any], Results]
"""Takes a `NodeContext`, returns facts about each output (a shorter list leaves the rest
unknown).
"""


class NodeView(Protocol):
    """The view of one node, with the names of its operands, that descriptions of axes and counts of
    operations read.
    """

    @property
    def op_type(self) -> str:
        """The operator."""

    @property
    def domain(self) -> str:
        """The domain of the operator."""

    @property
    def opset(self) -> int:
        """Version of the operator set of the domain that the model imports."""

    @property
    def input(self) -> Sequence[str]:
        """The names of the operands."""

    @property
    def output(self) -> Sequence[str]:
        """The names of the results."""

    @property
    def attribute(self) -> Mapping[str, Any]:
        """The attributes that are written."""

    def get_attribute(self, name: str, default: Any = None) -> Any:
        """An attribute as written, else its default."""


class EvaluationNode(Protocol):
    """The view of one node that a kernel reads."""

    op_type: str
    domain: str
    opset: int
    """Version of the operator set of ``domain`` that the model imports."""
    num_outputs: int
    """Number of outputs that the node declares; one that is omitted in the middle counts."""

    def attribute(self, name: str, default: Any = None) -> Any:
        """Value of an attribute in Python terms, ``default`` when absent.

        A tensor is a ``TensorProto`` or an array.
        """
        ...


Kernel: TypeAlias = Callable[[EvaluationNode, list[Array | None]], list[Array] | None]
"""Takes the node and the values of its inputs (``None`` where an optional one is omitted), returns
the outputs.

The outputs hold the bits that onnxruntime's CPU provider would compute. They may share memory with
the inputs: arrays are never written to. ``None`` means that the kernel declines: another evaluator
has to compute the node.
"""


OperandKind: TypeAlias = Literal[
    "index",  # an integer from 0 to a limit
    "mask",  # 0 or 1, at least one 1
    "positive",  # well above 0 (a division of integers by 0 ends the process)
    "unit",  # from -1 to 1
    "zero",
    "one",
    "count",  # a few
    "all",  # larger than any axis, such as the end of a Slice
    "axes",  # 0, 1, 2, ...
    "keep",  # -1, then ones: a target of a Reshape that fits a tensor of any size
]
"""The values of an operand with which an operator runs, and does something typical."""


class Indices(NamedTuple):
    """An operand of indices into another operand.

    Attributes:
        table: position of the operand that is indexed.
        axis: the axis that is indexed: its number, the name of the attribute that holds the number,
            or ``all``: the last axis of the indices has one index for each axis.
    """

    table: int = 0
    axis: int | str = 0


class Lengths(NamedTuple):
    """An operand of lengths, from 1 to the size of an axis of another operand.

    Attributes:
        table: position of that operand.
        axis: the number of the axis, or the name of the attribute that holds the number.
    """

    table: int = 0
    axis: int | str = 0
