"""Optimize a decoder with gigabytes of weights, file to file: ``python -m benchmarks.large [--gigabytes 4.4] [--sparse]``.

The model is a LLaMA with a cache as torch's exporter writes it (a Transpose before each product), with random weights, or
with weights that are holes of a sparse file except for their beginning. Printed are the time and the peak of memory of the
command, of ``cp`` of the same files, of onnxruntime's offline optimization and of onnxsim, in one run.
"""

import argparse
import math
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from typing import Any, BinaryIO, Final, NamedTuple

import numpy as np
import onnx
from onnx import TensorProto, helper

_PAGE: Final = 4096
_FIRST: Final = 64
"""Bytes at the beginning of a weight that a sparse file holds, so that weights differ."""
_FLOAT, _INT = TensorProto.FLOAT, TensorProto.INT64


class Sizes(NamedTuple):
    """Sizes of a decoder; by default of TinyLlama."""

    layers: int = 22
    width: int = 2048
    inner: int = 5632
    heads: int = 32
    kept_heads: int = 4
    vocabulary: int = 32_000

    @property
    def head(self) -> int:
        """The width of a head."""
        return self.width // self.heads

    @property
    def layer_bytes(self) -> int:
        """Bytes of the weights of a layer."""
        attention = 2 * self.width * (self.width + self.kept_heads * self.head)
        return 4 * (attention + 3 * self.width * self.inner + 2 * self.width)


class Decoder:
    """Builds a LLaMA with a cache, and writes its weights to a file.

    Args:
        sizes: of the model.
        stream: the file of the weights.
        is_sparse: whether only the beginning of each weight is written.
    """

    def __init__(self, sizes: Sizes, stream: BinaryIO, *, is_sparse: bool) -> None:
        self.sizes, self._stream, self._is_sparse = sizes, stream, is_sparse
        self._nodes: list[onnx.NodeProto] = []
        self._weights: list[TensorProto] = []
        self._random = np.random.default_rng(0)

    def _op(self, op_type: str, *inputs: str, **attributes: Any) -> str:
        name = f"v{len(self._nodes)}"
        self._nodes.append(helper.make_node(op_type, list(inputs), [name], name=f"node_{name}", **attributes))
        return name

    def _weight(self, *shape: int) -> str:
        name, offset, size = f"w{len(self._weights)}", self._stream.tell(), 4 * math.prod(shape)
        proto = TensorProto(name=name, data_type=_FLOAT, dims=shape, data_location=TensorProto.EXTERNAL)
        for key, value in (("location", "large.onnx.data"), ("offset", str(offset)), ("length", str(size))):
            proto.external_data.add(key=key, value=value)
        written = min(size, _FIRST) if self._is_sparse else size
        for start in range(0, written, 1 << 26):
            count = min(1 << 26, written - start) // 4
            self._stream.write((self._random.standard_normal(count, np.float32) * np.float32(0.02)).tobytes())
        self._stream.truncate(offset + size)
        self._stream.seek(-(-(offset + size) // _PAGE) * _PAGE)
        self._weights.append(proto)
        return name

    def _numbers(self, values: Sequence[float], dtype: int = _INT) -> str:
        name = f"c{len(self._weights)}"
        self._weights.append(helper.make_tensor(name, dtype, [len(values)], values))
        return name

    def _linear(self, x: str, rows: int, columns: int) -> str:
        return self._op("MatMul", x, self._op("Transpose", self._weight(columns, rows), perm=[1, 0]))

    def _norm(self, x: str) -> str:
        squares = self._op("ReduceMean", self._op("Pow", x, self._numbers([2], _FLOAT)), self._numbers([-1]), keepdims=1)
        root = self._op("Sqrt", self._op("Add", squares, self._numbers([1e-5], _FLOAT)))
        return self._op("Mul", self._weight(self.sizes.width), self._op("Mul", x, self._op("Reciprocal", root)))

    def _heads(self, x: str, count: int) -> str:
        shape = self._numbers([0, 0, count, self.sizes.head])
        return self._op("Transpose", self._op("Reshape", x, shape), perm=[0, 2, 1, 3])

    def _rotated(self, x: str, cos: str, sin: str) -> str:
        half, end, last = self._numbers([self.sizes.head // 2]), self._numbers([2**62]), self._numbers([3])
        turned = self._op("Neg", self._op("Slice", x, half, end, last))
        swapped = self._op("Concat", turned, self._op("Slice", x, self._numbers([0]), half, last), axis=-1)
        return self._op("Add", self._op("Mul", x, cos), self._op("Mul", swapped, sin))

    def _repeated(self, x: str, total: str) -> str:
        size = self.sizes
        one = self._op("Unsqueeze", x, self._numbers([2]))
        batch = self._op("Shape", x, start=0, end=1)
        counts = (self._numbers([n]) for n in (size.kept_heads, size.heads // size.kept_heads))
        shape = self._op("Concat", batch, *counts, total, self._numbers([size.head]), axis=0)
        return self._op("Reshape", self._op("Expand", one, shape), self._numbers([0, size.heads, -1, size.head]))

    def _layer(self, x: str, index: int, cos: str, sin: str, mask: str) -> str:
        size = self.sizes
        normed = self._norm(x)
        q = self._rotated(self._heads(self._linear(normed, size.width, size.width), size.heads), cos, sin)
        narrow = size.kept_heads * size.head
        k = self._rotated(self._heads(self._linear(normed, size.width, narrow), size.kept_heads), cos, sin)
        v = self._heads(self._linear(normed, size.width, narrow), size.kept_heads)
        for name, new in (("key", k), ("value", v)):
            names = [f"past_key_values.{index}.{name}", new]
            self._nodes.append(helper.make_node("Concat", names, [f"present.{index}.{name}"], axis=2))
        keys, values = (f"present.{index}.{name}" for name in ("key", "value"))
        total = self._op("Shape", keys, start=2, end=3)
        scores = self._op("MatMul", q, self._op("Transpose", self._repeated(keys, total), perm=[0, 1, 3, 2]))
        scaled = self._op("Add", self._op("Mul", scores, self._numbers([size.head**-0.5], _FLOAT)), mask)
        mixed = self._op("MatMul", self._op("Softmax", scaled, axis=-1), self._repeated(values, total))
        merged = self._op("Reshape", self._op("Transpose", mixed, perm=[0, 2, 1, 3]), self._numbers([0, 0, size.width]))
        x = self._op("Add", x, self._linear(merged, size.width, size.width))
        normed = self._norm(x)
        gate = self._linear(normed, size.width, size.inner)
        active = self._op("Mul", gate, self._op("Sigmoid", gate))
        product = self._op("Mul", active, self._linear(normed, size.width, size.inner))
        return self._op("Add", x, self._linear(product, size.inner, size.width))

    def model(self) -> onnx.ModelProto:
        """The model; its weights are in the file then."""
        size = self.sizes
        x = self._op("Gather", self._weight(size.vocabulary, size.width), "input_ids")
        places = self._op("Cast", self._op("Unsqueeze", "position_ids", self._numbers([1, 3])), to=_FLOAT)
        angles = [10000 ** (-2 * i / size.head) for i in range(size.head // 2)]
        angle = self._op("Mul", places, self._numbers([*angles, *angles], _FLOAT))
        cos, sin = self._op("Cos", angle), self._op("Sin", angle)
        for index in range(size.layers):
            x = self._layer(x, index, cos, sin, "mask")
        self._nodes.append(helper.make_node("Identity", [self._linear(self._norm(x), size.width, size.vocabulary)], ["logits"]))
        make = helper.make_tensor_value_info
        inputs = [make(name, _INT, ["batch", "seq"]) for name in ("input_ids", "position_ids")]
        inputs.append(make("mask", _FLOAT, ["batch", 1, "seq", "total"]))
        outputs = [make("logits", _FLOAT, ["batch", "seq", size.vocabulary])]
        for index in range(size.layers):
            for name in ("key", "value"):
                inputs.append(make(f"past_key_values.{index}.{name}", _FLOAT, ["batch", size.kept_heads, "past", size.head]))
                outputs.append(make(f"present.{index}.{name}", _FLOAT, ["batch", size.kept_heads, "total", size.head]))
        graph = helper.make_graph(self._nodes, "decoder", inputs, outputs, self._weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def build(folder: Path, gigabytes: float, *, is_sparse: bool) -> Path:
    """Write a decoder with about this many gigabytes of weights; its layers are as many as that takes."""
    sizes = Sizes() if gigabytes < 10 else Sizes(width=4096, inner=11008, kept_heads=32)
    ends = 8 * sizes.vocabulary * sizes.width
    sizes = sizes._replace(layers=max(1, round((gigabytes * 1e9 - ends) / sizes.layer_bytes)))
    path = folder / "large.onnx"
    with (folder / "large.onnx.data").open("wb") as stream:
        path.write_bytes(Decoder(sizes, stream, is_sparse=is_sparse).model().SerializeToString())
    return path


class Cost(NamedTuple):
    """The seconds that a command took, and its bytes of memory at the peak."""

    seconds: float
    peak: int
    problem: str = ""


def cost(*command: str) -> Cost:
    """Run a command in a process of its own."""
    start = perf_counter()
    # The peak of all children does not fall, so that a process between measures this one alone.
    code = (
        "import resource, subprocess, sys; done = subprocess.run(sys.argv[1:], capture_output=True, text=True);"
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss); print(done.stderr[-300:], file=sys.stderr);"
        "sys.exit(done.returncode)"
    )
    done = subprocess.run([sys.executable, "-c", code, *command], capture_output=True, text=True, check=False)
    lines = done.stderr.strip().splitlines()
    problem = "" if done.returncode in (0, 3) else (lines[-1] if lines else f"exit code {done.returncode}")
    return Cost(perf_counter() - start, int(done.stdout.split()[0]) * 1024, problem)


_OFFLINE: Final = """
import sys, onnxruntime as ort
options = ort.SessionOptions()
options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
options.optimized_model_filepath = sys.argv[2]
options.add_session_config_entry("session.optimized_model_external_initializers_file_name", "ort.data")
options.add_session_config_entry("session.optimized_model_external_initializers_min_size_in_bytes", "1024")
ort.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])
"""


def rows(path: Path, folder: Path, *, with_proof: bool, peers: bool) -> list[tuple[str, Cost]]:
    """Names and costs of all commands, each on a fresh folder, which is emptied afterwards."""
    xopt = [sys.executable, "-m", "xoptim", str(path), "-o", str(folder / "out.onnx"), "--quiet"]
    commands = {
        "imports": [sys.executable, "-c", "import xoptim, onnxruntime; xoptim.installed_patterns()"],
        "cp": ["cp", str(path.with_name("large.onnx.data")), str(folder)],
        "xopt --no-verify": [*xopt, "--no-verify"],
    }
    if with_proof:
        commands["xopt"] = xopt
    if peers:
        commands["onnxruntime offline"] = [sys.executable, "-c", _OFFLINE, str(path), str(folder / "ort.onnx")]
        commands["onnxsim"] = [
            *(sys.executable, "-m", "onnxsim", str(path), str(folder / "sim.onnx")),
            "--save-as-external-data",
        ]
    found = []
    for name, command in commands.items():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        subprocess.run(["sync"], check=True)
        found.append((name, cost(*command)))
    return found


def main() -> None:
    """Build the model, run all commands, print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gigabytes", type=float, default=4.4)
    parser.add_argument("--sparse", action="store_true", help="weights are holes except for their beginning")
    parser.add_argument("--proof", action="store_true", help="run the command with its proof, too")
    parser.add_argument("--no-peers", action="store_true", help="run only the command and cp")
    parser.add_argument("--folder", type=Path, help="where the files are made (several times the size of the weights)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as name:
        path = build(Path(name), arguments.gigabytes, is_sparse=arguments.sparse)
        size = path.with_name("large.onnx.data").stat().st_size
        nodes = len(onnx.load(path, load_external_data=False).graph.node)
        print(f"{size / 1e9:.2f} GB of weights, {nodes} nodes, {resource.getpagesize()} bytes a page")
        found = rows(path, Path(name) / "out", with_proof=arguments.proof, peers=not arguments.no_peers)
    idle = found[0][1].peak
    print(f"{'command':22} {'seconds':>9} {'peak MB':>9} {'above imports':>14}")
    for label, each in found:
        print(f"{label:22} {each.seconds:9.1f} {each.peak / 1e6:9.0f} {(each.peak - idle) / 1e6:14.0f}  {each.problem}")


if __name__ == "__main__":
    main()
