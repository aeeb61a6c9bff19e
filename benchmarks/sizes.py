"""Growth of time and memory with the number of operators that compute with sizes of open dimensions.

    python benchmarks/sizes.py                          # every family at 1000, 2000 and 4000 repetitions
    python benchmarks/sizes.py --repeat 250 --families windows,detections

Each family is a graph that, repeated, makes the expression for a size longer, deeper or of a higher degree. Each
measurement works in a process of its own with Python's garbage collector at rest. It prints nodes of the model, seconds of
processor time of `xoptim.optimize`, microseconds for one repetition, and the peak of the resident memory of the process
above that before the optimization (Linux only).
"""

import argparse
import gc
import json
import pathlib
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import xoptim

OPSET = 18


class Sketch:
    """A graph that grows node by node over inputs of open dimensions."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.inputs: list[onnx.ValueInfoProto] = []
        self.constants: dict[tuple[Any, ...], TensorProto] = {}

    def input(self, *shape: str | int, dtype: int = TensorProto.FLOAT) -> str:
        """A new input."""
        name = f"x{len(self.inputs)}"
        self.inputs.append(helper.make_tensor_value_info(name, dtype, shape))
        return name

    def ints(self, *values: int) -> str:
        """A constant vector; the same one for the same values."""
        tensor = self.constants.get(values)
        if tensor is None:
            tensor = numpy_helper.from_array(np.array(values, np.int64), f"c{len(self.constants)}")
            self.constants[values] = tensor
        return str(tensor.name)

    def add(self, op_type: str, *inputs: str, **attributes: Any) -> str:
        """Append a node and return the name of its first result."""
        name = f"r{len(self.nodes)}"
        results = [name, f"{name}_1"] if op_type == "TopK" else [name]
        self.nodes.append(helper.make_node(op_type, inputs, results, **attributes))
        return name

    def size(self, x: str, axis: int) -> str:
        """A size as a vector of one element."""
        return self.add("Shape", x, start=axis, end=axis + 1)

    def head(self, x: str, count: str) -> str:
        """The first elements along the first axis."""
        return self.add("Slice", x, self.ints(0), count, self.ints(0))

    def model(self, *results: str) -> onnx.ModelProto:
        """The model with these results."""
        outputs = [onnx.ValueInfoProto(name=name) for name in results]
        graph = helper.make_graph(self.nodes, "sizes", self.inputs, outputs, list(self.constants.values()))
        imports = [helper.make_opsetid("", OPSET)]
        return onnx.shape_inference.infer_shapes(helper.make_model(graph, opset_imports=imports, ir_version=8))


def windows(count: int) -> onnx.ModelProto:
    """Blocks of a vision transformer: padded to whole windows by Mod, rolled, cropped, added."""
    g = Sketch()
    x = g.input("h", "w")
    for block in range(count):
        pads = [g.add("Sub", g.ints(7), g.add("Mod", g.size(x, axis), g.ints(7))) for axis in (0, 1)]
        pads = [g.add("Mod", pad, g.ints(7)) for pad in pads]
        y = g.add("Pad", x, g.add("Concat", g.ints(0, 0), *pads, axis=0))
        for axis in (0, 1):
            if block % 2:
                left = g.add("Slice", y, g.ints(3), g.ints(2**62), g.ints(axis))
                y = g.add("Concat", left, g.add("Slice", y, g.ints(0), g.ints(3), g.ints(axis)), axis=axis)
        for axis in (0, 1):
            y = g.add("Slice", y, g.ints(0), g.size(x, axis), g.ints(axis))
        x = g.add("Add", x, y)
    return g.model(x)


def detections(count: int) -> onnx.ModelProto:
    """Levels of a detector: the best k of each, or all if there are fewer, concatenated."""
    g = Sketch()
    x = g.input("n")
    for level in range(count):
        k = g.add("Min", g.size(x, 0), g.ints(100 + level))
        x = g.add("Concat", x, g.add("TopK", g.input(f"m{level}"), g.ints(1)), g.add("TopK", x, k), axis=0)
    return g.model(x)


def broadcast_products(count: int) -> onnx.ModelProto:
    """Layers that broadcast the product of two sizes against one of them."""
    g = Sketch()
    x, y = g.input("b", "s"), g.input("b")
    for _ in range(count):
        flat = g.add("Add", g.add("Reshape", x, g.ints(-1)), y)
        x = g.add("Mul", g.add("Unsqueeze", flat, g.ints(1)), g.add("Unsqueeze", y, g.ints(0)))
    return g.model(x)


def squares(count: int) -> onnx.ModelProto:
    """A size multiplied by itself repeatedly."""
    g = Sketch()
    x = g.input("s")
    size = g.size(x, 0)
    for _ in range(count):
        size = g.add("Mul", size, size)
    return g.model(g.add("Expand", g.ints(1), g.add("Min", size, g.ints(3))))


def remainders(count: int) -> onnx.ModelProto:
    """The product of a size and its remainder."""
    g = Sketch()
    size = g.size(g.input("s"), 0)
    for step in range(count):
        size = g.add("Mul", size, g.add("Mod", size, g.ints(3 + step % 5)))
    return g.model(size)


def quotients(count: int) -> onnx.ModelProto:
    """A size plus a part of it."""
    g = Sketch()
    size = g.size(g.input("s"), 0)
    for step in range(count):
        size = g.add("Add", g.add("Div", size, g.ints(2 + step % 5)), size)
    return g.model(size)


def tails(count: int) -> onnx.ModelProto:
    """A sequence with its own last elements in front, as a cache grows."""
    g = Sketch()
    x = g.input("s")
    for step in range(count):
        tail = g.add("Slice", x, g.ints(-3 - step % 4), g.ints(2**62), g.ints(0))
        x = g.add("Concat", tail, x, axis=0) if step % 2 else g.add("Concat", tail, g.head(x, g.ints(5)), axis=0)
    return g.model(x)


def many_maxima(count: int) -> onnx.ModelProto:
    """One Max of this many sizes."""
    g = Sketch()
    sizes = [g.size(g.input(f"s{index}"), 0) for index in range(count)]
    return g.model(g.add("Max", *sizes))


def many_operands(count: int) -> onnx.ModelProto:
    """One Sum of operands with this many different sizes; at most one is not 1."""
    g = Sketch()
    return g.model(g.add("Sum", *(g.input(f"s{index}") for index in range(count))))


def sums(count: int) -> onnx.ModelProto:
    """One Concat of this many different sizes."""
    g = Sketch()
    return g.model(g.add("Concat", *(g.input(f"s{index}") for index in range(count)), axis=0))


def chained_sums(count: int) -> onnx.ModelProto:
    """This many sizes concatenated one after the other, with a reader of each length."""
    g = Sketch()
    x = g.input("s")
    for index in range(count):
        x = g.add("Concat", x, g.input(f"s{index}"), axis=0)
    return g.model(x)


def products(count: int) -> onnx.ModelProto:
    """Sums of sizes, multiplied."""
    g = Sketch()
    size = g.size(g.input("s"), 0)
    for index in range(count):
        size = g.add("Mul", size, g.add("Add", g.size(g.input(f"s{index}"), 0), g.ints(1)))
    return g.model(size)


def narrow_integers(count: int) -> onnx.ModelProto:
    """Sizes computed with 32 bits, doubled until no bit of them is left."""
    g = Sketch()
    size = g.add("Cast", g.size(g.input("s"), 0), to=TensorProto.INT32)
    for _ in range(count):
        size = g.add("Add", size, g.add("Cast", g.add("Div", g.add("Cast", size, to=7), g.ints(3)), to=6))
    return g.model(size)


def strides(count: int) -> onnx.ModelProto:
    """Pools that round up over an open axis, each added to its cropped operand."""
    g = Sketch()
    x = g.input(1, 1, "s")
    for step in range(count):
        pooled = g.add("MaxPool", x, kernel_shape=[3], strides=[2], pads=[1, 1], ceil_mode=1)
        x = g.add("Concat", pooled, g.add("Slice", x, g.ints(step % 3), g.ints(2**62), g.ints(2)), axis=2)
    return g.model(x)


def ranges(count: int) -> onnx.ModelProto:
    """Positions from one size to another."""
    g = Sketch()
    x = g.input("s", dtype=TensorProto.INT64)
    for step in range(count):
        one = g.add("Squeeze", g.ints(1 + step % 3))
        y = g.add("Range", one, g.add("Squeeze", g.size(x, 0)), one)
        x = g.add("Concat", x, y, axis=0)
    return g.model(x)


FAMILIES: dict[str, Callable[[int], onnx.ModelProto]] = {
    "windows": windows,
    "detections": detections,
    "broadcast": broadcast_products,
    "squares": squares,
    "remainders": remainders,
    "quotients": quotients,
    "tails": tails,
    "maxima": many_maxima,
    "operands": many_operands,
    "sums": sums,
    "chain": chained_sums,
    "products": products,
    "narrow": narrow_integers,
    "strides": strides,
    "ranges": ranges,
}


def _memory(field: str) -> float:
    """Resident memory of this process now (``VmRSS``) or at its peak (``VmHWM``), in mebibytes, as Linux reports it."""
    status = pathlib.Path("/proc/self/status").read_text(encoding="ascii")
    return float(next(line.split()[1] for line in status.splitlines() if line.startswith(field))) / 1024


def measure(family: str, count: int) -> dict[str, float]:
    """Nodes, seconds and mebibytes of one optimization, in this process."""
    xoptim.optimize(FAMILIES[family](1))
    model = FAMILIES[family](count)
    gc.collect()
    gc.disable()
    before = _memory("VmRSS")
    start = time.process_time()
    xoptim.optimize(model)
    seconds = time.process_time() - start
    return {"nodes": len(model.graph.node), "seconds": seconds, "mebibytes": _memory("VmHWM") - before}


def ask(family: str, count: int, limit: float) -> dict[str, float] | str:
    """The same in a process of its own, or the reason why there is no result."""
    command = [sys.executable, __file__, "--child", family, str(count)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit, check=False)
    except subprocess.TimeoutExpired:
        return f"> {limit:.0f} s"
    if done.returncode:
        return (done.stderr.strip().splitlines() or [f"exit {done.returncode}"])[-1][:60]
    result: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return result


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=1000, help="repetitions at the smallest size (default %(default)s)")
    parser.add_argument("--families", default=",".join(FAMILIES), help="of %(default)s")
    parser.add_argument("--limit", type=float, default=120.0, help="seconds for one measurement (default %(default)s)")
    parser.add_argument("--child", nargs=2, metavar=("FAMILY", "COUNT"), help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.child:
        print("\n" + json.dumps(measure(chosen.child[0], int(chosen.child[1]))))
        return
    print(f"{'family':<12}{'repeat':>8}{'nodes':>8}{'seconds':>10}{'us/repeat':>11}{'MiB':>8}")
    for family in chosen.families.split(","):
        for count in (chosen.repeat, 2 * chosen.repeat, 4 * chosen.repeat):
            result = ask(family, count, chosen.limit)
            if isinstance(result, str):
                print(f"{family:<12}{count:>8}  {result}", flush=True)
                break
            nodes, seconds, memory = result["nodes"], result["seconds"], result["mebibytes"]
            rate = 1e6 * seconds / count
            print(f"{family:<12}{count:>8}{nodes:>8.0f}{seconds:>10.2f}{rate:>11.0f}{memory:>8.0f}", flush=True)


if __name__ == "__main__":
    main()
