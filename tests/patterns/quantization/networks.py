"""Networks of the operators that onnxruntime's quantizer knows, quantized by it."""

from collections import Counter
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, numpy_helper
from onnxruntime.quantization import (
    CalibrationDataReader,
    QuantFormat,
    QuantType,
    quantize_dynamic,
    quantize_static,
)

from tests.support import parse, types

NETWORKS: Final = {
    "convolutions": (
        "float[1,4,8,8] x, float[4,4,3,3] W, float[4] B, float[6,4,1,1] U",
        "a = Conv <pads = [1, 1, 1, 1]> (x, W, B) r = Relu(a) y = Conv(r, U)",
    ),
    "clip": (
        "float[1,4,8,8] x, float[4,4,3,3] W, float[4] B",
        (
            "a = Conv <pads = [1, 1, 1, 1]> (x, W, B) r = Clip(a, zero, six) "
            "y = Conv <pads = [1, 1, 1, 1]> (r, W)"
        ),
    ),
    "batch norm": (
        "float[1,4,8,8] x, float[4,4,3,3] W, float[4] S, float[4] B, float[4] M, float[4] V",
        "a = Conv <pads = [1, 1, 1, 1]> (x, W) b = BatchNormalization(a, S, B, M, V) y = Relu(b)",
    ),
    "norm conv": (
        "float[1,4,8,8] x, float[4,4,1,1] W, float[4] S, float[4] B, float[4] M, float[4] V",
        "b = BatchNormalization(x, S, B, M, V) y = Conv(b, W)",
    ),
    "scaled": (
        "float[1,4,8,8] x, float[4,4,3,3] W, float[4,1,1] C, float[4,1,1] D",
        "a = Conv <pads = [1, 1, 1, 1]> (x, W) b = Mul(a, C) y = Add(D, b)",
    ),
    "transposed conv": (
        "float[1,4,8,8] x, float[4,4,2,2] W",
        "a = ConvTranspose <strides = [2, 2]> (x, W) y = Relu(a)",
    ),
    "residual": (
        "float[1,4,8,8] x, float[4,4,3,3] W, float[4] B",
        (
            "a = Conv <pads = [1, 1, 1, 1]> (x, W, B) r = Relu(a) "
            "b = Conv <pads = [1, 1, 1, 1]> (r, W) c = Add(x, b) y = Relu(c)"
        ),
    ),
    "concat": (
        "float[1,4,8,8] x, float[4,4,3,3] W, float[4,8,1,1] U",
        "a = Conv <pads = [1, 1, 1, 1]> (x, W) c = Concat <axis = 1> (a, x) y = Conv(c, U)",
    ),
    "split": (
        "float[1,4,8,8] x, float[4,2,1,1] W",
        "a, b = Split <axis = 1, num_outputs = 2> (x) c = Conv(a, W) d = Conv(b, W) y = Mul(c, d)",
    ),
    "shuffle": (
        "float[1,4,8,8] x, float[4,4,1,1] W",
        (
            "a = Conv(x, W) b = Reshape(a, k5) c = Transpose <perm = [0, 2, 1, 3, 4]> (b) "
            "d = Reshape(c, k4) y = Conv(d, W)"
        ),
    ),
    "nhwc": (
        "float[1,8,8,4] x, float[4,4,1,1] W",
        (
            "t = Transpose <perm = [0, 3, 1, 2]> (x) a = Conv(t, W) "
            "b = Transpose <perm = [0, 2, 3, 1]> (a) c = Relu(b) "
            "u = Transpose <perm = [0, 3, 1, 2]> (c) d = Conv(u, W) "
            "e = Transpose <perm = [0, 2, 3, 1]> (d) y = Add(e, c)"
        ),
    ),
    "mlp": (
        "float[3,8] x, float[8,16] W, float[16] B, float[16,4] U, float[4] C",
        "a = MatMul(x, W) b = Add(a, B) r = Relu(b) c = MatMul(r, U) y = Add(c, C)",
    ),
    "gemm": (
        "float[3,8] x, float[16,8] W, float[16] B, float[16,4] U, float[4] C",
        "a = Gemm <transB = 1> (x, W, B) r = Relu(a) y = Gemm(r, U, C)",
    ),
    "scaled gemm": (
        "float[3,8] x, float[16,8] W, float[16] B, float[16] C",
        "a = Gemm <transB = 1> (x, W, B) y = Mul(a, C)",
    ),
    "attention": (
        "float[1,6,8] x, float[8,8] W, float[8,8] U, float[8,8] V, float[8] B",
        (
            "q0 = MatMul(x, W) q1 = Add(q0, B) q = Reshape(q1, h) "
            "qt = Transpose <perm = [0, 2, 1, 3]> (q) k0 = MatMul(x, U) k = Reshape(k0, h) "
            "kt = Transpose <perm = [0, 2, 3, 1]> (k) v0 = MatMul(x, V) v = Reshape(v0, h) "
            "vt = Transpose <perm = [0, 2, 1, 3]> (v) s = MatMul(qt, kt) d = Div(s, two) "
            "p = Softmax(d) o = MatMul(p, vt) t = Transpose <perm = [0, 2, 1, 3]> (o) "
            "z = Reshape(t, mm) y = MatMul(z, W)"
        ),
    ),
    "norm": (
        "float[1,6,8] x, float[8,8] W, float[8] S, float[8] B",
        "a = LayerNormalization(x, S, B) b = MatMul(a, W) y = Add(x, b)",
    ),
    "norm formula": (
        "float[1,6,8] x, float[8,8] W, float[8] S, float[8] B",
        (
            "m = ReduceMean(x, last) d = Sub(x, m) q = Pow(d, two) v = ReduceMean(q, last) "
            "e = Add(v, eps) r = Sqrt(e) f = Div(d, r) g = Mul(f, S) a = Add(g, B) y = MatMul(a, W)"
        ),
    ),
    "gelu": (
        "float[1,6,8] x, float[8,8] W, float[8] B",
        (
            "a = MatMul(x, W) b = Add(a, B) d = Div(b, root) e = Erf(d) p = Add(e, one) "
            "m = Mul(b, p) g = Mul(m, half) y = MatMul(g, W)"
        ),
    ),
    "pools": (
        "float[1,4,8,8] x, float[4,4] W, float[4] B",
        (
            "a = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (x) "
            "b = AveragePool <kernel_shape = [2, 2], strides = [2, 2]> (a) "
            "c = GlobalAveragePool(b) f = Flatten(c) y = Gemm(f, W, B)"
        ),
    ),
    "pads": (
        "float[1,4,8,8] x, float[4,4,1,1] W",
        (
            "p = Pad(x, pads8) a = Conv(p, W) q = Pad(a, pads8, low) "
            "y = MaxPool <kernel_shape = [3, 3], strides = [2, 2]> (q)"
        ),
    ),
    "moves": (
        "float[1,4,8,8] x, float[4,4,1,1] W",
        (
            "a = Conv(x, W) s = Slice(a, i0, i2, i3) g = Gather <axis = 2> (s, odd) "
            "u = Unsqueeze(g, i0) v = Squeeze(u, i0) t = Transpose <perm = [0, 1, 3, 2]> (v) "
            "r = Reshape(t, flat) y = Relu(r)"
        ),
    ),
    "where": (
        "float[1,4,8,8] x, float[4,4,1,1] W, bool[8] c",
        "a = Conv(x, W) b = Where(c, a, x) y = Conv(b, W)",
    ),
    "resize": (
        "float[1,4,8,8] x, float[4,4,1,1] W",
        'a = Conv(x, W) r = Resize <mode = "nearest"> (a, , f4) y = Conv(r, W)',
    ),
    "swish": (
        "float[1,4,8,8] x, float[4,4,1,1] W",
        "a = Conv(x, W) s = Sigmoid(a) m = Mul(a, s) y = Conv(m, W)",
    ),
    "hard swish": (
        "float[1,4,8,8] x, float[4,4,1,1] W",
        (
            "a = Conv(x, W) p = Add(a, three) c = Clip(p, zero, six) d = Mul(a, c) e = Div(d, six) "
            "y = Conv(e, W)"
        ),
    ),
    "leaky": (
        "float[1,4,8,8] x, float[4,4,1,1] W",
        "a = Conv(x, W) s = LeakyRelu <alpha = 0.1> (a) y = Conv(s, W)",
    ),
    "instance norm": (
        "float[1,4,8,8] x, float[4] S, float[4] B",
        "a = InstanceNormalization(x, S, B) y = Relu(a)",
    ),
    "excitation": (
        "float[1,4,8,8] x, float[4,4,1,1] W",
        "p = GlobalAveragePool(x) c = Conv(p, W) s = Sigmoid(c) m = Mul(x, s) y = Conv(m, W)",
    ),
    "mean": (
        "float[1,4,8,8] x, float[4,4] W",
        "p = ReduceMean <keepdims = 0> (x, axes23) y = MatMul(p, W)",
    ),
    "top": (
        "float[3,8] x, float[8,16] W",
        "a = MatMul(x, W) y, j = TopK(a, i2)",
    ),
    "elements": (
        "float[3,8] x, float[8,8] W, int64[3,8] i",
        "a = MatMul(x, W) y = GatherElements <axis = 1> (a, i)",
    ),
    "constants": (
        "float[1,4,8,8] x, float[4,4,1,1] W, float[4,1,1] C, float[4,1,1] D",
        "m = Mul(x, C) a = Add(m, D) y = Conv(a, W)",
    ),
    "gathered": (
        "int64[1,6] x, float[10,8] E, float[8,8] W",
        "e = Gather(E, x) y = MatMul(e, W)",
    ),
    "two heads": (
        "float[1,6,8] x, float[8,8] W, float[8,8] U",
        (
            "a = MatMul(x, W) b = MatMul(x, U) c = Concat <axis = -1> (a, b) "
            "y, z = Split <axis = -1, num_outputs = 2> (c)"
        ),
    ),
    "transposed weight": (
        "float[3,8] x, float[16,8] W",
        "t = Transpose <perm = [1, 0]> (W) y = MatMul(x, t)",
    ),
    "einsum": (
        "float[1,6,8] x, float[8,8] W",
        'a = Einsum <equation = "bsi,ij->bsj"> (x, W) y = MatMul(a, W)',
    ),
}
"""The inputs, of which those in capital letters are weights, and the nodes of each network."""
_CONSTANTS: Final = (
    "float zero = {0}, float six = {6}, float two = {2}, float one = {1}, float half = {0.5}, "
    "float three = {3}, float root = {1.4142135}, float eps = {0.00001}, float low = {-9}, "
    "int64[5] k5 = {1, 2, 2, 8, 8}, int64[4] k4 = {1, 4, 8, 8}, int64[4] h = {0, 0, 2, 4}, "
    "int64[3] mm = {0, 0, 8}, int64[8] pads8 = {0, 0, 1, 1, 0, 0, 1, 1}, int64[1] i0 = {0}, "
    "int64[1] i3 = {3}, int64[1] i2 = {2}, int64[2] odd = {1, 3}, int64[2] flat = {1, -1}, "
    "float[4] f4 = {1, 1, 2, 2}, int64[1] last = {-1}, int64[2] axes23 = {2, 3}, int64 one_i = {1}"
)
_SIGNED, _UNSIGNED = QuantType.QInt8, QuantType.QUInt8
SETTINGS: Final[dict[str, dict[str, Any]]] = {
    "uint8": {"activation_type": _UNSIGNED, "weight_type": _UNSIGNED},
    "uint8, weights int8": {"activation_type": _UNSIGNED, "weight_type": _SIGNED},
    "uint8, channels": {"activation_type": _UNSIGNED, "weight_type": _SIGNED, "per_channel": True},
    "int8": {"activation_type": _SIGNED, "weight_type": _SIGNED},
    "int8, symmetric, channels": {
        "activation_type": _SIGNED,
        "weight_type": _SIGNED,
        "per_channel": True,
        "extra_options": {"ActivationSymmetric": True},
    },
}
"""How tensors are quantized."""


class _Reader(CalibrationDataReader):  # type: ignore[misc]
    """Feeds from which the ranges of tensors are taken."""

    def __init__(self, model: onnx.ModelProto) -> None:
        self._feeds = iter([feeds_of(model, seed) for seed in range(4)])

    def get_next(self) -> dict[str, np.ndarray] | None:
        return next(self._feeds, None)


def network(name: str) -> onnx.ModelProto:
    """One of the networks in floating-point numbers."""
    inputs, body = NETWORKS[name]
    outputs = "float y" + (
        ", int64 j" if " j = " in body else ", float z" if ", z = " in body else ""
    )
    model = parse(f"agraph ({inputs}) => ({outputs}) <{_CONSTANTS}> {{ {body} }}")
    random = np.random.default_rng(0)
    for value in [value for value in model.graph.input if value.name.isupper()]:
        numbers = random.standard_normal(
            [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        ).astype(np.float32)
        model.graph.initializer.append(
            numpy_helper.from_array(
                abs(numbers) + 0.5 if numbers.ndim == 1 else numbers, value.name
            )
        )
        model.graph.input.remove(value)
    used = {name for node in model.graph.node for name in node.input}
    for tensor in [tensor for tensor in model.graph.initializer if tensor.name not in used]:
        model.graph.initializer.remove(tensor)
    for output in model.graph.output:
        output.type.tensor_type.ClearField("shape")
    return onnx.shape_inference.infer_shapes(model)


def feeds_of(model: onnx.ModelProto, seed: int) -> dict[str, np.ndarray]:
    """Random inputs."""
    random = np.random.default_rng(seed)
    feeds: dict[str, np.ndarray] = {}
    for value in model.graph.input:
        shape = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        if value.type.tensor_type.elem_type == TensorProto.FLOAT:
            feeds[value.name] = random.standard_normal(shape).astype(np.float32)
        elif value.type.tensor_type.elem_type == TensorProto.BOOL:
            feeds[value.name] = random.integers(0, 2, shape).astype(bool)
        else:
            feeds[value.name] = random.integers(0, 8, shape)
    return feeds


def quantized(model: onnx.ModelProto, setting: str, folder: Path) -> onnx.ModelProto:
    """The model with its operators between DequantizeLinear and QuantizeLinear, or, if ``dynamic``,
    quantized at run time.
    """
    before, after = folder / "before.onnx", folder / "after.onnx"
    onnx.save(model, before)
    if setting == "dynamic":
        quantize_dynamic(str(before), str(after))
    else:
        quantize_static(
            str(before),
            str(after),
            _Reader(model),
            quant_format=QuantFormat.QDQ,
            **SETTINGS[setting],
        )
    return onnx.load(after)


def as_run(model: onnx.ModelProto, folder: Path) -> Counter[str]:
    """Operators of a model as onnxruntime runs it with all of its own optimizations."""
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(folder / "as_run.onnx")
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return Counter(types(onnx.load(options.optimized_model_filepath)))
