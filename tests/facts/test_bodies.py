"""Nodes of the bodies of functions, in a call."""

from typing import Any

import numpy as np
import onnx
from onnx import helper

from xoptim.facts.bodies import attributes_in_call, constant_array, write_defaults

BODY = onnx.parser.parse_function(
    '<domain: "acme", opset_import: ["" : 18]> Scaled <alpha, beta> (x) => (y) { '
    "y = HardSigmoid <alpha = 0.5, beta: float = @beta> (x) }"
)


def test_references_take_the_values_of_the_call() -> None:
    (node,) = BODY.node
    assert attributes_in_call(node, {"beta": 2.0}.get) == {"alpha": 0.5, "beta": 2.0}
    assert attributes_in_call(node, {"alpha": 2.0}.get) == {"alpha": 0.5}


def test_constants_have_the_type_of_the_standard() -> None:
    tensor = onnx.numpy_helper.from_array(np.array([1], np.int8))
    attributes: list[dict[str, Any]] = [
        {"value_floats": [1.0, 2.0]},
        {"value_int": 3},
        {"value": tensor},
    ]
    arrays = [np.asarray(constant_array(entry)) for entry in attributes]
    assert [(array.dtype.name, array.tolist()) for array in arrays] == [
        ("float32", [1.0, 2.0]),
        ("int64", 3),
        ("int8", [1]),
    ]
    assert constant_array({"sparse_value": onnx.SparseTensorProto()}) is None


def test_a_call_keeps_the_attributes_that_it_writes() -> None:
    call = helper.make_node("Scaled", ["x"], ["y"], domain="acme", alpha=1.0)
    defaults = [helper.make_attribute("alpha", 2.0), helper.make_attribute("beta", 3.0)]
    write_defaults(call, defaults)
    assert [(a.name, a.f) for a in call.attribute] == [("alpha", 1.0), ("beta", 3.0)]
