"""Families of graphs that repeat one structure (`FAMILIES`), or whose shapes become long symbolic
expressions (`SIZES`).

`benchmarks.scaling` measures how the time of an optimization grows with the number of repetitions.
"""

from collections.abc import Callable, Iterable
from functools import partial, reduce
from itertools import pairwise
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


class Graph:
    """A graph that grows node by node. Its random weights always have the same seed."""

    def __init__(self, opset: int = 18) -> None:
        self.opset = opset
        self.nodes: list[onnx.NodeProto] = []
        self.stored: list[TensorProto] = []
        self.inputs: list[onnx.ValueInfoProto] = []
        self.random = np.random.default_rng(0)

    def input(self, *shape: int | str, dtype: int = TensorProto.FLOAT, name: str = "") -> str:
        """A new input."""
        name = name or f"x{len(self.inputs)}"
        self.inputs.append(helper.make_tensor_value_info(name, dtype, shape))
        return name

    def add(self, op_type: str, *inputs: str, outputs: int = 1, **attributes: Any) -> str:
        """Add a node; returns the name of its first result, such as ``r7``.

        The further results are called ``r7_1``, ``r7_2``.
        """
        name = f"r{len(self.nodes)}"
        results = [name, *(f"{name}_{i}" for i in range(1, outputs))]
        self.nodes.append(
            helper.make_node(op_type, inputs, results, f"n{len(self.nodes)}", **attributes)
        )
        return name

    def constant(self, value: Any, dtype: Any = np.int64) -> str:
        """A new initializer."""
        name = f"c{len(self.stored)}"
        self.stored.append(numpy_helper.from_array(np.asarray(value, dtype), name))
        return name

    def ints(self, *values: int) -> str:
        """A vector of integers."""
        return self.constant(values)

    def weight(self, *shape: int, terms: float = 0) -> str:
        """A random initializer with the standard deviation ``terms ** -0.5``.

        A sum over ``terms`` products of weights and inputs of variance 1 then has the variance 1.
        ``terms`` is by default the number of rows.
        """
        return self.constant(
            self.random.standard_normal(shape) * (terms or shape[-2:][0]) ** -0.5, np.float32
        )

    def conv(self, x: str, channels: int, out: int, *, kernel: int = 3, stride: int = 1) -> str:
        """A Conv with a bias and padding, from ``channels`` to ``out`` channels."""
        weights = self.weight(out, channels, kernel, kernel, terms=channels * kernel**2 / 2)
        return self.add(
            "Conv", x, weights, self.weight(out), pads=[kernel // 2] * 4, strides=[stride] * 2
        )

    def model(self, *results: str) -> onnx.ModelProto:
        """The model with these outputs."""
        outputs = [onnx.ValueInfoProto(name=name) for name in results]
        graph = helper.make_graph(self.nodes, "drawn", self.inputs, outputs, self.stored)
        model = helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=10
        )
        for output, inferred in zip(
            model.graph.output, onnx.shape_inference.infer_shapes(model).graph.output, strict=True
        ):
            output.CopyFrom(inferred)
        return model


def drawn(
    build: Callable[..., str | Iterable[str]], *args: Any, **settings: Any
) -> onnx.ModelProto:
    """The model of a function that adds nodes to a graph, and returns the names of the outputs."""
    g = Graph()
    results = build(g, *args, **settings)
    return g.model(*([results] if isinstance(results, str) else results))


def by_name(
    *builds: Callable[[Graph, int], str | Iterable[str]],
) -> dict[str, Callable[[int], onnx.ModelProto]]:
    """Functions from a number of repetitions to a model, by the names of the given functions."""
    return {build.__name__: partial(drawn, build) for build in builds}


def movements(g: Graph, n: int) -> str:
    """Reshape and Transpose in turn, so that no part of the chain can be shortened."""
    x = g.input("a", 4, 6, 2)
    for i in range(n // 2):
        x = g.add("Reshape", x, g.constant([0, (3, 4, 6, 8)[i % 4], -1, 2]))
        x = g.add("Transpose", x, perm=[0, 2, 1, 3])
    return x


def transposes(g: Graph, n: int) -> str:
    """Transpositions with elementwise operators between them, which merge to one."""
    x = g.input("a", "b", "c")
    for _ in range(n // 2):
        x = g.add("Relu", g.add("Transpose", x, perm=[1, 2, 0]))
    return x


def images(g: Graph, n: int) -> str:
    """Images in NHWC, with a Transpose to NCHW and back around each AveragePool."""
    x = g.input("a", 8, 8, 4)
    for _ in range(n // 5):
        y = g.add("Transpose", g.add("Relu", x), perm=[0, 3, 1, 2])
        y = g.add("AveragePool", y, kernel_shape=[3, 3], pads=[1, 1, 1, 1])
        x = g.add("Add", x, g.add("Transpose", y, perm=[0, 2, 3, 1]))
    return x


def masked(g: Graph, n: int) -> str:
    """Many transposed tensors, each multiplied by one mask, and concatenated."""
    x, mask = g.input("a", 3, 4), g.input("a", 4, 3)
    products = [
        g.add("Mul", mask, g.add("Transpose", g.add("Tanh", x), perm=[0, 2, 1]))
        for _ in range(n // 3)
    ]
    return g.add("Concat", *products, axis=0)


def sums(g: Graph, n: int) -> str:
    """A chain of Adds with one constant each."""
    x = g.input("a", "b")
    for i in range(n):
        x = g.add("Add", x, g.constant(1 + i % 3, np.float32))
    return x


def products(g: Graph, n: int) -> str:
    """A chain of Muls, in which patterns look for factors in any order."""
    x = y = g.input("a", "b")
    for i in range(n):
        x = g.add("Mul", x, g.add("Tanh", y) if i % 5 == 0 else y)
    return x


def concats(g: Graph, n: int) -> str:
    """Concat within Concat."""
    x = g.input("a", "b")
    return reduce(lambda y, _: g.add("Concat", y, x, axis=0), range(n), x)


def joined(g: Graph, n: int) -> str:
    """One Concat of the results of many Splits; all results of a Split follow each other in it."""
    parts = []
    for _ in range(n // 2):
        x = g.add("Split", g.input(4, "b"), axis=0, outputs=2, num_outputs=2)
        parts += [x, x, f"{x}_1"]
    return g.add("Concat", *parts, axis=0)


def cuts(g: Graph, n: int) -> list[str]:
    """Slices of one Concat."""
    x = g.add("Concat", *(g.input("a", 2) for _ in range(n // 2)), axis=1)
    axis = g.constant([1])
    bounds = [g.constant([2 * i]) for i in range(n // 2 + 1)]
    return [g.add("Slice", x, start, end, axis) for start, end in pairwise(bounds)]


def heads(g: Graph, n: int) -> list[str]:
    """Slices of one tensor that all start at index 0."""
    x, axis, zero = g.input("a", n + 1), g.constant([1]), g.constant([0])
    return [g.add("Slice", x, zero, g.constant([i + 1]), axis) for i in range(n)]


def pieces(g: Graph, n: int) -> list[str]:
    """Adjacent Slices of one tensor."""
    x, axis = g.input("a", n), g.constant([1])
    return [
        g.add("Neg", g.add("Slice", x, g.constant([i]), g.constant([i + 1]), axis))
        for i in range(n // 2)
    ]


def shapes(g: Graph, n: int) -> tuple[str, ...]:
    """A chain, and the Shape of each of its results."""
    x = g.input("a", "b")
    names = []
    for _ in range(n // 2):
        x = g.add("Relu", x)
        names.append(g.add("Shape", x))
    return x, g.add("Sum", *(g.add("Cast", name, to=TensorProto.FLOAT) for name in names))


def sizes(g: Graph, n: int) -> str:
    """A chain of arithmetic on the dimensions of a tensor."""
    x = g.input("a", "b")
    s = g.add("Shape", x, end=1)
    t = g.add("Shape", x, start=1)
    for i in range(n // 2):
        s = g.add("Mul", g.add("Add", s, t), g.constant([1 + i % 2]))
    return s


def inputs(g: Graph, n: int) -> list[str]:
    """Many inputs, each reshaped by its own dimensions."""
    results = []
    for i in range(n // 4):
        x = g.input(f"a{i}", f"b{i}", 6)
        results.append(
            g.add(
                "Reshape",
                x,
                g.add("Concat", g.add("Shape", x, end=1), g.constant([-1, 3, 2]), axis=0),
            )
        )
    return results


def stretched(g: Graph, n: int) -> str:
    """An Expand, followed by a chain of elementwise operators."""
    x = g.add("Expand", g.input("a", 1), g.constant([1, 5]))
    for _ in range(n):
        x = g.add("Neg", g.add("Exp", x))
    return x


def sigmoids(g: Graph, n: int) -> str:
    """Sigmoids spelled out, each multiplied with the one before."""
    x, one = g.input("a", "b"), g.constant(1, np.float32)
    y = x
    for _ in range(n // 5):
        y = g.add("Mul", y, g.add("Div", one, g.add("Add", one, g.add("Exp", g.add("Neg", y)))))
    return y


FAMILIES = by_name(
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
    ),
    *(stretched, sigmoids),
)


def size_of(g: Graph, x: str, axis: int) -> str:
    """A dimension as a vector of one element."""
    return g.add("Shape", x, start=axis, end=axis + 1)


def windows(g: Graph, count: int) -> str:
    """Blocks of a Swin transformer.

    Each pads an image to a multiple of the window size by Mod, rolls it, crops it to its old size,
    and adds it to the input of the block.
    """
    x = g.input("h", "w")
    for block in range(count):
        pads = [
            g.add("Sub", g.ints(7), g.add("Mod", size_of(g, x, axis), g.ints(7))) for axis in (0, 1)
        ]
        pads = [g.add("Mod", pad, g.ints(7)) for pad in pads]
        y = g.add("Pad", x, g.add("Concat", g.ints(0, 0), *pads, axis=0))
        for axis in (0, 1):
            if block % 2:
                tail = g.add("Slice", y, g.ints(3), g.ints(2**62), g.ints(axis))
                head = g.add("Slice", y, g.ints(0), g.ints(3), g.ints(axis))
                y = g.add("Concat", tail, head, axis=axis)
        for axis in (0, 1):
            y = g.add("Slice", y, g.ints(0), size_of(g, x, axis), g.ints(axis))
        x = g.add("Add", x, y)
    return x


def detections(g: Graph, count: int) -> str:
    """Levels of a detector: the best k of each, or all if there are fewer, concatenated."""
    x = g.input("n")
    for level in range(count):
        k = g.add("Min", size_of(g, x, 0), g.ints(100 + level))
        maximum = g.add("TopK", g.input(f"m{level}"), g.ints(1), outputs=2)
        x = g.add("Concat", x, maximum, g.add("TopK", x, k, outputs=2), axis=0)
    return x


def broadcast(g: Graph, count: int) -> str:
    """Layers that broadcast the product of two sizes against one of them."""
    x, y = g.input("b", "s"), g.input("b")
    for _ in range(count):
        flat = g.add("Add", g.add("Reshape", x, g.ints(-1)), y)
        x = g.add("Mul", g.add("Unsqueeze", flat, g.ints(1)), g.add("Unsqueeze", y, g.ints(0)))
    return x


def squares(g: Graph, count: int) -> str:
    """A size multiplied by itself repeatedly."""
    size = size_of(g, g.input("s"), 0)
    for _ in range(count):
        size = g.add("Mul", size, size)
    return g.add("Expand", g.ints(1), g.add("Min", size, g.ints(3)))


def remainders(g: Graph, count: int) -> str:
    """The product of a size and its remainder."""
    size = size_of(g, g.input("s"), 0)
    for step in range(count):
        size = g.add("Mul", size, g.add("Mod", size, g.ints(3 + step % 5)))
    return size


def quotients(g: Graph, count: int) -> str:
    """A size plus a part of it."""
    size = size_of(g, g.input("s"), 0)
    for step in range(count):
        size = g.add("Add", g.add("Div", size, g.ints(2 + step % 5)), size)
    return size


def tails(g: Graph, count: int) -> str:
    """A sequence with its own last elements in front, as a cache grows."""
    x = g.input("s")
    for step in range(count):
        tail = g.add("Slice", x, g.ints(-3 - step % 4), g.ints(2**62), g.ints(0))
        rest = x if step % 2 else g.add("Slice", x, g.ints(0), g.ints(5), g.ints(0))
        x = g.add("Concat", tail, rest, axis=0)
    return x


def maxima(g: Graph, count: int) -> str:
    """One Max of this many sizes."""
    return g.add("Max", *(size_of(g, g.input(f"s{index}"), 0) for index in range(count)))


def operands(g: Graph, count: int) -> str:
    """One Sum of operands with this many dimension names.

    They broadcast: all sizes that are not 1 are equal.
    """
    return g.add("Sum", *(g.input(f"s{index}") for index in range(count)))


def lengths(g: Graph, count: int) -> str:
    """One Concat of this many different sizes."""
    return g.add("Concat", *(g.input(f"s{index}") for index in range(count)), axis=0)


def chained(g: Graph, count: int) -> str:
    """This many inputs of different sizes, concatenated one after the other."""
    return reduce(
        lambda x, index: g.add("Concat", x, g.input(f"s{index}"), axis=0),
        range(count),
        g.input("s"),
    )


def factors(g: Graph, count: int) -> str:
    """Sums of sizes, multiplied."""
    size = size_of(g, g.input("s"), 0)
    for index in range(count):
        size = g.add("Mul", size, g.add("Add", size_of(g, g.input(f"s{index}"), 0), g.ints(1)))
    return size


def narrow(g: Graph, count: int) -> str:
    """A size in int32, to which a third of it, computed in int64, is added repeatedly."""
    size = g.add("Cast", size_of(g, g.input("s"), 0), to=TensorProto.INT32)
    for _ in range(count):
        size = g.add(
            "Add", size, g.add("Cast", g.add("Div", g.add("Cast", size, to=7), g.ints(3)), to=6)
        )
    return size


def strides(g: Graph, count: int) -> str:
    """Pools that round up over a dynamic axis, each concatenated with its cropped operand."""
    x = g.input(1, 1, "s")
    for step in range(count):
        pooled = g.add("MaxPool", x, kernel_shape=[3], strides=[2], pads=[1, 1], ceil_mode=1)
        x = g.add(
            "Concat", pooled, g.add("Slice", x, g.ints(step % 3), g.ints(2**62), g.ints(2)), axis=2
        )
    return x


def ranges(g: Graph, count: int) -> str:
    """Ranges up to the length of a sequence, each appended to the sequence."""
    x = g.input("s", dtype=TensorProto.INT64)
    for step in range(count):
        stride = g.add("Squeeze", g.ints(1 + step % 3))
        length = g.add("Squeeze", size_of(g, x, 0))
        x = g.add("Concat", x, g.add("Range", stride, length, stride), axis=0)
    return x


SIZES = by_name(
    *(
        windows,
        detections,
        broadcast,
        squares,
        remainders,
        quotients,
        tails,
        maxima,
        operands,
        lengths,
        chained,
        factors,
    ),
    *(narrow, strides, ranges),
)
