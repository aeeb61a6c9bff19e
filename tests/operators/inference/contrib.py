"""Facts about operators of onnxruntime's own domain against its runs."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto

from tests.operators.inference.context import Input, array_info, infer
from tests.operators.inference.oracle import Fed, Given, check_run, random_array, session
from xoptim.facts.dims import SymbolicDim, evaluate
from xoptim.facts.dtypes import numpy_dtype
from xoptim.facts.shapes import Info
from xoptim.operators.inference.types import info_to_type_proto

DOMAIN = "com.microsoft"


def facts(given: Given) -> Input:
    """The facts about an input that inference receives."""
    if isinstance(given, Fed):
        info = array_info(given.value)
        return Info(info.dtype, info.shape)
    return given


def infer_contrib(
    op_type: str,
    inputs: Sequence[Given],
    attributes: Mapping[str, Any] | None = None,
    outputs: int = 1,
) -> list[Info]:
    """Facts about each output."""
    return infer(
        op_type, [facts(g) for g in inputs], attributes, domain=DOMAIN, opset=1, num_outputs=outputs
    )


def check_contrib(
    op_type: str,
    inputs: Sequence[Given],
    attributes: Mapping[str, Any] | None = None,
    *,
    outputs: int = 1,
    assignments: Sequence[Mapping[str, int]] = ({},),
    complete: bool = True,
) -> list[Info]:
    """Facts about each output, after comparing them with runs.

    ``complete``: all dimensions are numbers or have a name.
    """
    infos = infer_contrib(op_type, inputs, attributes, outputs)
    runner = session(_model(op_type, inputs, attributes or {}, infos))
    for assignment in assignments:
        values = dict(assignment)
        feeds = {
            f"x{i}": _feed(g, values) for i, g in enumerate(inputs) if isinstance(g, (Info, Fed))
        }
        for info, result in zip(infos, runner.run(None, feeds), strict=True):
            check_run(info, np.asarray(result), values)
    if complete:
        for info in infos:
            assert info.shape is not None
            assert not any(
                isinstance(dim, SymbolicDim) and dim.is_anonymous for dim in info.shape
            ), info
    return infos


def _feed(given: Info | Fed, values: Mapping[str, int]) -> np.ndarray:
    if isinstance(given, Fed):
        return given.value
    shape = [evaluate(dim, values) for dim in given.shape or ()]
    if given.data is not None:
        return np.array(
            [evaluate(d, values) for d in given.data], dtype=numpy_dtype(given.dtype)
        ).reshape(shape)
    return random_array(given.dtype, shape)


def _model(
    op_type: str, inputs: Sequence[Given], attributes: Mapping[str, Any], infos: Sequence[Info]
) -> onnx.ModelProto:
    names = ["" if given is None else f"x{i}" for i, given in enumerate(inputs)]
    node = onnx.helper.make_node(
        op_type, names, [f"y{i}" for i in range(len(infos))], domain=DOMAIN, **attributes
    )
    values = [
        onnx.helper.make_value_info(name, info_to_type_proto(info))
        for name, given in zip(names, inputs, strict=True)
        if isinstance(given, (Info, Fed)) and isinstance(info := facts(given), Info)
    ]
    constants = [
        onnx.numpy_helper.from_array(given, name)
        for name, given in zip(names, inputs, strict=True)
        if isinstance(given, np.ndarray)
    ]
    # Types of outputs do not follow by themselves where onnxruntime has no inference for the
    # operator.
    results = [
        onnx.helper.make_value_info(name, info_to_type_proto(Info(info.dtype or TensorProto.FLOAT)))
        for name, info in zip(node.output, infos, strict=True)
    ]
    graph = onnx.helper.make_graph([node], "g", values, results, constants)
    imports = [onnx.helper.make_opsetid("", 17), onnx.helper.make_opsetid(DOMAIN, 1)]
    return onnx.helper.make_model(graph, opset_imports=imports, ir_version=8)
