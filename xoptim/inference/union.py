"""Facts from and to ``onnx.TypeProto``, for several values at once, of small values, and as the onnx package infers."""

import math
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from typing import Any, Final

import numpy as np
import onnx
from onnx import TensorProto, TypeProto

from xoptim.facts.dims import Dim, SymbolicDim, as_integer, bounds, fresh, is_anonymous, named
from xoptim.facts.dtypes import numpy_dtype
from xoptim.facts.schema import schema
from xoptim.facts.shapes import UNKNOWN, Container, Info, Shape
from xoptim.inference.registry import NodeContext

DATA_LIMIT: Final = 64
"""Largest number of elements whose values are inferred."""

_BITS: Final[dict[int, int]] = {TensorProto.INT64: 64, TensorProto.INT32: 32}
INTEGERS: Final[frozenset[int]] = frozenset(_BITS)
_EXACT: Final[dict[int, tuple[int, int]]] = {
    TensorProto.DOUBLE: (-(2**53), 2**53),
    TensorProto.FLOAT: (-(2**24), 2**24),
    TensorProto.FLOAT16: (-(2**11), 2**11),
    TensorProto.BFLOAT16: (-(2**8), 2**8),
    TensorProto.BOOL: (0, 1),
}
RANGES: Final[dict[int, tuple[int, int]]] = {
    TensorProto.INT64: (-(2**63), 2**63 - 1),
    TensorProto.INT32: (-(2**31), 2**31 - 1),
    **_EXACT,
}
"""Integers that a type represents, itself and all between. Symbols are followed in integer types only."""

Values = tuple[Dim, ...]


def values(ctx: NodeContext, index: int) -> Values | None:
    """Elements of an input of rank 0 or 1, numbers or symbols, when all are known."""
    info = ctx.input(index)
    if info is None or info.container:
        return None
    if info.data is not None:
        return info.data
    if info.dtype in INTEGERS:
        return ctx.data(index)
    if info.dtype not in _EXACT or info.shape is None or len(info.shape) > 1:
        return None
    size = info.shape[0] if info.shape else 1
    array = ctx.constant(index) if type(size) is int and size <= DATA_LIMIT else None
    return None if array is None else integral_values(array)


def wrapped(dtype: int, value: Dim | None) -> Dim | None:
    """Return the value in an element type after a sum, a difference, a product or a conversion of integers.

    A number out of range is left to `valued`, which drops it.
    """
    bits = _BITS.get(dtype)
    return value if value is None or bits is None or type(value) is int else as_integer(value, bits)


def is_exact_in_double(value: Dim, limit: int = 2**53) -> bool:
    """Whether a value provably has a magnitude below 2**53, as have those that doubles hold exactly, or below another limit."""
    low, high = bounds(value)
    return low is not None and high is not None and low > -limit and high < limit


def dimension(ctx: NodeContext, value: Dim | None) -> Dim:
    """A value used as a size: a new symbol when it is unknown or negative (no valid model has a negative size)."""
    return ctx.fresh() if value is None or (type(value) is int and value < 0) else value


def integral_values(array: np.ndarray[Any, Any]) -> Values | None:
    """Elements of an array as integers, ``None`` when one of them is not an integer, or is a negative zero."""
    if array.size > DATA_LIMIT or array.dtype.kind not in "iufbV":
        return None
    if array.dtype.kind in "iub":  # the types of ml_dtypes, such as bfloat16, have kind V
        return tuple(map(int, array.ravel().tolist()))
    wide: list[float] = array.ravel().astype(np.float64).tolist()
    exact = (abs(x) <= 2.0**53 and x.is_integer() and (x != 0 or math.copysign(1.0, x) > 0) for x in wide)
    return tuple(map(int, wide)) if all(exact) else None


def known_value(info: Info) -> np.ndarray[Any, Any] | None:
    """The value of a small tensor whose elements all follow from shapes, else ``None``."""
    data = info.data
    if data is None or info.shape is None or not all(type(d) is int for d in data):
        return None
    return np.array(data).astype(numpy_dtype(info.dtype)).reshape([len(data)] if info.shape else [])


def valued(dtype: int, shape: Shape | None, data: Sequence[Dim | None] | None) -> Info:
    """Facts about a result that may have known values.

    The values are dropped when one is missing, when the type does not represent one, when there are too many, or when their
    number does not fit the shape.
    """
    if data is None or shape is None or len(shape) > 1 or len(data) > DATA_LIMIT or dtype not in RANGES:
        return Info(dtype, shape)
    if shape and type(shape[0]) is not int:  # the number of known elements determines a symbolic length
        shape = (len(data),)
    if len(data) != (shape[0] if shape else 1):
        return Info(dtype, shape)
    low, high = RANGES[dtype]
    kept: list[Dim] = []
    for value in data:
        if value is None or (not low <= value <= high if type(value) is int else dtype not in INTEGERS):
            return Info(dtype, shape)
        kept.append(value)
    return Info(dtype, shape, tuple(kept))


def pairwise(rule: Callable[[Dim, Dim], Dim | None], a: Values | None, b: Values | None) -> list[Dim | None] | None:
    """A binary rule applied element by element, one element broadcast to many."""
    if a is None or b is None:
        return None
    if len(a) != len(b):
        if len(a) == 1:
            a = a * len(b)
        elif len(b) == 1:
            b = b * len(a)
        else:
            return None
    return [rule(x, y) for x, y in zip(a, b, strict=True)]


_OTHER: dict[str, Container] = {"map_type": "map", "sparse_tensor_type": "sparse", "opaque_type": "opaque"}


def type_proto_to_info(proto: onnx.TypeProto, names: Mapping[str, Dim] | None = None) -> Info:
    """Convert a type of any kind to facts.

    A ``dim_param`` becomes the dimension of that name, or the one in ``names``; a dimension without value or name becomes a
    new anonymous one.
    """
    kind = proto.WhichOneof("value")
    if kind == "tensor_type":
        tensor = proto.tensor_type
        if not tensor.HasField("shape"):
            return Info(tensor.elem_type)
        return Info(tensor.elem_type, tuple([_dim(dim, names) for dim in tensor.shape.dim]))
    if kind == "sequence_type":
        return Info(container="sequence", element=type_proto_to_info(proto.sequence_type.elem_type, names))
    if kind == "optional_type":
        return Info(container="optional", element=type_proto_to_info(proto.optional_type.elem_type, names))
    if kind is None:
        return UNKNOWN
    return Info(container=_OTHER[kind], type_proto=proto.SerializeToString(deterministic=True))


def _dim(dim: onnx.TensorShapeProto.Dimension, names: Mapping[str, Dim] | None) -> Dim:
    kind = dim.WhichOneof("value")
    if kind == "dim_value" and dim.dim_value >= 0:
        return dim.dim_value
    if kind != "dim_param" or not dim.dim_param:
        return fresh()
    known = names.get(dim.dim_param) if names else None
    return named(dim.dim_param) if known is None else known


def info_to_type_proto(info: Info, names: dict[str, SymbolicDim] | None = None) -> onnx.TypeProto:
    """Convert facts to a type, which cannot hold all of them, such as the values of ``data``.

    Given ``names``, every symbolic dimension is written, under a text that is entered here, and reading the type back with
    these names gives the same dimensions. Otherwise a dimension with an anonymous part is left blank.
    """
    if info.type_proto is not None:
        other: onnx.TypeProto = TypeProto.FromString(info.type_proto)
        return other
    proto = TypeProto()
    if info.container == "sequence":
        proto.sequence_type.elem_type.CopyFrom(info_to_type_proto(info.element or UNKNOWN, names))
    elif info.container == "optional":
        proto.optional_type.elem_type.CopyFrom(info_to_type_proto(info.element or UNKNOWN, names))
    elif info.dtype or info.shape is not None:
        tensor = proto.tensor_type
        tensor.elem_type = info.dtype
        if info.shape is not None:
            tensor.shape.SetInParent()
            for dim in info.shape:
                _write(tensor.shape.dim.add(), dim, names)
    return proto


def _write(proto: onnx.TensorShapeProto.Dimension, dim: Dim, names: dict[str, SymbolicDim] | None) -> None:
    if type(dim) is int:
        proto.dim_value = dim
    elif isinstance(dim, SymbolicDim) and names is not None:
        text = str(dim)
        while names.setdefault(text, dim) is not dim:  # the text of another dimension
            text += "'"
        proto.dim_param = text
    elif isinstance(dim, SymbolicDim) and not dim.is_anonymous:
        proto.dim_param = str(dim)


def common(ctx: NodeContext, a: Info | None, b: Info | None) -> Info:
    """Return the facts that hold for both values. A dimension is kept only where the two are the same."""
    return _shared(a, b, lambda x, y: x if x == y else ctx.fresh())


def _shared(a: Info | None, b: Info | None, agreed: Callable[[Dim, Dim], Dim]) -> Info:
    """Return the facts that hold for both values, with the dimensions that ``agreed`` gives for two of them.

    The operators that join values require one element type, so a type known on one side counts for both.
    """
    if a is b and a is not None:
        return a
    if a is None or b is None or a.container != b.container or a.type_proto != b.type_proto:
        return UNKNOWN
    if a.dtype and b.dtype and a.dtype != b.dtype:
        return UNKNOWN
    element = None if a.element is None or b.element is None else _shared(a.element, b.element, agreed)
    data = a.data if a.data == b.data else None
    shape: Shape | None = None
    if a.shape is not None and b.shape is not None and len(a.shape) == len(b.shape):
        shape = tuple(map(agreed, a.shape, b.shape))
    return Info(a.dtype or b.dtype, shape, data, a.container, element, a.type_proto)


def common_to_all(ctx: NodeContext, infos: Sequence[Info | None]) -> Info:
    """Return the facts that hold for all values, no facts when there are no values."""
    if not infos:
        return UNKNOWN
    result = infos[0] or UNKNOWN
    for info in infos[1:]:
        result = common(ctx, result, info)
    return result


def item_of(ctx: NodeContext, element: Info | None) -> Info:
    """One item of a sequence: a dimension that may differ from item to item gets a new symbol."""
    if element is None:
        return UNKNOWN
    shape = element.shape
    if shape is not None:
        shape = tuple(ctx.fresh() if is_anonymous(d) else d for d in shape)
    inner = None if element.element is None else item_of(ctx, element.element)
    return Info(element.dtype, shape, None, element.container, inner, element.type_proto)


class Invariant:
    """Facts about the values that a loop carries, weakened until every iteration keeps them.

    The facts hold at the start of each iteration. Dimensions that change are symbols of this loop.
    """

    def __init__(self, ctx: NodeContext, initial: Sequence[Info | None]) -> None:
        self._ctx = ctx
        self._varying: set[Dim] = set()
        self.infos: list[Info] = [info or UNKNOWN for info in initial]

    def admit(self, after: Sequence[Info]) -> bool:
        """Weaken to the facts that also hold ``after`` an iteration; returns whether anything changed."""
        before = self.infos
        self.infos = [_shared(held, after[i] if i < len(after) else UNKNOWN, self._dim) for i, held in enumerate(before)]
        return self.infos != before

    def forget(self, *, dtypes: bool) -> None:
        """Drop the shapes of the values or, with ``dtypes``, all facts."""
        self.infos = [UNKNOWN if dtypes or info.container else Info(info.dtype) for info in self.infos]

    def results(self) -> list[Info]:
        """Return the facts that hold after any number of iterations, zero included."""
        return [self._settled(info) for info in self.infos]

    def _dim(self, held: Dim, new: Dim) -> Dim:
        """The dimension, or a symbol of this loop for one that changes."""
        if held == new or held in self._varying:
            return held
        self._varying.add(symbol := self._ctx.fresh())
        return symbol

    def _settled(self, info: Info) -> Info:
        if info.shape is None or not any(d in self._varying for d in info.shape):
            return info
        # The symbols of the invariant hold at the start of one iteration; after the last one the sizes may differ.
        shape = tuple(self._ctx.fresh() if d in self._varying else d for d in info.shape)
        return Info(info.dtype, shape, info.data, info.container, info.element, info.type_proto)


_READ_LIMIT: Final = 1024
"""Constants of more elements do not decide shapes."""


def infer_with_onnx(
    node: onnx.NodeProto, opset: int, inputs: Sequence[Info | None], constants: Callable[[int], np.ndarray[Any, Any] | None]
) -> list[Info | None]:
    """Facts about each output of a node, which has no subgraphs and belongs to a domain that the ``onnx`` package defines.

    ``inputs`` has ``None`` for one that is left out; ``constants`` returns the value of the input at a position, ``None``
    when it is not constant. The result has one entry per output, ``None`` for one left out and for an unknown one; all are
    unknown where the node does not conform to its schema. Symbolic dimensions keep their identity.
    """
    return is_refused(node, opset, inputs, constants)[1]


def is_refused(
    node: onnx.NodeProto, opset: int, inputs: Sequence[Info | None], constants: Callable[[int], np.ndarray[Any, Any] | None]
) -> tuple[bool, list[Info | None]]:
    """Whether a node fails for certain: runtimes refuse to load a model with such a node, even if it is never run.

    Args and the facts about the outputs, which come with the answer: see `infer_with_onnx`.
    """
    unknown: list[Info | None] = [None] * len(node.output)
    try:
        return False, _infer(node, opset, inputs, constants) or unknown
    except MemoryError:  # not a property of the node
        raise
    except onnx.shape_inference.InferenceError as error:
        return "[ShapeInferenceError]" in str(error), unknown  # the others may follow from unknown types
    except Exception:  # the checks of the package raise many types on malformed nodes
        return False, unknown


def _infer(
    node: onnx.NodeProto, opset: int, inputs: Sequence[Info | None], constants: Callable[[int], np.ndarray[Any, Any] | None]
) -> list[Info | None] | None:
    found = schema(node.op_type, node.domain, opset)
    if found is None:
        return None
    names: dict[str, SymbolicDim] = {}
    types: dict[str, onnx.TypeProto] = {}
    data: dict[str, onnx.TensorProto] = {}
    for index, name in enumerate(node.input):
        if name and name not in types:
            info = (inputs[index] if index < len(inputs) else None) or UNKNOWN
            types[name] = info_to_type_proto(info, names)
            value = known_value(info) if info.dtype in INTEGERS else None
            value = constants(index) if value is None else value
            if value is not None and value.size <= _READ_LIMIT:
                data[name] = onnx.numpy_helper.from_array(value, name)
    imports = [onnx.helper.make_opsetid(node.domain, opset)]
    results = onnx.shape_inference.infer_node_outputs(found, _with_all_outputs(node), types, data, opset_imports=imports)
    return [type_proto_to_info(results[name], names) if name in results else None for name in node.output]


def _with_all_outputs(node: onnx.NodeProto) -> onnx.NodeProto:
    """The node with a name for each output: the checks require one even for unread outputs."""
    if "" not in node.output:
        return node
    complete = deepcopy(node)
    # A zero byte, so that no name of the model is the same.
    complete.output[:] = [name or f"\0{index}" for index, name in enumerate(node.output)]
    return complete
