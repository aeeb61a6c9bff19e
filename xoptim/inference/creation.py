"""Tensors made from attributes, shapes or random numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto

from xoptim.facts.dims import product
from xoptim.facts.dtypes import element_type
from xoptim.facts.info import Info
from xoptim.facts.protos import is_external
from xoptim.inference.arguments import dim_of, dtype_of, fresh_shape, integer, integers, shape_of, vector
from xoptim.inference.registry import NodeContext, Results, infers
from xoptim.inference.values import DATA_LIMIT, Values, dimension, integral_values, valued

_SINGLE = {"value_int": TensorProto.INT64, "value_float": TensorProto.FLOAT, "value_string": TensorProto.STRING}


@infers("Constant")
def constant(ctx: NodeContext) -> Results:
    """The value is a tensor, a sparse tensor, or Python-like numbers and texts (since operator set 12)."""
    tensor = ctx.attribute("value")
    if tensor is not None:
        return (tensor_info(tensor),)
    sparse = ctx.attribute("sparse_value")
    if isinstance(sparse, onnx.SparseTensorProto):
        return (Info(sparse.values.data_type, tuple(sparse.dims)),)
    for name, dtype in _SINGLE.items():
        value, several = ctx.attribute(name), ctx.attribute(name + "s")
        if isinstance(value, (int, float, str, bytes)):
            return (valued(dtype, (), [value] if type(value) is int else None),)
        if isinstance(several, (list, tuple)):
            return (valued(dtype, (len(several),), integers(ctx, "value_ints")),)
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
        except (ValueError, TypeError):  # the number of elements does not fit the shape, or the type is of a later release
            return None
    return integral_values(tensor)


@infers("ConstantOfShape")
def constant_of_shape(ctx: NodeContext) -> Results:
    """The value is a tensor of one element, a 32-bit zero by default."""
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
    """Dimensions ``start`` to ``end`` (since operator set 15), negative ones counted from the end, both clamped."""
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


@infers("RandomNormal", "RandomUniform")
def random(ctx: NodeContext) -> Results:
    """The shape is an attribute."""
    shape = integers(ctx, "shape")
    valid = shape is not None and min(shape, default=0) >= 0
    return (Info(integer(ctx, "dtype", TensorProto.FLOAT) or 0, tuple(shape) if shape is not None and valid else None),)


@infers("RandomNormalLike", "RandomUniformLike", "Bernoulli", "EyeLike")
def random_like(ctx: NodeContext) -> Results:
    """The shape of the input, and its type unless ``dtype`` is given."""
    x = ctx.input(0)
    return (Info(integer(ctx, "dtype", dtype_of(x)) or 0, shape_of(x)),)


@infers("Multinomial")
def multinomial(ctx: NodeContext) -> Results:
    """``sample_size`` draws per row."""
    shape, samples = shape_of(ctx.input(0), 2), integer(ctx, "sample_size", 1)
    rows = ctx.fresh() if shape is None else shape[0]
    return (Info(integer(ctx, "dtype", TensorProto.INT32) or 0, (rows, dimension(ctx, samples))),)
