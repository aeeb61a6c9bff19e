"""Growth of the time of an optimization with families of graphs that repeat one structure n times.

    python benchmarks/families.py                                 # every family at n, 2n and 4n nodes, n = 250
    python benchmarks/families.py --nodes 1000 movements concats
    python benchmarks/families.py --patterns default+onnxruntime

The last column is the time at 4n divided by that at n: 4 for time in proportion to the size, 16 for its square, 64 for its
cube. Times come from one run, after a warm-up on a tiny graph.
"""

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import xoptim

OPSET = 18


class Graph:
    """A graph that grows node by node."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[TensorProto] = []
        self.inputs: list[onnx.ValueInfoProto] = []
        self.outputs: list[str] = []

    def input(self, *shape: int | str) -> str:
        """A new input of 32-bit floats."""
        name = f"x{len(self.inputs)}"
        self.inputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))
        return name

    def add(self, op_type: str, *inputs: str, outputs: int = 1, **attributes: Any) -> str:
        """A new node; the name of its only or first result, others have a number behind it."""
        name = f"r{len(self.nodes)}"
        results = [name, *(f"{name}_{i}" for i in range(1, outputs))]
        self.nodes.append(helper.make_node(op_type, inputs, results, **attributes))
        return name

    def constant(self, value: Any, dtype: Any = np.int64) -> str:
        """A new initializer."""
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(value, dtype), name))
        return name

    def model(self, *results: str) -> onnx.ModelProto:
        """The model with these results."""
        outputs = [onnx.ValueInfoProto(name=name) for name in results]
        graph = helper.make_graph(self.nodes, "family", self.inputs, outputs, self.constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10)


def movements(n: int) -> onnx.ModelProto:
    """Reshape and Transpose in turn, so that no part of the chain can be shortened."""
    g = Graph()
    x = g.input("a", 4, 6, 2)
    for i in range(n // 2):
        x = g.add("Reshape", x, g.constant([0, (3, 4, 6, 8)[i % 4], -1, 2]))
        x = g.add("Transpose", x, perm=[0, 2, 1, 3])
    return g.model(x)


def transposes(n: int) -> onnx.ModelProto:
    """Transpositions with elementwise operators between them, which merge to one."""
    g = Graph()
    x = g.input("a", "b", "c")
    for _ in range(n // 2):
        x = g.add("Relu", g.add("Transpose", x, perm=[1, 2, 0]))
    return g.model(x)


def images(n: int) -> onnx.ModelProto:
    """Images whose channels come last, around poolings that need them first."""
    g = Graph()
    x = g.input("a", 8, 8, 4)
    for _ in range(n // 5):
        y = g.add("Transpose", g.add("Relu", x), perm=[0, 3, 1, 2])
        y = g.add("AveragePool", y, kernel_shape=[3, 3], pads=[1, 1, 1, 1])
        x = g.add("Add", x, g.add("Transpose", y, perm=[0, 2, 3, 1]))
    return g.model(x)


def masked(n: int) -> onnx.ModelProto:
    """Many transposed tensors, each multiplied by the same one and joined."""
    g = Graph()
    x, y = g.input("a", 3, 4), g.input("a", 4, 3)
    turned = [g.add("Mul", y, g.add("Transpose", g.add("Tanh", x), perm=[0, 2, 1])) for _ in range(n // 3)]
    return g.model(g.add("Concat", *turned, axis=0))


def sums(n: int) -> onnx.ModelProto:
    """A sum of constants, one after the other."""
    g = Graph()
    x = g.input("a", "b")
    for i in range(n):
        x = g.add("Add", x, g.constant(1 + i % 3, np.float32))
    return g.model(x)


def products(n: int) -> onnx.ModelProto:
    """A product of many tensors, in which patterns look for factors in any order."""
    g = Graph()
    x = y = g.input("a", "b")
    for i in range(n):
        x = g.add("Mul", x, g.add("Tanh", y) if i % 5 == 0 else y)
    return g.model(x)


def concats(n: int) -> onnx.ModelProto:
    """Concat within Concat."""
    g = Graph()
    x = y = g.input("a", "b")
    for _ in range(n):
        x = g.add("Concat", x, y, axis=0)
    return g.model(x)


def joined(n: int) -> onnx.ModelProto:
    """One Concat of the pieces of many Splits, some of them whole."""
    g = Graph()
    parts = []
    for _ in range(n // 2):
        x = g.add("Split", g.input(4, "b"), axis=0, outputs=2, num_outputs=2)
        parts += [x, x, f"{x}_1"]
    return g.model(g.add("Concat", *parts, axis=0))


def cuts(n: int) -> onnx.ModelProto:
    """Slices of one Concat."""
    g = Graph()
    names = [g.input("a", 2) for _ in range(n // 2)]
    x = g.add("Concat", *names, axis=1)
    axis = g.constant([1])
    bounds = [g.constant([2 * i]) for i in range(n // 2 + 1)]
    return g.model(*(g.add("Slice", x, bounds[i], bounds[i + 1], axis) for i in range(n // 2)))


def heads(n: int) -> onnx.ModelProto:
    """Slices of one tensor, all from its start."""
    g = Graph()
    x, axis, zero = g.input("a", n + 1), g.constant([1]), g.constant([0])
    return g.model(*(g.add("Slice", x, zero, g.constant([i + 1]), axis) for i in range(n)))


def pieces(n: int) -> onnx.ModelProto:
    """Slices of one tensor, side by side."""
    g = Graph()
    x, axis = g.input("a", n), g.constant([1])
    return g.model(*(g.add("Neg", g.add("Slice", x, g.constant([i]), g.constant([i + 1]), axis)) for i in range(n // 2)))


def shapes(n: int) -> onnx.ModelProto:
    """Each result of a chain measured."""
    g = Graph()
    x = g.input("a", "b")
    names = []
    for _ in range(n // 2):
        x = g.add("Relu", x)
        names.append(g.add("Shape", x))
    return g.model(x, g.add("Sum", *(g.add("Cast", name, to=TensorProto.FLOAT) for name in names)))


def sizes(n: int) -> onnx.ModelProto:
    """Arithmetic on sizes, one after the other."""
    g = Graph()
    x = g.input("a", "b")
    s = g.add("Shape", x, end=1)
    t = g.add("Shape", x, start=1)
    for i in range(n // 2):
        s = g.add("Mul", g.add("Add", s, t), g.constant([1 + i % 2]))
    return g.model(s)


def inputs(n: int) -> onnx.ModelProto:
    """Many inputs, each reshaped by sizes of itself."""
    g = Graph()
    results = []
    for i in range(n // 4):
        x = g.input(f"a{i}", f"b{i}", 6)
        s = g.add("Concat", g.add("Shape", x, end=1), g.constant([-1, 3, 2]), axis=0)
        results.append(g.add("Reshape", x, s))
    return g.model(*results)


def stretched(n: int) -> onnx.ModelProto:
    """An Expand, and a chain behind it."""
    g = Graph()
    x = g.add("Expand", g.input("a", 1), g.constant([1, 5]))
    for _ in range(n):
        x = g.add("Neg", g.add("Exp", x))
    return g.model(x)


def sigmoids(n: int) -> onnx.ModelProto:
    """Sigmoids spelled out, each multiplied with the one before."""
    g = Graph()
    x, one = g.input("a", "b"), g.constant(1, np.float32)
    y = x
    for _ in range(n // 5):
        y = g.add("Mul", y, g.add("Div", one, g.add("Add", one, g.add("Exp", g.add("Neg", y)))))
    return g.model(y)


FAMILIES: dict[str, Callable[[int], onnx.ModelProto]] = {
    f.__name__: f
    for f in (
        *(
            movements,
            transposes,
            images,
            masked,
            sums,
            products,
            concats,
            joined,
            cuts,
            heads,
            pieces,
            shapes,
            sizes,
            inputs,
            stretched,
        ),
        sigmoids,
    )
}


def seconds(model: onnx.ModelProto, patterns: str) -> float:
    """Time of one optimization."""
    start = time.perf_counter()
    xoptim.optimize(model, patterns=patterns)
    return time.perf_counter() - start


def main() -> None:
    """Print a row for each family."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("families", nargs="*", default=list(FAMILIES), metavar="FAMILY", help=f"of {', '.join(FAMILIES)}")
    parser.add_argument("--nodes", type=int, default=250, help="n")
    parser.add_argument("--patterns", default="default+onnxruntime", help="selection of patterns")
    chosen = parser.parse_args()
    unknown = set(chosen.families) - set(FAMILIES)
    if unknown:
        parser.error(f"no such family: {', '.join(sorted(unknown))}")
    counts = [chosen.nodes, 2 * chosen.nodes, 4 * chosen.nodes]
    print(f"{'family':<12}" + "".join(f"{f'{n} nodes':>14}" for n in counts) + f"{'4n / n':>10}")
    for name in chosen.families:
        seconds(FAMILIES[name](20), chosen.patterns)
        times = [seconds(FAMILIES[name](n), chosen.patterns) for n in counts]
        print(f"{name:<12}" + "".join(f"{t:>12.2f} s" for t in times) + f"{times[-1] / times[0]:>10.1f}", flush=True)


if __name__ == "__main__":
    main()
