"""Stack the equal operations of a probabilistic circuit: thousands of small nodes become a few.

The circuit is a mixture over 8 by 8 discrete variables, in log space. Each region is split in two
until it is one variable, and each layer adds up combinations of both parts.

    python examples/circuit.py
"""

import time
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

import xoptim

SIDE, UNITS, STATES, TREES = 8, 8, 16, 8


class Circuit:
    """An ONNX graph that grows layer by layer."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[TensorProto] = []
        self.random = np.random.default_rng(0)

    def constant(self, array: np.ndarray) -> str:
        """A stored tensor."""
        self.weights.append(numpy_helper.from_array(array, f"w{len(self.weights)}"))
        return str(self.weights[-1].name)

    def add(self, op_type: str, *operands: str, **attributes: Any) -> str:
        """A node; the name of its result."""
        self.nodes.append(
            helper.make_node(op_type, operands, [f"v{len(self.nodes)}"], **attributes)
        )
        return str(self.nodes[-1].output[0])

    def leaf(self, variable: int) -> str:
        """An input layer: the log-probabilities of the state of a variable, one for each unit."""
        table = np.log(self.random.dirichlet(np.ones(STATES), UNITS).T).astype(np.float32)
        state = self.add("Gather", "states", self.constant(np.array(variable)), axis=1)
        return self.add("Gather", self.constant(table), state, axis=0)

    def sum(self, x: str) -> str:
        """A sum layer: the logarithm of weighted sums, with the largest exponent taken out."""
        weights = self.random.dirichlet(np.ones(UNITS), UNITS).T.astype(np.float32)
        largest = self.add("ReduceMax", x, self.constant(np.array([-1])), keepdims=1)
        shares = self.add(
            "MatMul", self.add("Exp", self.add("Sub", x, largest)), self.constant(weights)
        )
        return self.add("Add", self.add("Log", shares), largest)

    def region(self, top: int, bottom: int, left: int, right: int) -> str:
        """The layers of a rectangle of variables."""
        if (bottom - top) * (right - left) == 1:
            return self.leaf(top * SIDE + left)
        if bottom - top >= right - left:
            middle = (top + bottom) // 2
            halves = self.region(top, middle, left, right), self.region(middle, bottom, left, right)
        else:
            middle = (left + right) // 2
            halves = self.region(top, bottom, left, middle), self.region(top, bottom, middle, right)
        return self.sum(self.add("Add", *map(self.sum, halves)))

    def model(self, result: str) -> onnx.ModelProto:
        """The model, from states to log-likelihoods."""
        states = helper.make_tensor_value_info(
            "states", TensorProto.INT64, ["samples", SIDE * SIDE]
        )
        output = helper.make_tensor_value_info(result, TensorProto.FLOAT, ["samples", UNITS])
        graph = helper.make_graph(self.nodes, "circuit", [states], [output], self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)


def milliseconds(model: onnx.ModelProto, states: np.ndarray) -> float:
    """The shortest of a few runs."""
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    times = []
    for _ in range(10):
        start = time.perf_counter()
        session.run(None, {"states": states})
        times.append(time.perf_counter() - start)
    return 1e3 * min(times)


circuit = Circuit()
model = circuit.model(
    circuit.add("Mean", *(circuit.region(0, SIDE, 0, SIDE) for _ in range(TREES)))
)
# both are run on the same values
folded = xoptim.optimize(model, patterns="default+repeated", verify=True)
states = np.random.default_rng(1).integers(0, STATES, (4, SIDE * SIDE))
print(f"{len(model.graph.node)} nodes became {len(folded.graph.node)}")
print(f"{milliseconds(model, states):.1f} ms became {milliseconds(folded, states):.2f} ms")
