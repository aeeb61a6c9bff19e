"""Constants that repeat along axes: one copy is kept, and a node writes them where the model has no room for the whole."""

import hashlib
from typing import Final

import numpy as np
from onnx import TensorProto

from xoptim.graph.constants import store
from xoptim.graph.graph import Graph
from xoptim.graph.node import Node
from xoptim.graph.tensors import Tensor
from xoptim.graph.walk import readers

_LEAST: Final = 1 << 10
"""Bytes up to which a constant is stored whole in any case."""
_BITS: Final = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
_FILLED_SINCE: Final = 9
"""Operator set of ConstantOfShape."""
_EXPAND_SINCE: Final = 8
_MAKERS: Final = ("ConstantOfShape", "Expand")
_TYPES: Final = (
    *(TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16),
    *(TensorProto.INT32, TensorProto.INT64, TensorProto.BOOL),
)
"""Element types for which runtimes have kernels of the makers."""


class ExpandedTensor(Tensor):
    """A constant that keeps one copy of its repeated elements, the ``core``, which has size 1 along the axes that repeat.

    ``maker`` is the node that computed the constant in the model, and its operands, if it is one that `write` could make.
    """

    __slots__ = ("_maker", "core")

    def __init__(self, core: np.ndarray, shape: tuple[int, ...], maker: tuple[Node, tuple[Tensor, ...]] | None = None) -> None:
        super().__init__(np.broadcast_to(core, shape))
        self.core = core
        self._maker = maker

    @property
    def stored_bytes(self) -> int:
        """Bytes of the elements that are kept."""
        return self.core.nbytes

    def _find_uniform(self) -> np.ndarray | None:
        return self.core.reshape(()) if self.core.size == 1 else None

    def _find_sample(self, number: int) -> bytes:
        return b""

    def _content(self) -> object:
        return "expanded", self.core.shape, hashlib.blake2b(self.core.tobytes(), digest_size=20).digest()

    def write(self, graph: Graph, name: str) -> Node:
        """Replace this constant of a graph by a node that computes it, right before the first node that reads it.

        Returns the node: the one that computed it in the model as loaded, where its operands are as they were.
        """
        first = min(readers(graph, name), key=lambda node: node.label)
        node = self._former(graph, name) or self._made(graph, name)
        graph.remove_initializer(name)
        graph.insert(node, first.previous)
        graph.learn(name, self.info())
        graph.learn_constness(node)
        return node

    def _former(self, graph: Graph, name: str) -> Node | None:
        """The node that computed the constant in the model, its operands stored again where nothing else read them."""
        if self._maker is None or self._maker[0].output != (name,):
            return None
        node, operands = self._maker
        present = [graph.tensor(operand) for operand in node.input]
        if any(
            (now is not None and now.key() != then.key()) or (now is None and graph.scope(operand) is not None)
            for operand, now, then in zip(node.input, present, operands, strict=True)
        ):
            return None
        for operand, now, then in zip(node.input, present, operands, strict=True):
            if now is None:
                graph.add_initializer(operand, then)
        return node

    def _made(self, graph: Graph, name: str) -> Node:
        sizes = np.array(self.shape, np.int64)
        if self.core.size == 1 and graph.opsets[""] >= _FILLED_SINCE:
            value = {"value": Tensor.from_array(self.core.reshape(1)).to_proto("")}
            operands = [_stored(graph, f"{name}_shape", sizes)]
            return Node("ConstantOfShape", operands, [name], value, name=graph.node_names.fresh("ConstantOfShape"))
        operands = [_stored(graph, f"{name}_part", self.core), _stored(graph, f"{name}_shape", sizes)]
        return Node("Expand", operands, [name], name=graph.node_names.fresh("Expand"))


def expanded(graph: Graph, tensor: Tensor, maker: Node | None = None) -> ExpandedTensor | None:
    """A constant that a graph is going to store, not an external one, as one that repeats; ``maker`` computes it, if anything.

    ``None`` when it does not repeat, is small, or the model cannot make it from its elements.
    """
    if isinstance(tensor, ExpandedTensor):
        return tensor
    if tensor.is_external or tensor.nbytes <= _LEAST or not _can_write(graph, tensor.dtype):
        return None
    core = _core(tensor.numpy())
    if core is None:
        return None
    if maker is None or maker.op_type not in _MAKERS:
        return ExpandedTensor(core, tensor.shape)
    operands = tuple(t for t in map(graph.tensor, maker.input) if t is not None)
    return ExpandedTensor(core, tensor.shape, (maker, operands) if len(operands) == len(maker.input) else None)


def reads_expanded(graph: Graph, node: Node) -> bool:
    """Whether an operand of a node is kept as one copy of the elements that repeat."""
    return any(name and isinstance(graph.tensor(name), ExpandedTensor) for name in node.input)


def _can_write(graph: Graph, dtype: int) -> bool:
    """Whether a node of the model can make constants of a type: runtimes have kernels for it, and no function hides them."""
    opset, hidden = graph.opsets.get("", 0), graph.model.hidden_operators
    return opset >= _EXPAND_SINCE and dtype in _TYPES and not any(("", each) in hidden for each in _MAKERS)


def _core(array: np.ndarray) -> np.ndarray | None:
    """The elements without repetitions: those at 0 along each axis that repeats, bit by bit; ``None`` without such an axis."""
    core = array.view(_BITS[array.dtype.itemsize])
    for axis in range(core.ndim):
        first = core[(slice(None),) * axis + (slice(1),)]
        if core.shape[axis] > 1 and (core.strides[axis] == 0 or _repeats(core, first, axis)):
            core = first
    return core.copy().view(array.dtype) if core.shape != array.shape else None


def _repeats(array: np.ndarray, first: np.ndarray, axis: int) -> bool:
    second = array[(slice(None),) * axis + (slice(1, 2),)]  # most arrays differ here, so the rest is rarely read
    return bool((second == first).all()) and bool((array == first).all())


def _stored(graph: Graph, hint: str, array: np.ndarray) -> str:
    """The name of a stored constant of a graph, which is added if there is none with this value."""
    tensor = Tensor.from_array(array)
    for name, other in graph.initializers.items():
        is_alike = (other.dtype, other.shape) == (tensor.dtype, tensor.shape) and name not in graph.overridable
        if is_alike and other.key() == tensor.key():
            return name
    return store(graph, hint, array)
