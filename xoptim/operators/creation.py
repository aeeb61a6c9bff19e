"""Tensors made from attributes, shapes, bounds or random numbers."""

import math
from math import prod
from typing import Any, Final

import numpy as np
import onnx
from onnx import TensorProto

from xoptim.facts.dims import ALL_SIZES, SIZES, Dim, ceil_div, dim_max, opaque, product
from xoptim.facts.dtypes import element_type
from xoptim.facts.protos import is_external
from xoptim.facts.shapes import Info
from xoptim.operators.costs import no_operations
from xoptim.operators.definitions import defines
from xoptim.operators.evaluate.kernel_table import LARGEST_RESULT, ints, kernel, required
from xoptim.operators.inference.arguments import (
    dim_of,
    dtype_of,
    fresh_shape,
    integer,
    integers,
    shape_of,
    vector,
)
from xoptim.operators.inference.values import (
    DATA_LIMIT,
    INTEGERS,
    Values,
    dimension,
    integral_values,
    is_exact_in_double,
    valued,
    values,
)
from xoptim.operators.protocols import Array, EvaluationNode, NodeContext, Results
from xoptim.operators.registry import Trait, counts, infers, register, steers, takes

_RANDOM: Final = (
    "RandomNormal",
    "RandomNormalLike",
    "RandomUniform",
    "RandomUniformLike",
    "Bernoulli",
    "Multinomial",
)
register(Trait.RANDOM, *_RANDOM)
register(Trait.NON_DETERMINISTIC, *_RANDOM)
register(Trait.NON_DETERMINISTIC, "Sampling", domain="com.microsoft")
register(Trait.MEASURES, "Shape", "Size")
register(Trait.BOUNDS, "Range")
register(Trait.BOUNDS, "Range", domain="com.microsoft")
takes({0: "count"}, "ConstantOfShape")
takes({0: "zero", 1: "count", 2: "one"}, "Range")
takes({0: "zero", 1: "count", 2: "one"}, "Range", domain="com.microsoft")
steers(0, "ConstantOfShape", "EyeLike", "Range")
steers(0, "Range", domain="com.microsoft")
counts("Constant", "ConstantOfShape", "Range", "Shape", "Size")(no_operations)
defines("""
    Size (x) => (y)
    {
        shape = Shape (x)
        y = ReduceProd <keepdims = 0> (shape)
    }
""")

_SINGLE = {
    "value_int": TensorProto.INT64,
    "value_float": TensorProto.FLOAT,
    "value_string": TensorProto.STRING,
}


@infers("Constant")
def constant(ctx: NodeContext) -> Results:
    """The value is a tensor, a sparse tensor, or (since operator set 12) numbers or texts."""
    tensor = ctx.attribute("value")
    if tensor is not None:
        return (tensor_info(tensor),)
    sparse = ctx.attribute("sparse_value")
    if isinstance(sparse, onnx.SparseTensorProto):
        return (Info(sparse.values.data_type, tuple(sparse.dims)),)
    for name, dtype in _SINGLE.items():
        value, items = ctx.attribute(name), ctx.attribute(name + "s")
        if isinstance(value, (int, float, str, bytes)):
            return (valued(dtype, (), [value] if type(value) is int else None),)
        if isinstance(items, (list, tuple)):
            return (valued(dtype, (len(items),), integers(ctx, "value_ints")),)
    return ()


def tensor_info(tensor: Any) -> Info:
    """Facts about a tensor in any of the forms in which an attribute may hold one."""
    if isinstance(tensor, onnx.TensorProto):
        dtype, dims = tensor.data_type, tuple(tensor.dims)
    elif isinstance(tensor, np.ndarray):
        dtype, dims = element_type(tensor.dtype), tensor.shape
    else:
        return Info()
    if min(dims, default=0) < 0:
        return Info(dtype)
    size = dims[0] if dims else 1
    if len(dims) > 1 or size > DATA_LIMIT:
        return Info(dtype, dims)
    return valued(dtype, dims, _elements(tensor))


def _elements(tensor: Any) -> Values | None:
    if isinstance(tensor, onnx.TensorProto):
        if is_external(tensor):
            return None
        try:
            tensor = onnx.numpy_helper.to_array(tensor)
        # the number of elements does not fit the shape, or the type is of a later release
        except (ValueError, TypeError):
            return None
    return integral_values(tensor)


@infers("ConstantOfShape")
def constant_of_shape(ctx: NodeContext) -> Results:
    """The value is a tensor of one element, a float32 zero by default."""
    value = ctx.attribute("value")
    filler = Info(TensorProto.FLOAT, (1,), (0,)) if value is None else tensor_info(value)
    dims = vector(ctx, 0)
    if dims is None:
        count = dim_of(ctx.input(0), 0, 1)
        return (Info(filler.dtype, fresh_shape(ctx, count) if type(count) is int else None),)
    shape = tuple([dimension(ctx, dim) for dim in dims])
    size = shape[0] if len(shape) == 1 else 1
    if filler.data is None or len(filler.data) != 1 or type(size) is not int or size > DATA_LIMIT:
        return (Info(filler.dtype, shape),)
    return (valued(filler.dtype, shape, filler.data * size),)


@infers("Shape")
def shape(ctx: NodeContext) -> Results:
    """Dimensions ``start`` to ``end`` (since operator set 15), negative ones counted from the end,
    both clamped.
    """
    dims = shape_of(ctx.input(0))
    start, end = integer(ctx, "start", 0), integer(ctx, "end", len(dims or ()))
    if dims is None or start is None or end is None:
        return (Info(TensorProto.INT64, (ctx.fresh(),)),)
    part = dims[start:end]
    return (valued(TensorProto.INT64, (len(part),), part),)


@infers("Size")
def size(ctx: NodeContext) -> Results:
    """Number of elements."""
    dims = shape_of(ctx.input(0))
    return (valued(TensorProto.INT64, (), None if dims is None else (product(dims),)),)


_EXACT: Final = 2**52
"""Numbers below this, and the distances between them, are exact in double precision. The quotient
of such a distance is not rounded to an integer unless it is one.
"""
_SMALL_STEP: Final = 8


@infers("Range")
def range_(ctx: NodeContext) -> Results:
    """As many numbers as ``ceil((limit - start) / delta)``, none when that is negative.

    The three numbers have one type. Source: onnxruntime converts them to double precision; since
    version 1.32, integers stay integers.
    """
    dtype = dtype_of(ctx.input(0)) or dtype_of(ctx.input(1)) or dtype_of(ctx.input(2))
    start, limit, delta = (_number(ctx, index) for index in range(3))
    if start is not None and limit is not None and delta is not None:
        count: Dim | None = range_length(start, limit, delta)
    else:
        count = _symbolic_count(ctx) if dtype in INTEGERS else None
    data: list[Dim] | None = None
    if dtype in INTEGERS and type(count) is int and count <= DATA_LIMIT:
        first, step = _scalar(ctx, 0), _scalar(ctx, 2)
        data = (
            None
            if first is None or type(step) is not int
            else [first + i * step for i in range(count)]
        )
    return (valued(dtype, (ctx.fresh() if count is None else count,), data),)


def range_length(start: float, limit: float, delta: float) -> int | None:
    """Number of elements, ``None`` for a step of 0 and operands that are not finite.

    Also ``None`` where it depends on the version: onnxruntime counts in double precision, and since
    version 1.32 in integers if the operands are integers.
    """
    span, step = float(limit) - float(start), float(delta)
    if (
        not step
        or not math.isfinite(span)
        or not math.isfinite(step)
        or not math.isfinite(span / step)
    ):
        return None
    count = max(math.ceil(span / step), 0)
    if isinstance(start, int) and isinstance(limit, int) and isinstance(delta, int):
        return count if count == max(-((start - limit) // delta), 0) else None
    return count


def _scalar(ctx: NodeContext, index: int) -> Dim | None:
    data = values(ctx, index)
    return data[0] if data is not None and len(data) == 1 else None


def _number(ctx: NodeContext, index: int) -> float | None:
    """An operand that is known to be a number."""
    value = _scalar(ctx, index)
    if value is not None:
        return value if type(value) is int else None
    array = ctx.constant(index)
    if array is None or array.size != 1 or array.dtype.kind not in "iuf":
        return None
    element = array.reshape(()).item()
    return element if isinstance(element, (int, float)) else None


def _symbolic_count(ctx: NodeContext) -> Dim | None:
    start, limit, delta = [_scalar(ctx, index) for index in range(3)]
    if start is None or limit is None or type(delta) is not int or not delta:
        return None
    # A limit that a double does not represent exactly is so large that no tensor is that long,
    # unless the steps are large.
    if not is_exact_in_double(start, _EXACT) or not (
        is_exact_in_double(limit, _EXACT) or abs(delta) <= _SMALL_STEP
    ):
        return opaque(
            "Range", (start, limit, delta), SIZES if ctx.assumes("addressable") else ALL_SIZES
        )
    span = limit - start if delta > 0 else start - limit
    return dim_max(ceil_div(span, abs(delta)), 0)


@kernel("Shape")
def shape_kernel(node: EvaluationNode, inputs: list[Array | None]) -> list[Array] | None:
    """Dimensions ``start`` to ``end``, both clamped to the rank."""
    return [
        np.array(
            required(inputs, 0).shape[node.attribute("start", 0) : node.attribute("end")],
            dtype=np.int64,
        )
    ]


@kernel("Constant")
def constant_kernel(node: EvaluationNode, _inputs: list[Array | None]) -> list[Array] | None:
    """The value, from any of the attributes that may hold it."""
    value = node.attribute("value")
    if value is not None:
        return [_tensor(value)]
    sparse = node.attribute("sparse_value")
    if sparse is not None:
        return [_dense(sparse)]
    for suffix, dtype in (("int", np.int64), ("float", np.float32), ("string", object)):
        for name in (f"value_{suffix}", f"value_{suffix}s"):
            value = node.attribute(name)
            if value is not None:
                return [np.array(value, dtype=dtype)]
    return None


def _tensor(value: Any) -> Array:
    if isinstance(value, onnx.TensorProto):
        return onnx.numpy_helper.to_array(value)
    return np.asarray(value if isinstance(value, np.ndarray) else value.numpy())


def _dense(sparse: onnx.SparseTensorProto) -> Array:
    """The dense form of a sparse tensor; its indices are linear or have one coordinate per axis."""
    values, indices = _tensor(sparse.values), _tensor(sparse.indices)
    if prod(sparse.dims) > LARGEST_RESULT:
        raise ValueError("the dense form is too large")
    dense = np.zeros(tuple(sparse.dims), dtype=values.dtype)
    if indices.ndim == 2:
        indices = np.ravel_multi_index(tuple(indices.T), dense.shape)
    dense.reshape(-1)[indices] = values
    return dense


@kernel("ConstantOfShape")
def constant_of_shape_kernel(
    node: EvaluationNode, inputs: list[Array | None]
) -> list[Array] | None:
    """A tensor filled with the one element of ``value``."""
    dims = ints(required(inputs, 0))
    value = node.attribute("value")
    fill = np.zeros(1, np.float32) if value is None else _tensor(value)
    if fill.size != 1 or min(dims, default=0) < 0 or prod(dims) > LARGEST_RESULT:
        return None
    return [np.full(dims, fill.reshape(()), dtype=fill.dtype)]
