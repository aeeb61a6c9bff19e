"""Families of graphs that compute with sizes of open dimensions; `benchmarks.scaling` measures them.

Each family is a graph that, repeated, makes the expression for a size longer, deeper or of a higher degree.
"""

from functools import reduce

from onnx import TensorProto

from benchmarks.families import Graph, by_name


def size_of(g: Graph, x: str, axis: int) -> str:
    """A size as a vector of one element."""
    return g.add("Shape", x, start=axis, end=axis + 1)


def windows(g: Graph, count: int) -> str:
    """Blocks of a vision transformer: padded to whole windows by Mod, rolled, cropped, added."""
    x = g.input("h", "w")
    for block in range(count):
        pads = [g.add("Sub", g.ints(7), g.add("Mod", size_of(g, x, axis), g.ints(7))) for axis in (0, 1)]
        pads = [g.add("Mod", pad, g.ints(7)) for pad in pads]
        y = g.add("Pad", x, g.add("Concat", g.ints(0, 0), *pads, axis=0))
        for axis in (0, 1):
            if block % 2:
                left = g.add("Slice", y, g.ints(3), g.ints(2**62), g.ints(axis))
                y = g.add("Concat", left, g.add("Slice", y, g.ints(0), g.ints(3), g.ints(axis)), axis=axis)
        for axis in (0, 1):
            y = g.add("Slice", y, g.ints(0), size_of(g, x, axis), g.ints(axis))
        x = g.add("Add", x, y)
    return x


def detections(g: Graph, count: int) -> str:
    """Levels of a detector: the best k of each, or all if there are fewer, concatenated."""
    x = g.input("n")
    for level in range(count):
        k = g.add("Min", size_of(g, x, 0), g.ints(100 + level))
        one = g.add("TopK", g.input(f"m{level}"), g.ints(1), outputs=2)
        x = g.add("Concat", x, one, g.add("TopK", x, k, outputs=2), axis=0)
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
    """One Sum of operands with this many different sizes; at most one is not 1."""
    return g.add("Sum", *(g.input(f"s{index}") for index in range(count)))


def lengths(g: Graph, count: int) -> str:
    """One Concat of this many different sizes."""
    return g.add("Concat", *(g.input(f"s{index}") for index in range(count)), axis=0)


def chained(g: Graph, count: int) -> str:
    """This many sizes concatenated one after the other, with a reader of each length."""
    return reduce(lambda x, index: g.add("Concat", x, g.input(f"s{index}"), axis=0), range(count), g.input("s"))


def factors(g: Graph, count: int) -> str:
    """Sums of sizes, multiplied."""
    size = size_of(g, g.input("s"), 0)
    for index in range(count):
        size = g.add("Mul", size, g.add("Add", size_of(g, g.input(f"s{index}"), 0), g.ints(1)))
    return size


def narrow(g: Graph, count: int) -> str:
    """Sizes computed with 32 bits, doubled until no bit of them is left."""
    size = g.add("Cast", size_of(g, g.input("s"), 0), to=TensorProto.INT32)
    for _ in range(count):
        size = g.add("Add", size, g.add("Cast", g.add("Div", g.add("Cast", size, to=7), g.ints(3)), to=6))
    return size


def strides(g: Graph, count: int) -> str:
    """Pools that round up over an open axis, each added to its cropped operand."""
    x = g.input(1, 1, "s")
    for step in range(count):
        pooled = g.add("MaxPool", x, kernel_shape=[3], strides=[2], pads=[1, 1], ceil_mode=1)
        x = g.add("Concat", pooled, g.add("Slice", x, g.ints(step % 3), g.ints(2**62), g.ints(2)), axis=2)
    return x


def ranges(g: Graph, count: int) -> str:
    """Positions from one size to another."""
    x = g.input("s", dtype=TensorProto.INT64)
    for step in range(count):
        one = g.add("Squeeze", g.ints(1 + step % 3))
        x = g.add("Concat", x, g.add("Range", one, g.add("Squeeze", size_of(g, x, 0)), one), axis=0)
    return x


SIZES = by_name(
    *(windows, detections, broadcast, squares, remainders, quotients, tails, maxima, operands, lengths, chained, factors),
    *(narrow, strides, ranges),
)
