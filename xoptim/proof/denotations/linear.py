"""Linear models of traditional machine learning."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from xoptim.proof.calls import Call, denotes
from xoptim.proof.denotations.sums import multiplied
from xoptim.proof.tensors import Tensor, require_equal, stored_tensor


@denotes("LinearRegressor", domain="ai.onnx.ml")
def linear_regressor(call: Call) -> Tensor | None:
    """The product with a matrix of coefficients, plus an intercept for each target."""
    x, targets = call.operand(0), call.attribute("targets", 1)
    transform = call.attribute("post_transform", "NONE")
    name = transform.decode() if isinstance(transform, bytes) else transform
    if call.case.is_exact or x.dtype != TensorProto.FLOAT or x.rank != 2 or name != "NONE":
        return None
    coefficients = np.asarray(call.attribute("coefficients") or (), np.float32)
    if targets < 1 or not coefficients.size or coefficients.size % targets:
        return None
    weights = coefficients.reshape(targets, -1)
    require_equal(x.shape[1], weights.shape[1], or_one=False)
    stored = stored_tensor(weights, TensorProto.FLOAT, keeps_zeros=False)
    transposed = Tensor(weights.shape[::-1], x.dtype, lambda indices: stored.at(indices[::-1]))
    result = multiplied(call.case, x, transposed)
    intercepts = np.asarray(call.attribute("intercepts") or (), np.float32)
    if not intercepts.size:
        return result
    if intercepts.size != targets:
        return None
    shifts = stored_tensor(intercepts, TensorProto.FLOAT, keeps_zeros=False)
    return Tensor(
        result.shape, x.dtype, lambda indices: result.at(indices) + shifts.at(indices[1:])
    )
