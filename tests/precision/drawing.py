"""Random networks of MatMuls, tables, convolutions and what lies between them.

Integers compute what rounded floats compute.

python -m tests.precision.drawing 5000
"""

import random
import sys
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tests.support import run
from xoptim.diagnose.each import EachCheck
from xoptim.engine.options import OptimizationOptions
from xoptim.facts.protos import every_node
from xoptim.match.quantization import Observed
from xoptim.optimizing.builder import GraphBuilder
from xoptim.precision.calibration import calibrated
from xoptim.precision.fake_quantization import fake_quantized
from xoptim.precision.metrics import error
from xoptim.precision.options import FLOAT16_COMPUTE_TAG
from xoptim.precision.schemes import integer_patterns, quantization_patterns, storing_patterns
from xoptim.precision.subgraphs import replaced_subgraphs
from xoptim.precision.switches import with_switches
from xoptim.preparation.ports import names_apart
from xoptim.verification.errors import RunError
from xoptim.verification.options import VerificationOptions
from xoptim.verification.runs.session_settings import SessionSettings

_WIDTHS: Final = (16, 32, 33, 64)
_ROWS: Final = 256


class Drawing:
    """A network that grows node by node.

    Args:
        seed: of all choices and numbers.
    """

    def __init__(self, seed: int) -> None:
        self.rng, self.numbers = random.Random(seed), np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.stored: dict[str, np.ndarray] = {}
        self.rank = self.rng.choice((1, 2, 2, 3, 4, 5))
        self.ends: list[str] = []

    def store(self, array: np.ndarray) -> str:
        """The name of a new constant."""
        name = f"c{len(self.stored)}"
        self.stored[name] = array
        return name

    def add(self, op_type: str, inputs: Sequence[str], **attributes: Any) -> str:
        """The result of a new node."""
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op_type, inputs, [name], **attributes))
        return name

    def weights(self, rows: int, columns: int) -> str:
        """A matrix of any kind: ordinary, with columns of zeros, of few numbers, with a large
        number; or one used before.
        """
        alike = [name for name, array in self.stored.items() if array.shape == (rows, columns)]
        if alike and self.rng.random() < 0.3:
            return self.rng.choice(alike)
        array = self.numbers.standard_normal((rows, columns)).astype(np.float32)
        kind = self.rng.randrange(5)
        if kind == 1:
            array[:, 0] = 0
        elif kind == 2:
            array = np.sign(array)
        elif kind == 3:
            array[0, 0] = 1000
        elif kind == 4:
            array *= np.float32(1e-6)
        return self.store(array)

    def product(self, x: str, width: int, columns: int) -> str:
        """A MatMul in one of its forms."""
        form = self.rng.randrange(8)
        if form == 4:  # constants on both sides
            row = self.store(self.numbers.standard_normal((1, width)).astype(np.float32))
            parts = [self.add("MatMul", [each, self.weights(width, columns)]) for each in (x, row)]
            return self.add("Add", parts)
        if form == 5:
            return self.branches(x, width, columns)
        if form == 6 and width == columns:
            return self.rounds(x, width)
        if form == 7 and self.rank > 2:
            return self.rows(x, width, columns)
        if form == 0 and self.rank == 2:
            bias = (
                [self.store(self.numbers.standard_normal(columns).astype(np.float32))]
                if self.rng.random() < 0.5
                else []
            )
            return self.add("Gemm", [x, self.weights(columns, width), *bias], transB=1)
        if form == 1 and self.rank == 2:
            return self.add(
                "Gemm", [x, self.weights(width, columns)], alpha=self.rng.choice((1.0, 0.5))
            )
        if form == 2:
            return self.add(
                "MatMul", [x, self.add("Transpose", [self.weights(columns, width)], perm=[1, 0])]
            )
        total = self.add("MatMul", [x, self.weights(width, columns)])
        if form == 3:
            return self.add(
                "Add", [total, self.store(self.numbers.standard_normal(columns).astype(np.float32))]
            )
        return total

    def branches(self, x: str, width: int, columns: int) -> str:
        """A MatMul within the branches of an If, whose weights may be those of other MatMuls."""
        count = self.add("Size", [x])
        condition = self.add("Less", [count, self.store(np.array(self.rng.choice((0, 10**6))))])
        graphs = []
        # of two graphs, or of many
        names = self.rng.choice((("y", "y"), ("y", f"y{len(self.nodes)}")))
        for result in names:
            node = helper.make_node("MatMul", [x, self.weights(width, columns)], [result])
            graphs.append(helper.make_graph([node], "branch", [], [_floats(result)]))
        return self.add("If", [condition], then_branch=graphs[0], else_branch=graphs[1])

    def rounds(self, x: str, width: int) -> str:
        """A MatMul in each round of a Loop."""
        nodes = [
            helper.make_node("Identity", ["going"], ["goes"]),
            helper.make_node("MatMul", ["before", self.weights(width, width)], ["total"]),
            helper.make_node("Tanh", ["total"], ["after"]),
        ]
        kinds = {"round": TensorProto.INT64, "going": TensorProto.BOOL, "goes": TensorProto.BOOL}
        ports = {
            name: helper.make_tensor_value_info(name, kind, []) for name, kind in kinds.items()
        }
        shape: list[str | int | None] = [*"abcd"[: self.rank - 1], width]
        inputs = [ports["round"], ports["going"], _floats("before", shape)]
        body = helper.make_graph(nodes, "body", inputs, [ports["goes"], _floats("after", shape)])
        count = self.store(np.array(self.rng.choice((1, 3))))
        return self.add("Loop", [count, self.store(np.array(True)), x], body=body)

    def rows(self, x: str, width: int, columns: int) -> str:
        """A MatMul for each element of the first axis, in a Scan, sometimes by weights of its
        body.
        """
        weights = self.weights(width, columns)
        own = (
            [numpy_helper.from_array(self.stored[weights], "w")] if self.rng.random() < 0.5 else []
        )
        nodes = [
            helper.make_node("MatMul", ["row", "w" if own else weights], ["total"]),
            helper.make_node("Relu", ["total"], ["out"]),
        ]
        inner: list[str | int | None] = [*"bcd"[: self.rank - 2]]
        body = helper.make_graph(
            nodes,
            "body",
            [_floats("row", [*inner, width])],
            [_floats("out", [*inner, columns])],
            own,
        )
        return self.add("Scan", [x], body=body, num_scan_inputs=1)

    def between(self, x: str) -> str:
        """Something between two MatMuls."""
        op_type = self.rng.choice(("Relu", "Tanh", "Sigmoid", "Neg", "Softmax", "Identity"))
        return self.add(op_type, [x])

    def model(self) -> onnx.ModelProto:
        """The network: a table, or an input, and up to five MatMuls."""
        width = self.rng.choice(_WIDTHS)
        sizes = ["a", "b", "c", "d"][: self.rank - 1]
        has_table = self.rng.random() < 0.4
        kind = TensorProto.INT64 if has_table else TensorProto.FLOAT
        shape: list[str | int | None] = [*sizes] if has_table else [*sizes, width]
        inputs = [helper.make_tensor_value_info("x", kind, shape)]
        x = self.add("Gather", [self.weights(_ROWS, width), "x"]) if has_table else "x"
        for _ in range(self.rng.randint(1, 5)):
            columns = self.rng.choice(_WIDTHS)
            results = [self.product(x, width, columns) for _ in range(self.rng.choice((1, 1, 2)))]
            if self.rng.random() < 0.3:
                self.ends.append(results[0])
            x, width = (
                self.between(self.add("Add", results) if len(results) > 1 else results[0]),
                columns,
            )
        outputs = [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, None)
            for name in dict.fromkeys((*self.ends, x))
        ]
        tensors = [numpy_helper.from_array(array, name) for name, array in self.stored.items()]
        graph = helper.make_graph(self.nodes, "drawn", inputs, outputs, tensors)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)

    def feeds(self, model: onnx.ModelProto) -> dict[str, np.ndarray]:
        """Values of the input, sometimes none."""
        kind = model.graph.input[0].type.tensor_type
        shape = [each.dim_value or self.rng.choice((0, 1, 3, 5)) for each in kind.shape.dim]
        # onnxruntime has no Scan of no elements
        if any(node.op_type == "Scan" for node in self.nodes):
            shape[0] = max(shape[0], 1)
        if kind.elem_type == TensorProto.INT64:
            return {"x": self.numbers.integers(-_ROWS, _ROWS, shape)}
        return {"x": self.numbers.standard_normal(shape).astype(np.float32)}


def _floats(name: str, shape: Sequence[str | int | None] | None = None) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


class Images(Drawing):
    """A network of convolutions that grows node by node.

    Args:
        seed: of all choices and numbers.
    """

    def weights(self, rows: int, columns: int) -> str:
        """A matrix without large numbers, next to which 8 bits have no place for others."""
        array = self.stored[super().weights(rows, columns)]
        return self.store(np.where(np.abs(array) > 100, 1, array))

    def kernel(self, channels: int, features: int, group: int, axes: int) -> str:
        """The weights of a convolution, of any kind."""
        window = [self.rng.choice((1, 2, 3))] * axes
        flat = self.stored[self.weights(features, channels // group * int(np.prod(window)))]
        return self.store(flat.reshape(features, channels // group, *window).copy())

    def convolution(self, x: str, channels: int, features: int) -> str:
        """A convolution with any attributes that keep tensors from becoming empty."""
        axes, group = (
            self.rank - 2,
            self.rng.choice((1, 1, 2, channels if channels == features else 1)),
        )
        kernel = self.kernel(channels, features, group, axes)
        bias = (
            [self.store(self.numbers.standard_normal(features).astype(np.float32))]
            if self.rng.random() < 0.5
            else []
        )
        attributes: dict[str, Any] = {"group": group}
        if self.rng.random() < 0.5:
            attributes["auto_pad"] = self.rng.choice(("SAME_UPPER", "SAME_LOWER"))
        else:
            attributes |= {"pads": [1] * (2 * axes), "dilations": [self.rng.choice((1, 2))] * axes}
        if self.rng.random() < 0.3:
            attributes["strides"] = [2] * axes
        return self.add("Conv", [x, kernel, *bias], **attributes)

    def after(self, x: str, channels: int) -> str:
        """Something after a convolution."""
        kind = self.rng.randrange(8)
        if kind == 0:
            return self.add(
                "Clip",
                [
                    x,
                    *(
                        self.store(np.array(bound, np.float32))
                        for bound in (0, self.rng.choice((1, 6)))
                    ),
                ],
            )
        if kind == 1:
            return self.add("Mul", [x, self.add("Sigmoid", [x])])
        if kind == 2:
            return self.add("MaxPool", [x], kernel_shape=[1] * (self.rank - 2))
        if kind == 3:
            parts = [
                self.store(array)
                for array in (
                    np.abs(self.numbers.standard_normal((4, channels)).astype(np.float32)) + 0.1
                )
            ]
            return self.add("BatchNormalization", [x, *parts])
        if kind == 4:
            return self.add("Add", [x, self.add("Relu", [x])])
        return self.add(
            self.rng.choice(("Relu", "LeakyRelu", "Sigmoid", "HardSwish", "Identity")), [x]
        )

    def model(self) -> onnx.ModelProto:
        """The network: up to five convolutions, sums and joins of two, and perhaps a MatMul at the
        end.
        """
        self.rank, channels = self.rng.choice((3, 4, 4)), self.rng.choice((2, 4, 8))
        shape: list[str | int | None] = [
            "n",
            channels,
            *[self.rng.choice((5, 8))] * (self.rank - 2),
        ]
        inputs, x = [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)], "x"
        for _ in range(self.rng.randint(1, 5)):
            features = self.rng.choice((channels, 2, 4, 8))
            y, channels = self.after(self.convolution(x, channels, features), features), features
            if self.rng.random() < 0.3:
                self.ends.append(y)
            other = self.after(
                self.add("Conv", [y, self.store(self._one_by_one(channels))]), channels
            )
            join = self.rng.choice(("", "Add", "Concat"))
            x = (
                self.add(join, [y, other], **({"axis": 1} if join == "Concat" else {}))
                if join
                else y
            )
            channels *= 1 + (join == "Concat")
        if self.rng.random() < 0.5:
            flat = self.add("Flatten", [self.add("GlobalAveragePool", [x])])
            x = self.add("Gemm", [flat, self.weights(channels, 16)])
        outputs = [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, None)
            for name in dict.fromkeys((*self.ends, x))
        ]
        tensors = [numpy_helper.from_array(array, name) for name, array in self.stored.items()]
        graph = helper.make_graph(self.nodes, "drawn", inputs, outputs, tensors)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)

    def _one_by_one(self, channels: int) -> np.ndarray:
        kernel: np.ndarray = self.numbers.standard_normal(
            (channels, channels, *[1] * (self.rank - 2))
        ).astype(np.float32)
        return kernel


class Sequences(Drawing):
    """A network of recurrent operators, with MatMuls after them.

    Args:
        seed: of all choices and numbers.
    """

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.inputs: dict[str, list[str | int]] = {}

    def gates(self, *shape: int) -> str:
        """The weights of all gates; some rows are zeros."""
        array = (self.numbers.standard_normal(shape) / np.sqrt(shape[-1])).astype(np.float32)
        if self.rng.random() < 0.2:
            array[:, ::3] = 0
        return self.store(array)

    def given(self, name: str, shape: list[str | int]) -> str:
        """An input of the model, such as a state, or nothing."""
        if self.rng.random() < 0.7:
            return ""
        self.inputs[name] = shape
        return name

    def layer(self, x: str, width: int, place: int) -> tuple[str, int]:
        """A recurrent operator in any form: (steps, sequences, numbers of all directions), and how
        many numbers.
        """
        op_type, hidden = (
            self.rng.choice(("LSTM", "LSTM", "LSTM", "GRU", "RNN")),
            self.rng.choice(_WIDTHS),
        )
        direction = self.rng.choice(("forward", "reverse", "bidirectional"))
        ways, count = 1 + (direction == "bidirectional"), {"LSTM": 4, "GRU": 3, "RNN": 1}[op_type]
        state: list[str | int] = [ways, "b", hidden]
        operands = [
            x,
            self.gates(ways, count * hidden, width),
            self.gates(ways, count * hidden, hidden),
        ]
        operands.append(self.gates(ways, 2 * count * hidden) if self.rng.random() < 0.7 else "")
        operands += [self.given(f"lengths{place}", ["b"]), self.given(f"state{place}", state)]
        attributes: dict[str, Any] = {"hidden_size": hidden, "direction": direction}
        if op_type == "LSTM":
            operands.append(self.given(f"cell{place}", state))
            operands.append(self.gates(ways, 3 * hidden) if self.rng.random() < 0.3 else "")
            attributes |= self.rng.choice(
                (
                    {},
                    {"input_forget": 1},
                    {"activations": ["HardSigmoid", "Tanh", "Softsign"] * ways},
                )
            )
        if self.rng.random() < 0.3:
            attributes["clip"] = 3.0
        steps, last = f"y{place}", f"h{place}"
        outputs = self.rng.choice(
            ([steps], [steps, last], [steps, "", f"cells{place}"] if op_type == "LSTM" else [steps])
        )
        self.ends += [name for name in outputs[1:] if name]
        self.nodes.append(helper.make_node(op_type, operands, outputs, **attributes))
        turned = self.add("Transpose", [steps], perm=[0, 2, 1, 3])
        shape = self.store(np.array([0, 0, ways * hidden]))
        return self.add("Reshape", [turned, shape]), ways * hidden

    def model(self) -> onnx.ModelProto:
        """The network: one or two recurrent operators, and perhaps a MatMul."""
        width, x = self.rng.choice(_WIDTHS), "x"
        self.inputs["x"] = ["s", "b", width]
        for place in range(self.rng.choice((1, 1, 2))):
            x, width = self.layer(x, width, place)
        if self.rng.random() < 0.5:
            x = self.add("MatMul", [x, self.gates(width, 16)])
        kinds = {
            name: TensorProto.INT32 if name.startswith("lengths") else TensorProto.FLOAT
            for name in self.inputs
        }
        inputs = [
            helper.make_tensor_value_info(name, kinds[name], shape)
            for name, shape in self.inputs.items()
        ]
        outputs = [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, None)
            for name in dict.fromkeys((*self.ends, x))
        ]
        tensors = [numpy_helper.from_array(array, name) for name, array in self.stored.items()]
        graph = helper.make_graph(self.nodes, "drawn", inputs, outputs, tensors)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)

    def feeds(self, model: onnx.ModelProto) -> dict[str, np.ndarray]:
        """Values of the inputs."""
        # Without a sequence, onnxruntime's own LSTM ends the process.
        sizes: dict[str | int, int] = {
            "s": self.rng.choice((1, 2, 6)),
            "b": self.rng.choice((1, 3)),
        }
        shapes = {
            name: [int(sizes.get(each, each)) for each in shape]
            for name, shape in self.inputs.items()
        }
        return {
            name: (
                self.numbers.integers(1, sizes["s"] + 1, shape).astype(np.int32)
                if name.startswith("lengths")
                else self.numbers.standard_normal(shape).astype(np.float32)
            )
            for name, shape in shapes.items()
        }


_DRAWINGS: Final[dict[str, tuple[type[Drawing], str]]] = {
    "int8": (Drawing, "int8"),
    "rows": (Drawing, "int8"),
    "int4": (Drawing, "int4"),
    "images": (Images, "int8"),
    "sequences": (Sequences, "int8"),
    "float16": (Drawing, "float16"),
    "bfloat16": (Drawing, "bfloat16"),
    "float16_compute": (Drawing, FLOAT16_COMPUTE_TAG),
    "images in float16": (Images, FLOAT16_COMPUTE_TAG),
}
KINDS: Final = tuple(_DRAWINGS)
_HALF: Final = 0.02
"""Relative error of a step whose results have 16 bits, where the processor computes in 32."""
_OF_FLOATS: Final = 1e-4
_OF_MATMUL_N_BITS: Final = 0.01
"""Relative differences of results between two graphs of the same operators. MatMulNBits quantizes
the other operand to 8 bits in each run: a last bit of it may move a result by a step of these.
"""
_LEAST: Final = 2.0**-21
"""Eight steps of the smallest numbers of 16 bits, where a relative error says nothing."""
_LARGEST: Final = {"images": 1.0, "sequences": 0.2}
"""The error of an output, over its largest number, that 8 bits explain even where a steep function
follows. The integers of an LSTM are within the operator, so that nothing but this error tells a
wrong one.
"""


def fault(seed: int, kind: str) -> str:
    """A wrong rewrite in a random network, empty when all are right."""
    draw, scheme = _DRAWINGS[kind]
    drawing = draw(seed)
    model = drawing.model()
    names_apart(model)
    feeds = drawing.feeds(model)
    try:
        observed = _observed(model, feeds) if draw is Images else Observed()
    except RunError:  # a window that is larger than the image
        return ""
    provider, rtol, atol = (
        ("cuda", _HALF, _LEAST) if scheme == FLOAT16_COMPUTE_TAG else ("cpu", None, None)
    )
    rounding = quantization_patterns(scheme, "onnxruntime") or storing_patterns(scheme)
    patterns = [cls for cls in rounding if cls.is_alternative or kind != "rows"]
    rounded, found = fake_quantized(model, None, patterns, None, provider, observed)
    check = EachCheck(rounded, VerificationOptions(feeds=feeds, rtol=rtol, atol=atol))
    options = OptimizationOptions(
        patterns=["default", *integer_patterns(scheme)], provider=provider, on_application=check
    )
    builder = GraphBuilder(rounded, optimization_options=options)
    original, before, after = (run(each, feeds) for each in (model, rounded, builder.to_onnx()))
    if [each.shape for each in before] != [each.shape for each in after]:
        return f"seed {seed}: other shapes"
    if scheme != FLOAT16_COMPUTE_TAG and (text := _switched_fault(model, rounded, found, feeds)):
        return f"seed {seed}: {text}"
    if kind in _LARGEST:
        moved = error("largest", original, before)
        return (
            f"seed {seed}: the error is {moved}"
            if found and not moved <= _LARGEST[kind]
            else _told(seed, check)
        )
    made = {node.op_type for node in every_node(builder.to_onnx().graph.node)}
    if kind == "int8" and "Int8Operands" in found.values() and "MatMulInteger" not in made:
        return f"seed {seed}: nothing computes with integers"
    return _told(seed, check)


def _switched_fault(
    model: onnx.ModelProto,
    rounded: onnx.ModelProto,
    found: dict[str, str],
    feeds: dict[str, np.ndarray],
) -> str:
    """A fault of the model that has a switch for each MatMul, empty when there is none."""
    parts = {
        (result, found[result]): part
        for result, part in replaced_subgraphs(model, rounded, found).items()
    }
    both, switches = with_switches(model, parts)
    quantizes_activations = any(
        node.op_type == "MatMulNBits" for node in every_node(both.graph.node)
    )
    limit = _OF_MATMUL_N_BITS if quantizes_activations else _OF_FLOATS
    for is_on, expected in ((False, model), (True, rounded)):
        given = {**feeds, **{name: np.array(is_on) for name in switches.values()}}
        pairs = zip(run(expected, feeds), run(both, given), strict=True)
        if not all(
            np.allclose(a, b, rtol=limit, atol=limit * np.abs(a).max(initial=1), equal_nan=True)
            for a, b in pairs
        ):
            return f"switches that are {'on' if is_on else 'off'} compute something else"
    return ""


def _told(seed: int, check: EachCheck) -> str:
    return "; ".join(f"seed {seed}: {each}" for each in check.disagreements)


def _observed(model: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> Observed:
    """Facts about all tensors between operators on one sample."""
    op_types = {node.op_type for node in model.graph.node}
    return calibrated(model, None, op_types, [feeds], "minmax", SessionSettings())


def main() -> None:
    """Draw networks, and print what is wrong."""
    count = int(sys.argv[1])
    faults = [text for seed in range(count) for kind in KINDS if (text := fault(seed, kind))]
    sys.stdout.write("\n".join([*faults, f"{count} networks of each kind, {len(faults)} faults\n"]))


if __name__ == "__main__":
    main()
