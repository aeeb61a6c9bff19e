"""Small networks whose MatMuls can be rounded."""

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper


def network(layers: int = 4, width: int = 64, opset: int = 17, rows: int = 300) -> onnx.ModelProto:
    """An embedding of ``rows`` words, then layers of a MatMul, a sum and Tanh.

    The last MatMul is a transposed Gemm.
    """
    rng = np.random.default_rng(0)

    def drawn(*shape: int) -> np.ndarray:
        found: np.ndarray = (rng.standard_normal(shape) / np.sqrt(shape[-1])).astype(np.float32)
        return found

    stored = {"table": drawn(rows, width), "last": drawn(8, width), "end": drawn(8)}
    nodes, x = [helper.make_node("Gather", ["table", "words"], ["h0"], name="embed")], "h0"
    for n in range(layers):
        stored |= {f"w{n}": drawn(width, width), f"b{n}": drawn(width)}
        nodes += [
            helper.make_node("MatMul", [x, f"w{n}"], [f"p{n}"], name=f"product{n}"),
            helper.make_node("Add", [f"p{n}", f"b{n}"], [f"s{n}"]),
            helper.make_node("Tanh", [f"s{n}"], [f"h{n + 1}"]),
        ]
        x = f"h{n + 1}"
    nodes.append(helper.make_node("Gemm", [x, "last", "end"], ["scores"], name="scores", transB=1))
    inputs = [helper.make_tensor_value_info("words", TensorProto.INT64, ["n"])]
    outputs = [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["n", 8])]
    tensors = [numpy_helper.from_array(array, name) for name, array in stored.items()]
    graph = helper.make_graph(nodes, "network", inputs, outputs, tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def words(count: int = 32, seed: int = 0) -> dict[str, np.ndarray]:
    """Values of the input."""
    return {"words": np.random.default_rng(seed).integers(0, 300, count)}


def convolutions(opset: int = 17) -> onnx.ModelProto:
    """Three convolutions with a sum, a pool, a gate and a MatMul after them."""
    rng = np.random.default_rng(0)

    def drawn(*shape: int) -> onnx.TensorProto:
        return numpy_helper.from_array(
            (rng.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32)
        )

    weights = {
        "k0": drawn(64, 3, 3, 3),
        "b0": drawn(64),
        "k1": drawn(64, 64, 3, 3),
        "k2": drawn(128, 64, 1, 1),
        "w": drawn(10, 128),
    }
    for name, tensor in weights.items():
        tensor.name = name
    model = onnx.parser.parse_model(f"""<ir_version: 8, opset_import: ["" : {opset}]>
        network (float[n,3,16,16] x) => (float[n,10] y) {{
            c0 = Conv <pads = [1, 1, 1, 1]> (x, k0, b0)  r0 = Relu(c0)
            c1 = Conv <pads = [1, 1, 1, 1]> (r0, k1)  s = Add(c1, r0)  r1 = Relu(s)
            p = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (r1)
            c2 = Conv(p, k2)  g = Sigmoid(c2)  m = Mul(c2, g)
            a = GlobalAveragePool(m)  f = Flatten(a)  y = Gemm <transB = 1> (f, w)
        }}""")
    model.graph.initializer.extend(weights.values())
    return model


def images(count: int = 2, seed: int = 0) -> dict[str, np.ndarray]:
    """Values of the input."""
    return {"x": np.random.default_rng(seed).standard_normal((count, 3, 16, 16)).astype(np.float32)}


def recurrent(outputs: str = "y", hidden: int = 32) -> onnx.ModelProto:
    """An LSTM in two directions.

    ``outputs`` are those that the model has, of ``y``, ``h`` and ``c``.
    """
    rng = np.random.default_rng(0)
    shapes = {"w": (2, 4 * hidden, 24), "r": (2, 4 * hidden, hidden), "b": (2, 8 * hidden)}
    numbers = {
        name: (rng.standard_normal(shape) / np.sqrt(shape[-1])).astype(np.float32)
        for name, shape in shapes.items()
    }
    names = [name if name in outputs else "" for name in "yhc"]
    node = helper.make_node(
        "LSTM", ["x", *numbers], names, hidden_size=hidden, direction="bidirectional"
    )
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["s", "n", 24])]
    results = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs]
    tensors = [numpy_helper.from_array(array, name) for name, array in numbers.items()]
    graph = helper.make_graph([node], "recurrent", inputs, results, tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def kernels(model: onnx.ModelProto, folder: Path) -> list[str]:
    """The operators that onnxruntime runs."""
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(folder / "loaded.onnx")
    options.log_severity_level = 3
    onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return [node.op_type for node in onnx.load(folder / "loaded.onnx").graph.node]
