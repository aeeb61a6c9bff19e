"""Conversion of attributes between protobuf and Python values, and attributes that became operands
in later operator sets.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, Literal, NamedTuple

import numpy as np
import onnx
from onnx import AttributeProto, NodeProto

from xoptim.facts.protos import standard_domain


class Moved(NamedTuple):
    """The operand that took the place of an attribute: its position, the first operator set that
    has it, and what it holds.

    A ``number`` has the element type of the first operand.
    """

    place: int
    since: int
    holds: Literal["integers", "integer", "number"] = "integers"

    @property
    def is_single(self) -> bool:
        """Whether the operand has one element."""
        return self.holds != "integers"


REDUCTIONS: Final = (
    "ReduceL1",
    "ReduceL2",
    "ReduceLogSum",
    "ReduceLogSumExp",
    "ReduceMax",
    "ReduceMean",
    "ReduceMin",
    "ReduceProd",
    "ReduceSum",
    "ReduceSumSquare",
)
"""Operators that reduce axes to one number each: the axes are an attribute or the second
operand.
"""
ARG_REDUCTIONS: Final = ("ArgMax", "ArgMin")
"""Operators that reduce an axis to the position of an element."""
MOVED: Final[dict[tuple[str, str], Moved]] = {
    **{(reduction, "axes"): Moved(1, 18) for reduction in REDUCTIONS},
    ("ReduceSum", "axes"): Moved(1, 13),
    ("Squeeze", "axes"): Moved(1, 13),
    ("Unsqueeze", "axes"): Moved(1, 13),
    ("Split", "split"): Moved(1, 13),
    ("Slice", "starts"): Moved(1, 10),
    ("Slice", "ends"): Moved(2, 10),
    ("Slice", "axes"): Moved(3, 10),
    ("Slice", "steps"): Moved(4, 10),
    ("Pad", "pads"): Moved(1, 11),
    ("Pad", "value"): Moved(2, 11, "number"),
    ("Pad", "axes"): Moved(3, 18),
    ("Clip", "min"): Moved(1, 11, "number"),
    ("Clip", "max"): Moved(2, 11, "number"),
    ("TopK", "k"): Moved(1, 10, "integer"),
    ("Reshape", "shape"): Moved(1, 5),
    ("Dropout", "ratio"): Moved(1, 12, "number"),
}
"""By operator and attribute.

Sources: the operators' changelogs. Operands that never were attributes, such as the steps of Slice,
are listed so that they are written in the same way.
"""

MOVED_DEFAULTS: Final[dict[tuple[str, str], float]] = {
    ("Pad", "value"): 0.0,
    ("Dropout", "ratio"): 0.5,
}
"""Default values of operands, where one number expresses the default."""


@cache
def moved(op_type: str, attribute: str, opset: int) -> Moved | None:
    """The operand that takes the place of an attribute in a version of the standard operator set,
    ``None`` where it still is an attribute.
    """
    operand = MOVED.get((op_type, attribute))
    return operand if operand is not None and opset >= operand.since else None


@cache
def moved_inputs(op_type: str, opset: int) -> dict[int, str]:
    """Attributes of an operator that are operands in this operator set, by position.

    Do not modify the result.
    """
    return {
        rule.place: name
        for (op, name), rule in MOVED.items()
        if op == op_type and opset >= rule.since
    }


@dataclass(frozen=True, slots=True)
class AttributeReference:
    """An attribute of a node in a function body that takes its value from the function's caller."""

    name: str
    type: AttributeProto.AttributeType


def is_given_by_caller(attributes: Mapping[str, Any]) -> bool:
    """Whether an attribute of a node takes its value from the caller of a local function."""
    return any(isinstance(value, AttributeReference) for value in attributes.values())


def decode_attribute(proto: AttributeProto) -> Any:
    """Value of an attribute: a number, text (bytes when not UTF-8), a list, or the proto of a
    tensor, graph or type.
    """
    if proto.ref_attr_name:
        return AttributeReference(proto.ref_attr_name, proto.type)
    value = onnx.helper.get_attribute_value(proto)
    if proto.type == AttributeProto.STRINGS:
        return list(map(_text, value))
    return _text(value) if isinstance(value, bytes) else value


_WITH_KEEPDIMS: Final = frozenset((*REDUCTIONS, *ARG_REDUCTIONS))


def decode_attributes(proto: NodeProto) -> dict[str, Any]:
    """Values of the attributes of a node, by name.

    A ``keepdims`` other than 1 becomes 0: the standard leaves other values open, and onnx and
    onnxruntime keep axes only where it is 1.
    """
    attributes = {attribute.name: decode_attribute(attribute) for attribute in proto.attribute}
    keepdims = attributes.get("keepdims")
    if (
        isinstance(keepdims, int)
        and keepdims not in (0, 1)
        and proto.op_type in _WITH_KEEPDIMS
        and not standard_domain(proto.domain)
    ):
        attributes["keepdims"] = 0
    return attributes


def _text(raw: bytes) -> str | bytes:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw


_KINDS: dict[type, int] = {
    bool: AttributeProto.INT,
    int: AttributeProto.INT,
    float: AttributeProto.FLOAT,
    str: AttributeProto.STRING,
    bytes: AttributeProto.STRING,
    np.ndarray: AttributeProto.TENSOR,
    onnx.TensorProto: AttributeProto.TENSOR,
    onnx.GraphProto: AttributeProto.GRAPH,
    onnx.SparseTensorProto: AttributeProto.SPARSE_TENSOR,
    onnx.TypeProto: AttributeProto.TYPE_PROTO,
}
_LISTS: dict[int, int] = {
    kind: AttributeProto.AttributeType.Value(f"{AttributeProto.AttributeType.Name(kind)}S")
    for kind in set(_KINDS.values())
}


def is_of_kind(value: Any, kind: int | None) -> bool:
    """Whether a value can be an attribute of type ``kind``, an ``AttributeProto.AttributeType``;
    ``None`` accepts each type.

    An integer is not a float; an empty list can be of any list type.
    """
    value_kind = _KINDS.get(type(value))
    if value_kind is None and isinstance(value, (list, tuple)):
        types = set(map(type, value))  # forests have long lists
        kinds = {
            _kind_of_item(next(item for item in value if type(item) is item_type))
            for item_type in types
        }
        if not kinds:
            return kind is None or kind in _LISTS.values()
        if kinds == {AttributeProto.INT, AttributeProto.FLOAT}:  # [0, 0.5] is a list of floats
            kinds = {AttributeProto.FLOAT}
        value_kind = (
            _LISTS.get(kinds.pop() or AttributeProto.UNDEFINED) if len(kinds) == 1 else None
        )
    elif value_kind is None:
        value_kind = _kind_of_item(value)
    return value_kind is not None and (kind is None or value_kind == kind)


def _kind_of_item(value: Any) -> int | None:
    kind = _KINDS.get(type(value))
    if kind is not None:
        return kind
    if isinstance(value, (np.integer, np.bool_)):
        return AttributeProto.INT
    if isinstance(value, np.floating):
        return AttributeProto.FLOAT
    return value.type if isinstance(value, (AttributeProto, AttributeReference)) else None


_CONSTANTS: dict[str, tuple[tuple[type, ...], Any]] = {
    "value_float": ((float, list), np.float32),
    "value_int": ((int, list), np.int64),
    "value_string": ((str, bytes, list), object),
}


def constant_value(attributes: Mapping[str, Any]) -> np.ndarray | onnx.TensorProto | None:
    """The value of a Constant by its attributes, ``None`` when it is sparse, or when the caller of
    the function that contains the node sets it.
    """
    for name, value in attributes.items():
        if name == "value" and isinstance(value, (np.ndarray, onnx.TensorProto)):
            return value
        types, dtype = _CONSTANTS.get(name.removesuffix("s"), ((), None))
        if isinstance(value, types):
            return np.asarray(value, dtype=dtype)
    return None


def encode_attribute(name: str, value: Any) -> AttributeProto:
    """The protobuf form of an attribute.

    Raises `TypeError` when the value has no ONNX counterpart.
    """
    if isinstance(value, AttributeReference):
        return AttributeProto(name=name, ref_attr_name=value.name, type=value.type)
    if isinstance(value, AttributeProto):
        copy = AttributeProto()
        copy.CopyFrom(value)
        copy.name = name
        return copy
    if isinstance(value, np.ndarray):
        value = onnx.numpy_helper.from_array(value)
    elif isinstance(value, np.bool_):
        value = bool(value)
    is_empty = isinstance(value, (list, tuple)) and not value
    return onnx.helper.make_attribute(
        name, value, attr_type=AttributeProto.INTS if is_empty else None
    )


def same_attribute(a: Any, b: Any) -> bool:
    """Whether two attribute values are equal: floats as 32-bit numbers, tensors and graphs by their
    bytes.
    """
    if isinstance(a, float) or isinstance(b, float):
        # protobuf stores 32 bits: 0.1 read from a model differs from 0.1 in Python.
        return (
            isinstance(a, (int, float))
            and isinstance(b, (int, float))
            and bool(np.float32(a) == np.float32(b))
        )
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(same_attribute(x, y) for x, y in zip(a, b, strict=True))
    if hasattr(a, "SerializeToString") and hasattr(b, "SerializeToString"):
        return type(a) is type(b) and a.SerializeToString(
            deterministic=True
        ) == b.SerializeToString(deterministic=True)
    return type(a) is type(b) and bool(a == b)
