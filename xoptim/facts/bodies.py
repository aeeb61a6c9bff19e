"""Nodes of the bodies of functions, with the values that a call gives to the attributes."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from onnx import AttributeProto, NodeProto, TensorProto, numpy_helper

from xoptim.facts.attributes import AttributeReference, constant_value, decode_attribute


def attributes_in_call(node: NodeProto, value_of: Callable[[str], Any]) -> dict[str, Any]:
    """The attributes of a node of a body, with values in place of references.

    ``value_of`` gives the value of an attribute of the function; an attribute that refers to one
    without a value is left out.
    """
    attributes: dict[str, Any] = {}
    for proto in node.attribute:
        value = decode_attribute(proto)
        if isinstance(value, AttributeReference):
            value = value_of(value.name)
        if value is not None:
            attributes[proto.name] = value
    return attributes


def constant_array(attributes: Mapping[str, Any]) -> np.ndarray | None:
    """The value of a Constant of a body by its attributes; ``None`` for a sparse one."""
    value = constant_value(attributes)
    return numpy_helper.to_array(value) if isinstance(value, TensorProto) else value


def write_defaults(node: NodeProto, defaults: Iterable[AttributeProto]) -> None:
    """Write the defaults of attributes that a call omits, because inliners drop these defaults."""
    written = {attribute.name for attribute in node.attribute}
    node.attribute.extend(default for default in defaults if default.name not in written)
