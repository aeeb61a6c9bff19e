"""Constants that repeat along axes and are kept as one copy, and results of nodes as views of
stored constants.
"""

import hashlib
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Final, TypeAlias

import numpy as np
from onnx import TensorProto

from xoptim.facts.dtypes import bits, byte_size, numpy_dtype
from xoptim.graph.constants import EvaluationView, store
from xoptim.graph.graph import Graph
from xoptim.graph.node import Node
from xoptim.graph.tensors import Tensor
from xoptim.graph.views import Elementwise, Joined, View, reshaped, sliced, transposed
from xoptim.graph.walk import readers
from xoptim.operators.concatenation import split_lengths
from xoptim.operators.evaluate.kernel_table import checked_axis
from xoptim.operators.registry import Trait, operators_with
from xoptim.operators.slicing import slice_ranges

VIEW_LEAST: Final = 1 << 20
"""Minimal number of bytes of the largest operand: results of smaller ones are computed at once."""
_Viewer: TypeAlias = Callable[[EvaluationView, list[Tensor], Sequence[int]], list[Tensor] | None]
"""Takes a node, its operands and the shape of its first result.

Returns its results, ``None`` when it declines.
"""
_UFUNCS: Final = {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": np.divide}
_SINGLE, _DOUBLE, _HALF, _BFLOAT16 = (
    TensorProto.FLOAT,
    TensorProto.DOUBLE,
    TensorProto.FLOAT16,
    TensorProto.BFLOAT16,
)
_CASTS: Final = frozenset(
    [
        (source, target)
        for source in (_HALF, _BFLOAT16, TensorProto.INT8, TensorProto.UINT8)
        for target in (_SINGLE, _DOUBLE)
    ]
    + [(_SINGLE, _DOUBLE), (_SINGLE, _HALF), (_SINGLE, _BFLOAT16), (_DOUBLE, _SINGLE)]
)
"""Types between which every number is cast as the standard says, by numpy and onnxruntime alike."""


def views_of(graph: Graph, node: Node, operands: Sequence[Tensor | None]) -> list[Tensor] | None:
    """The results of a node as views, ``None`` when they are small, or the operator has no view.

    All operands are stored; ``None`` stands for an omitted operand.
    """
    info = graph.known(node.output[0])
    shape = None if info is None else info.static_shape
    viewer = _VIEWERS.get(node.op_type) if not node.domain else None
    tensors = [operand for operand in operands if operand is not None]
    if (
        viewer is None
        or shape is None
        or len(tensors) != len(operands)
        or not any(tensor.is_external for tensor in tensors)
    ):
        return None
    if max(tensor.nbytes for tensor in tensors) < VIEW_LEAST or any(
        bits(tensor.dtype) < 8 for tensor in tensors
    ):
        return None
    try:
        return viewer(EvaluationView(node), tensors, shape)
    except (ValueError, IndexError, TypeError):  # a malformed node
        return None


def _values(operands: list[Tensor]) -> list[np.ndarray | None]:
    """The operands as arrays, ``None`` for the first one, whose numbers are not read."""
    return [None, *(operand.numpy() for operand in operands[1:])]


def _reshape(
    _: EvaluationView, operands: list[Tensor], shape: Sequence[int]
) -> list[Tensor] | None:
    return (
        [reshaped(operands[0], shape)] if np.prod(shape, dtype=object) == operands[0].size else None
    )


def _transpose(
    node: EvaluationView, operands: list[Tensor], _: Sequence[int]
) -> list[Tensor] | None:
    rank = len(operands[0].shape)
    perm = node.attribute("perm") or list(range(rank))[::-1]
    return [transposed(operands[0], perm)] if sorted(perm) == list(range(rank)) else None


def _slice(node: EvaluationView, operands: list[Tensor], _: Sequence[int]) -> list[Tensor] | None:
    source = operands[0]
    ranges = slice_ranges(node, _values(operands), source.shape)
    if ranges is None:
        return None
    spans = [range(dim)[span] for span, dim in zip(ranges, source.shape, strict=True)]
    return (
        [sliced(source, [r.start for r in spans], [r.step for r in spans], [len(r) for r in spans])]
        if all(spans)
        else None
    )


def _split(node: EvaluationView, operands: list[Tensor], _: Sequence[int]) -> list[Tensor] | None:
    source = operands[0]
    axis = checked_axis(node.attribute("axis", 0), len(source.shape))
    lengths = split_lengths(node, _values(operands), source.shape[axis])
    if lengths is None or not all(lengths):
        return None
    parts = []
    for end, length in zip(accumulate(lengths), lengths, strict=True):
        starts = [end - length if a == axis else 0 for a in range(len(source.shape))]
        shape = [length if a == axis else dim for a, dim in enumerate(source.shape)]
        parts.append(sliced(source, starts, [1] * len(shape), shape))
    return parts


def _concat(node: EvaluationView, operands: list[Tensor], _: Sequence[int]) -> list[Tensor] | None:
    axis = checked_axis(
        node.attribute("axis", 1 if node.opset < 4 else None), len(operands[0].shape)
    )
    signatures = {
        (operand.dtype, operand.shape[:axis], operand.shape[axis + 1 :]) for operand in operands
    }
    return (
        [Joined(operands, axis)]
        if len(signatures) == 1 and all(operand.size for operand in operands)
        else None
    )


def _cast(
    node: EvaluationView, operands: list[Tensor], shape: Sequence[int]
) -> list[Tensor] | None:
    target = node.attribute("to")
    if target == operands[0].dtype:
        return [operands[0]]
    if (operands[0].dtype, target) not in _CASTS:
        return None
    dtype = numpy_dtype(target)
    return [Elementwise(lambda x: x.astype(dtype), "Cast", operands, target, shape)]


def _elementwise(
    node: EvaluationView, operands: list[Tensor], shape: Sequence[int]
) -> list[Tensor] | None:
    shapes = [operand.shape for operand in operands]
    if {operand.dtype for operand in operands} - {_SINGLE} and {
        operand.dtype for operand in operands
    } - {_DOUBLE}:
        return None  # onnxruntime computes chains of narrower floats in 32 bits
    if (
        len(operands) != 2
        or np.broadcast_shapes(*shapes) != tuple(shape)
        or (node.opset < 7 and shapes[0] != shapes[1])
    ):
        return None
    is_no_larger = byte_size(operands[0].dtype, int(np.prod(shape, dtype=object))) == max(
        operand.nbytes for operand in operands
    )
    return (
        [Elementwise(_UFUNCS[node.op_type], node.op_type, operands, operands[0].dtype, shape)]
        if is_no_larger
        else None
    )


_VIEWERS: Final[dict[str, _Viewer]] = {
    **dict.fromkeys(sorted(operators_with(Trait.VIEW)), _reshape),
    **dict.fromkeys(_UFUNCS, _elementwise),
    "Transpose": _transpose,
    "Slice": _slice,
    "Split": _split,
    "Concat": _concat,
    "Cast": _cast,
}

_MIN_EXPANDED: Final = 1 << 10
"""A constant of at most this many bytes is stored in full."""
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
    """A constant that keeps one copy of its repeated elements, the ``core``, which has size 1 along
    the axes that repeat.

    ``maker`` is the node that computed the constant in the model, and its operands, if the node is
    a ConstantOfShape or an Expand.
    """

    __slots__ = ("_maker", "core")

    def __init__(
        self,
        core: np.ndarray,
        shape: tuple[int, ...],
        maker: tuple[Node, tuple[Tensor, ...]] | None = None,
    ) -> None:
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
        return (
            "expanded",
            self.core.shape,
            hashlib.blake2b(self.core.tobytes(), digest_size=20).digest(),
        )

    def write(self, graph: Graph, name: str) -> Node:
        """Replace this constant of a graph by a node that computes it, right before the first node
        that reads it.

        Returns the node, which is the ``maker`` where its operands have not changed.
        """
        first = min(readers(graph, name), key=lambda node: node.label)
        node = self._original(graph, name) or self._new(graph, name)
        graph.remove_initializer(name)
        graph.insert(node, first.previous)
        graph.learn(name, self.info())
        graph.learn_constness(node)
        return node

    def _original(self, graph: Graph, name: str) -> Node | None:
        """The ``maker``, if its operands have not changed; removed operands are stored again."""
        if self._maker is None or self._maker[0].output != (name,):
            return None
        node, operands = self._maker
        tensors = [graph.tensor(operand) for operand in node.input]
        if any(
            (current is not None and current.key() != original.key())
            or (current is None and graph.scope(operand) is not None)
            for operand, current, original in zip(node.input, tensors, operands, strict=True)
        ):
            return None
        for operand, current, original in zip(node.input, tensors, operands, strict=True):
            if current is None:
                graph.add_initializer(operand, original)
        return node

    def _new(self, graph: Graph, name: str) -> Node:
        sizes = np.array(self.shape, np.int64)
        if self.core.size == 1 and graph.opsets[""] >= _FILLED_SINCE:
            value = {"value": Tensor.from_array(self.core.reshape(1)).to_proto("")}
            operands = [_stored(graph, f"{name}_shape", sizes)]
            return Node(
                "ConstantOfShape",
                operands,
                [name],
                value,
                name=graph.node_names.fresh("ConstantOfShape"),
            )
        operands = [
            _stored(graph, f"{name}_part", self.core),
            _stored(graph, f"{name}_shape", sizes),
        ]
        return Node("Expand", operands, [name], name=graph.node_names.fresh("Expand"))


def expanded(graph: Graph, tensor: Tensor, maker: Node | None = None) -> ExpandedTensor | None:
    """A constant that a graph is going to store, as one copy of its repeated elements.

    ``maker`` is the node that computes the constant. ``None`` when the constant is small or does
    not repeat; when it is a view of external data, or external data of a large model; or when no
    node of the model can make it.
    """
    if isinstance(tensor, ExpandedTensor):
        return tensor
    is_large = tensor.is_external and (isinstance(tensor, View) or graph.model.has_large_data)
    if is_large or tensor.nbytes <= _MIN_EXPANDED or not _can_write(graph, tensor.dtype):
        return None
    if not tensor.is_readable():
        return None
    core = _core(tensor.numpy())
    if core is None:
        return None
    if maker is None or maker.op_type not in _MAKERS:
        return ExpandedTensor(core, tensor.shape)
    operands = tuple(t for t in map(graph.tensor, maker.input) if t is not None)
    return ExpandedTensor(
        core, tensor.shape, (maker, operands) if len(operands) == len(maker.input) else None
    )


def reads_expanded(graph: Graph, node: Node) -> bool:
    """Whether an operand of a node is kept as one copy of the elements that repeat."""
    return any(name and isinstance(graph.tensor(name), ExpandedTensor) for name in node.input)


def _can_write(graph: Graph, dtype: int) -> bool:
    """Whether a node of the model can make constants of a type: runtimes have kernels, and no local
    function hides the operators.
    """
    opset, hidden = graph.opsets.get("", 0), graph.model.hidden_operators
    return (
        opset >= _EXPAND_SINCE
        and dtype in _TYPES
        and not any(("", maker) in hidden for maker in _MAKERS)
    )


def _core(array: np.ndarray) -> np.ndarray | None:
    """The elements at index 0 of each axis along which all elements are equal, bit by bit.

    ``None`` without such an axis.
    """
    core = array.view(_BITS[array.dtype.itemsize])
    for axis in range(core.ndim):
        first = core[(slice(None),) * axis + (slice(1),)]
        if core.shape[axis] > 1 and (core.strides[axis] == 0 or _repeats(core, first, axis)):
            core = first
    return core.copy().view(array.dtype) if core.shape != array.shape else None


def _repeats(array: np.ndarray, first: np.ndarray, axis: int) -> bool:
    # most arrays differ here, so the rest is rarely read
    second = array[(slice(None),) * axis + (slice(1, 2),)]
    return bool((second == first).all()) and bool((array == first).all())


def _stored(graph: Graph, hint: str, array: np.ndarray) -> str:
    """The name of a stored constant of a graph; it is added if there is none with this value."""
    tensor = Tensor.from_array(array)
    for name, candidate in graph.initializers.items():
        is_alike = (candidate.dtype, candidate.shape) == (
            tensor.dtype,
            tensor.shape,
        ) and name not in graph.overridable
        if is_alike and candidate.key() == tensor.key():
            return name
    return store(graph, hint, array)
