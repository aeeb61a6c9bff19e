"""Measure the gain of int8 matrix multiplications on this machine."""

from typing import Final

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from xoptim.bench.rounds import best_times
from xoptim.verification.runs.session import Session
from xoptim.verification.runs.session_settings import SessionSettings

INSTRUCTIONS: Final = frozenset(("avx512_vnni", "avx_vnni", "amx_int8", "asimddp", "i8mm"))
"""Instructions for int8 matrix multiplications that ONNX Runtime uses, as Linux names them."""
_ROWS, _TERMS, _COLUMNS = 32, 512, 512
_SECONDS: Final = 0.1


def int8_time_ratio() -> float:
    """Time of a uint8 by int8 MatMulInteger, divided by the time of a float32 MatMul (M=32, K=512,
    N=512, one thread).
    """
    rng = np.random.default_rng(0)
    settings = SessionSettings(level="all", threads=1)
    floats = rng.standard_normal((_ROWS, _TERMS)).astype(np.float32)
    weights = rng.standard_normal((_TERMS, _COLUMNS)).astype(np.float32)
    int8_weights = rng.integers(-64, 64, weights.shape).astype(np.int8)
    runs = [
        Session(_model("MatMul", weights, TensorProto.FLOAT), settings).runner({"x": floats}),
        Session(_model("MatMulInteger", int8_weights, TensorProto.INT32), settings).runner(
            {"x": rng.integers(0, 256, floats.shape).astype(np.uint8)}
        ),
    ]
    float32_seconds, int8_seconds = best_times(runs, settings, _SECONDS)
    return int8_seconds / float32_seconds


def _model(op_type: str, weights: np.ndarray, result_type: int) -> onnx.ModelProto:
    operand_type = TensorProto.FLOAT if op_type == "MatMul" else TensorProto.UINT8
    graph = helper.make_graph(
        [helper.make_node(op_type, ["x", "w"], ["y"])],
        op_type,
        [helper.make_tensor_value_info("x", operand_type, [_ROWS, _TERMS])],
        [helper.make_tensor_value_info("y", result_type, [_ROWS, _COLUMNS])],
        [numpy_helper.from_array(weights, "w")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
