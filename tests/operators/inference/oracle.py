"""Inferred facts against the shape inference of the onnx package and against runs of
onnxruntime.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto

from tests.operators.inference.context import Input, array_info, infer
from xoptim.facts.dims import Dim, SymbolicDim, evaluate, named
from xoptim.facts.dtypes import element_type, numpy_dtype
from xoptim.facts.shapes import Info
from xoptim.operators.inference.types import info_to_type_proto

F, I64, I32, B = TensorProto.FLOAT, TensorProto.INT64, TensorProto.INT32, TensorProto.BOOL
ASSIGNMENTS: tuple[dict[str, int], ...] = ({"n": 4, "m": 3, "k": 2}, {"n": 6, "m": 1, "k": 1})
_IR = {
    7: 3,
    8: 3,
    9: 4,
    10: 5,
    11: 6,
    12: 7,
    13: 7,
    14: 7,
    15: 8,
    16: 8,
    17: 8,
    18: 8,
    19: 9,
    20: 9,
    21: 10,
    22: 10,
}


@dataclass(frozen=True)
class Fed:
    """A value that arrives at run time: inference receives only its type and shape."""

    value: np.ndarray


Given = Input | Fed


def tensor(*shape: Dim | str, dtype: int = F) -> Info:
    """Facts about a tensor; text names a symbolic dimension."""
    return Info(dtype, tuple(named(d) if isinstance(d, str) else d for d in shape))


def ints(*elements: int) -> np.ndarray:
    """A constant vector of 64-bit integers."""
    return np.array(elements, dtype=np.int64)


def vector(*elements: Dim | str, dtype: int = I64) -> Info:
    """An integer vector whose values are known, as far as symbols tell."""
    data = tuple(named(d) if isinstance(d, str) else d for d in elements)
    return Info(dtype, (len(data),), data)


def scalar(element: Dim | str, dtype: int = I64) -> Info:
    """An integer scalar whose value is known."""
    return Info(dtype, (), (named(element) if isinstance(element, str) else element,))


def one_node_model(
    op_type: str, inputs: Sequence[Given], attributes: Mapping[str, Any], outputs: int, opset: int
) -> onnx.ModelProto:
    """A model of one node.

    Constants are initializers, the rest are graph inputs ``x0``, ``x1``, ...
    """
    names = ["" if given is None else f"x{i}" for i, given in enumerate(inputs)]
    node = onnx.helper.make_node(op_type, names, [f"y{i}" for i in range(outputs)], **attributes)
    values, initializers = [], []
    for name, given in zip(names, inputs, strict=True):
        if isinstance(given, np.ndarray):
            initializers.append(onnx.numpy_helper.from_array(given, name))
        elif given is not None:
            info = array_info(given.value) if isinstance(given, Fed) else given
            values.append(onnx.helper.make_value_info(name, info_to_type_proto(info)))
    results = [onnx.ValueInfoProto(name=name) for name in node.output]
    graph = onnx.helper.make_graph([node], "g", values, results, initializers)
    imports = [onnx.helper.make_opsetid("", opset)]
    return onnx.helper.make_model(graph, opset_imports=imports, ir_version=_IR.get(opset, 10))


def compare_with_onnx(model: onnx.ModelProto, infos: Sequence[Info], symbols: set[str]) -> None:
    """The facts do not contradict those that the onnx package infers, and none of these is
    missing.
    """
    inferred = onnx.shape_inference.infer_shapes(
        model, check_type=True, strict_mode=True, data_prop=True
    )
    for value, info in zip(inferred.graph.output, infos, strict=True):
        theirs = value.type.tensor_type
        if not theirs.elem_type:
            continue
        assert info.dtype == theirs.elem_type, (value.name, info, theirs)
        if not theirs.HasField("shape"):
            continue
        assert info.shape is not None, (value.name, theirs)
        assert len(info.shape) == len(theirs.shape.dim), (value.name, info, theirs)
        for mine, dim in zip(info.shape, theirs.shape.dim, strict=True):
            if dim.HasField("dim_value"):
                assert mine == dim.dim_value, (value.name, info, theirs)
            elif dim.dim_param in symbols:
                assert not isinstance(mine, SymbolicDim) or not mine.is_anonymous, (
                    value.name,
                    info,
                    theirs,
                )


def random_array(dtype: int, shape: Sequence[int], seed: int = 0) -> np.ndarray:
    """Small numbers of any type, none of them zero."""
    rng = np.random.default_rng(seed)
    numbers = rng.integers(1, 3, size=shape)
    return np.asarray(numbers > 1 if dtype == B else numbers).astype(numpy_dtype(dtype))


def _feed(given: Given, values: Mapping[str, int]) -> np.ndarray | None:
    if isinstance(given, Fed):
        return given.value
    if not isinstance(given, Info) or given.shape is None:
        return None
    shape = [evaluate(dim, values) for dim in given.shape]
    if given.data is not None:
        return np.array(
            [evaluate(d, values) for d in given.data], dtype=numpy_dtype(given.dtype)
        ).reshape(shape)
    return random_array(given.dtype, shape)


def check_run(info: Info, result: np.ndarray, values: dict[str, int]) -> None:
    """Facts hold for a result. ``values`` learns what an anonymous symbol was in this run."""
    assert info.dtype in (0, element_type(result.dtype)), (info, result.dtype)
    if info.shape is None:
        return
    assert len(info.shape) == result.ndim, (info, result.shape)
    for dim, size in zip(info.shape, result.shape, strict=True):
        if isinstance(dim, SymbolicDim) and dim.is_symbol and str(dim) not in values:
            values[str(dim)] = size
        if not isinstance(dim, SymbolicDim) or dim.symbols <= values.keys():
            assert evaluate(dim, values) == size, (info, result.shape, values)
    if info.data is not None:
        assert len(info.data) == result.size
        for dim, number in zip(info.data, result.ravel().tolist(), strict=True):
            if not isinstance(dim, SymbolicDim) or dim.symbols <= values.keys():
                assert evaluate(dim, values) == number, (info, result, values)


def session(model: onnx.ModelProto) -> ort.InferenceSession:
    """A session that computes what the model says, without optimizations."""
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    return ort.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


def _without_feed(given: Given) -> Input:
    assert not isinstance(given, Fed)
    return given


def check(
    op_type: str,
    inputs: Sequence[Given],
    attributes: Mapping[str, Any] | None = None,
    *,
    opset: int = 21,
    outputs: int = 1,
    run: bool = True,
    strict: bool = True,
    assignments: Sequence[Mapping[str, int]] = ASSIGNMENTS,
) -> list[Info]:
    """Facts about the outputs of a node, after comparing them with both references.

    ``run=False`` leaves out onnxruntime (it has no kernel), ``strict=False`` the onnx package (it
    is wrong or refuses).
    """
    known: list[Input] = []
    for given in inputs:
        array = array_info(given.value) if isinstance(given, Fed) else None
        known.append(Info(array.dtype, array.shape) if array is not None else _without_feed(given))
    attributes = dict(attributes or {})
    infos = infer(op_type, known, attributes, opset=opset, num_outputs=outputs)
    model = one_node_model(op_type, inputs, attributes, outputs, opset)
    dims = [d for k in known if isinstance(k, Info) for d in k.shape or ()]
    symbols = {name for d in dims if isinstance(d, SymbolicDim) for name in d.symbols}
    if strict:
        compare_with_onnx(model, infos, symbols)
    if run:
        runner = session(model)
        for assignment in assignments:
            values = dict(assignment)
            fed = {f"x{i}": _feed(given, values) for i, given in enumerate(inputs)}
            feeds = {name: value for name, value in fed.items() if value is not None}
            for info, result in zip(infos, runner.run(None, feeds), strict=True):
                check_run(info, np.asarray(result), values)
    return infos
