"""Shapes and types of operators without a formula, as the ``onnx`` package infers them for one
node.
"""

from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any, Final

import numpy as np
import onnx

from xoptim.facts.dims import SymbolicDim
from xoptim.facts.schema import schema
from xoptim.facts.shapes import UNKNOWN, Info
from xoptim.operators.inference.types import info_to_type_proto, type_proto_to_info
from xoptim.operators.inference.values import INTEGERS, known_value

_READ_LIMIT: Final = 1024
"""Constants of more elements do not decide shapes."""


def infer_with_onnx(
    node: onnx.NodeProto,
    opset: int,
    inputs: Sequence[Info | None],
    constants: Callable[[int], np.ndarray[Any, Any] | None],
) -> list[Info | None]:
    """Facts about each output of a node, which has no subgraphs and belongs to a domain that the
    ``onnx`` package defines.

    ``inputs`` has ``None`` for one that is omitted; ``constants`` returns the value of the input
    at a position, ``None`` when it is not constant. The result has one entry per output, ``None``
    for one omitted and for an unknown one; all are unknown where the node does not conform to its
    schema. Symbolic dimensions keep their identity.
    """
    return is_refused(node, opset, inputs, constants)[1]


def is_refused(
    node: onnx.NodeProto,
    opset: int,
    inputs: Sequence[Info | None],
    constants: Callable[[int], np.ndarray[Any, Any] | None],
) -> tuple[bool, list[Info | None]]:
    """Whether a node fails for certain: runtimes refuse to load a model with such a node, even if
    it is never run.

    Also returns the facts about the outputs. The arguments are those of `infer_with_onnx`.
    """
    unknown: list[Info | None] = [None] * len(node.output)
    try:
        return False, _infer(node, opset, inputs, constants) or unknown
    except MemoryError:  # not a property of the node
        raise
    except onnx.shape_inference.InferenceError as error:
        # other errors may follow from unknown types
        return "[ShapeInferenceError]" in str(error), unknown
    except Exception:  # the checks of the package raise many types on malformed nodes
        return False, unknown


def _infer(
    node: onnx.NodeProto,
    opset: int,
    inputs: Sequence[Info | None],
    constants: Callable[[int], np.ndarray[Any, Any] | None],
) -> list[Info | None] | None:
    op_schema = schema(node.op_type, node.domain, opset)
    if op_schema is None:
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
    results = onnx.shape_inference.infer_node_outputs(
        op_schema, _with_all_outputs(node), types, data, opset_imports=imports
    )
    return [
        type_proto_to_info(results[name], names) if name in results else None
        for name in node.output
    ]


def _with_all_outputs(node: onnx.NodeProto) -> onnx.NodeProto:
    """The node with a name for each output: the checks require one even for unread outputs."""
    if "" not in node.output:
        return node
    complete = deepcopy(node)
    # A zero byte, so that no name of the model is the same.
    complete.output[:] = [name or f"\0{index}" for index, name in enumerate(node.output)]
    return complete
