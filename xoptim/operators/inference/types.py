"""Facts from and to ``onnx.TypeProto``."""

from collections.abc import Mapping
from typing import Final

import onnx
from onnx import TypeProto

from xoptim.facts.dims import Dim, SymbolicDim, fresh, named
from xoptim.facts.errors import ModelError
from xoptim.facts.shapes import UNKNOWN, Container, Info

MAX_RANK: Final = 1024
"""Maximal rank of a shape: onnxruntime and numpy support fewer axes, and time grows
quadratically.
"""
_KINDS: dict[str, Container] = {
    "map_type": "map",
    "sparse_tensor_type": "sparse",
    "opaque_type": "opaque",
}


def type_proto_to_info(proto: onnx.TypeProto, names: Mapping[str, Dim] | None = None) -> Info:
    """Convert a type of any kind to facts.

    A ``dim_param`` becomes the dimension of that name, or the one in ``names``; a dimension without
    value or name becomes a new anonymous one.
    """
    kind = proto.WhichOneof("value")
    if kind == "tensor_type":
        tensor = proto.tensor_type
        if not tensor.HasField("shape"):
            return Info(tensor.elem_type)
        dims = tensor.shape.dim
        if len(dims) > MAX_RANK:
            raise ModelError(
                f"a value of {len(dims)} axes is declared; there are {MAX_RANK} at most"
            )
        return Info(tensor.elem_type, tuple([_dim(dim, names) for dim in dims]))
    if kind == "sequence_type":
        return Info(
            container="sequence", element=type_proto_to_info(proto.sequence_type.elem_type, names)
        )
    if kind == "optional_type":
        return Info(
            container="optional", element=type_proto_to_info(proto.optional_type.elem_type, names)
        )
    if kind is None:
        return UNKNOWN
    return Info(container=_KINDS[kind], type_proto=proto.SerializeToString(deterministic=True))


def _dim(dim: onnx.TensorShapeProto.Dimension, names: Mapping[str, Dim] | None) -> Dim:
    kind = dim.WhichOneof("value")
    if kind == "dim_value" and dim.dim_value >= 0:
        return dim.dim_value
    if kind != "dim_param" or not dim.dim_param:
        return fresh()
    symbol = names.get(dim.dim_param) if names else None
    return named(dim.dim_param) if symbol is None else symbol


def info_to_type_proto(info: Info, names: dict[str, SymbolicDim] | None = None) -> onnx.TypeProto:
    """Convert facts to a type, which cannot hold all of them, such as the values of ``data``.

    With ``names``, every symbolic dimension is written as a text that is added to ``names``, and
    reading the type back with these names gives the same dimensions. Without ``names``, a dimension
    with an anonymous part is left blank.
    """
    if info.type_proto is not None:
        original: onnx.TypeProto = TypeProto.FromString(info.type_proto)
        return original
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


def _write(
    proto: onnx.TensorShapeProto.Dimension, dim: Dim, names: dict[str, SymbolicDim] | None
) -> None:
    if type(dim) is int:
        proto.dim_value = dim
    elif isinstance(dim, SymbolicDim) and names is not None:
        text = str(dim)
        while names.setdefault(text, dim) is not dim:  # the text of another dimension
            text += "'"
        proto.dim_param = text
    elif isinstance(dim, SymbolicDim) and not dim.is_anonymous:
        proto.dim_param = str(dim)
