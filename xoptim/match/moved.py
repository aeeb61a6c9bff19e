"""Attributes that became inputs in later operator sets, hidden behind one way to write both."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from onnx import AttributeProto

from xoptim.facts.attributes import AttributeReference
from xoptim.facts.dtypes import numpy_dtype
from xoptim.graph.constants import constant_array, store
from xoptim.graph.graph import Graph
from xoptim.graph.node import Node

_REDUCTIONS = ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "SumSquare")

MOVED: dict[tuple[str, str], tuple[int, int, bool]] = {
    **{(f"Reduce{kind}", "axes"): (1, 18, False) for kind in _REDUCTIONS},
    ("ReduceSum", "axes"): (1, 13, False),
    ("Squeeze", "axes"): (1, 13, False),
    ("Unsqueeze", "axes"): (1, 13, False),
    ("Split", "split"): (1, 13, False),
    ("Slice", "starts"): (1, 10, False),
    ("Slice", "ends"): (2, 10, False),
    ("Slice", "axes"): (3, 10, False),
    ("Slice", "steps"): (4, 10, False),
    ("Pad", "pads"): (1, 11, False),
    ("Pad", "value"): (2, 11, True),
    ("Pad", "axes"): (3, 18, False),
    ("Clip", "min"): (1, 11, True),
    ("Clip", "max"): (2, 11, True),
    ("TopK", "k"): (1, 10, False),
    ("Reshape", "shape"): (1, 5, False),
    ("Dropout", "ratio"): (1, 12, True),
}
"""``(operator, attribute)`` to the input that took its place, since which operator set, and whether it is a scalar of the
type of the first input. Sources: the operators' changelogs."""

MOVED_DEFAULTS: dict[tuple[str, str], float] = {("Pad", "value"): 0.0, ("Dropout", "ratio"): 0.5}
"""Values of some of them when they are left out; no number expresses the meaning of the others."""


AT_RUN_TIME = AttributeReference("", AttributeProto.UNDEFINED)
"""Stands for a value that is there but not known before the model runs."""


@cache
def moved_inputs(op_type: str, opset: int) -> dict[int, str]:
    """Attributes of an operator that are inputs in this operator set, by position. Do not modify the result."""
    return {place: a for (op, a), (place, since, _) in MOVED.items() if op == op_type and opset >= since}


def read_moved(graph: Graph, node: Node, name: str) -> Any:
    """Value of an attribute that may be an input by now: a list, a number, ``None`` when absent, or `AT_RUN_TIME`."""
    rule = MOVED.get((node.op_type, name)) if not node.domain else None
    if rule is None or node.opset < rule[1]:
        return node.get_attribute(name)
    place, _, is_scalar = rule
    if len(node.input) <= place or not node.input[place]:
        return None
    array = constant_array(graph, node.input[place])
    if array is None or (array.size != 1 and (is_scalar or name == "k")):
        return AT_RUN_TIME
    if is_scalar or name == "k":
        return array.reshape(-1)[0].item()
    return [int(v) for v in array.ravel()]


def adapted(graph: Graph, op_type: str, inputs: list[str], attributes: dict[str, Any]) -> tuple[list[str], dict[str, Any]]:
    """Inputs and attributes of a new node in the form of the operator set in force."""
    opset = graph.opsets.get("", 0)
    written: dict[str, Any] = {}
    inputs = list(inputs)
    for name, value in attributes.items():
        rule = MOVED.get((op_type, name))
        if rule is None or opset < rule[1]:
            written[name] = value
            continue
        place, _, is_scalar = rule
        inputs += [""] * (place + 1 - len(inputs))
        inputs[place] = value if isinstance(value, str) else store(graph, name, _array(graph, inputs[0], value, is_scalar))
    return inputs, written


def _array(graph: Graph, first: str, value: Any, is_scalar: bool) -> np.ndarray:
    if not is_scalar:
        return np.atleast_1d(np.asarray(value, dtype=np.int64))
    dtype = graph.info_of(first).dtype
    return np.asarray(value, dtype=numpy_dtype(dtype) if dtype else np.float32)
