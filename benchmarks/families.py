"""Growth of time and memory of an optimization with families of graphs that repeat one structure n times.

    python -m benchmarks.families                                 # every family at n, 2n and 4n, n = 250
    python -m benchmarks.families --repeat 1000 movements concats
    python -m benchmarks.families --patterns default windows

Each measurement works in a process of its own, after a warm-up on a tiny graph, with Python's garbage collector at rest. It
prints nodes of the model, seconds of processor time of `xoptim.optimize`, that time for one repetition, the peak of the
resident memory of the process above that before the optimization (Linux only), and the time divided by the time at n: at 4n it
is 4 for time in proportion to the size, 16 for its square, 64 for its cube.
"""

import argparse
import gc
import time
from functools import reduce
from itertools import pairwise

import numpy as np
from onnx import TensorProto

import xoptim
from benchmarks.graphs import Graph, by_name
from benchmarks.process import apart
from benchmarks.sizes import SIZES
from xoptim.system.memory import peak_size, resident_size


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
    """Images whose channels come last, around poolings that need them first."""
    x = g.input("a", 8, 8, 4)
    for _ in range(n // 5):
        y = g.add("Transpose", g.add("Relu", x), perm=[0, 3, 1, 2])
        y = g.add("AveragePool", y, kernel_shape=[3, 3], pads=[1, 1, 1, 1])
        x = g.add("Add", x, g.add("Transpose", y, perm=[0, 2, 3, 1]))
    return x


def masked(g: Graph, n: int) -> str:
    """Many transposed tensors, each multiplied by the same one and joined."""
    x, y = g.input("a", 3, 4), g.input("a", 4, 3)
    turned = [g.add("Mul", y, g.add("Transpose", g.add("Tanh", x), perm=[0, 2, 1])) for _ in range(n // 3)]
    return g.add("Concat", *turned, axis=0)


def sums(g: Graph, n: int) -> str:
    """A sum of constants, one after the other."""
    x = g.input("a", "b")
    for i in range(n):
        x = g.add("Add", x, g.constant(1 + i % 3, np.float32))
    return x


def products(g: Graph, n: int) -> str:
    """A product of many tensors, in which patterns look for factors in any order."""
    x = y = g.input("a", "b")
    for i in range(n):
        x = g.add("Mul", x, g.add("Tanh", y) if i % 5 == 0 else y)
    return x


def concats(g: Graph, n: int) -> str:
    """Concat within Concat."""
    x = g.input("a", "b")
    return reduce(lambda y, _: g.add("Concat", y, x, axis=0), range(n), x)


def joined(g: Graph, n: int) -> str:
    """One Concat of the pieces of many Splits, some of them whole."""
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
    """Slices of one tensor, all from its start."""
    x, axis, zero = g.input("a", n + 1), g.constant([1]), g.constant([0])
    return [g.add("Slice", x, zero, g.constant([i + 1]), axis) for i in range(n)]


def pieces(g: Graph, n: int) -> list[str]:
    """Slices of one tensor, side by side."""
    x, axis = g.input("a", n), g.constant([1])
    return [g.add("Neg", g.add("Slice", x, g.constant([i]), g.constant([i + 1]), axis)) for i in range(n // 2)]


def shapes(g: Graph, n: int) -> tuple[str, ...]:
    """Each result of a chain measured."""
    x = g.input("a", "b")
    names = []
    for _ in range(n // 2):
        x = g.add("Relu", x)
        names.append(g.add("Shape", x))
    return x, g.add("Sum", *(g.add("Cast", name, to=TensorProto.FLOAT) for name in names))


def sizes(g: Graph, n: int) -> str:
    """Arithmetic on sizes, one after the other."""
    x = g.input("a", "b")
    s = g.add("Shape", x, end=1)
    t = g.add("Shape", x, start=1)
    for i in range(n // 2):
        s = g.add("Mul", g.add("Add", s, t), g.constant([1 + i % 2]))
    return s


def inputs(g: Graph, n: int) -> list[str]:
    """Many inputs, each reshaped by sizes of itself."""
    results = []
    for i in range(n // 4):
        x = g.input(f"a{i}", f"b{i}", 6)
        results.append(g.add("Reshape", x, g.add("Concat", g.add("Shape", x, end=1), g.constant([-1, 3, 2]), axis=0)))
    return results


def stretched(g: Graph, n: int) -> str:
    """An Expand, and a chain behind it."""
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
    *(movements, transposes, images, masked, sums, products, concats, joined, cuts, heads, pieces, shapes, sizes, inputs),
    *(stretched, sigmoids),
)


def measure(family: str, count: int, patterns: str) -> tuple[int, float, float]:
    """Nodes, seconds and mebibytes of one optimization, in this process."""
    build = (FAMILIES | SIZES)[family]
    xoptim.optimize(build(20), patterns=patterns)
    model = build(count)
    gc.collect()
    gc.disable()
    before = resident_size() or 0
    start = time.process_time()
    xoptim.optimize(model, patterns=patterns)
    seconds = time.process_time() - start
    return len(model.graph.node), seconds, ((peak_size() or 0) - before) / (1 << 20)


def main() -> None:
    """Print rows for each family."""
    names = [*FAMILIES, *SIZES]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("families", nargs="*", default=names, metavar="FAMILY", help=f"of {', '.join(names)}")
    parser.add_argument("--repeat", type=int, default=250, help="n (default %(default)s)")
    parser.add_argument("--patterns", default="default+onnxruntime", help="selection of patterns (default %(default)s)")
    parser.add_argument("--limit", type=float, default=120.0, help="seconds for one measurement (default %(default)s)")
    chosen = parser.parse_args()
    if unknown := set(chosen.families) - set(names):
        parser.error(f"no such family: {', '.join(sorted(unknown))}")
    print(f"{'family':<12}{'repeat':>8}{'nodes':>8}{'seconds':>10}{'us/repeat':>11}{'MiB':>8}{'growth':>8}")
    for family in chosen.families:
        first = 0.0
        for count in (chosen.repeat, 2 * chosen.repeat, 4 * chosen.repeat):
            try:
                nodes, seconds, memory = apart(measure, family, count, chosen.patterns, limit=chosen.limit)
            except RuntimeError as error:
                print(f"{family:<12}{count:>8}  {error}", flush=True)
                break
            first = first or seconds
            figures = f"{seconds:>10.2f}{1e6 * seconds / count:>11.0f}{memory:>8.0f}{seconds / first:>8.1f}"
            print(f"{family:<12}{count:>8}{nodes:>8}{figures}", flush=True)


if __name__ == "__main__":
    main()
