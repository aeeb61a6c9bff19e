"""Nodes and time of models with equal parts side by side, folded and not.

    python -m benchmarks.folding                            # all cases, one thread
    python -m benchmarks.folding towers_8 tables --threads 2
    python -m benchmarks.folding --growth                   # the time of the pass against the size of the graph
    python -m benchmarks.folding --constants                # those of xoptim.repeated.cost, on this machine

Both models run with all of onnxruntime's own optimizations, in rounds of random order. A ratio below 1 says that folding pays;
its interval is that of the bootstrap over passes and rounds.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial

import numpy as np
import onnx

import xoptim
from benchmarks.costs import measured
from benchmarks.families import Graph
from xoptim.bench import bench
from xoptim.graph.load import load_model
from xoptim.repeated import Repeated

RANDOM = np.random.default_rng(0)


def weight(g: Graph, *shape: int) -> str:
    """A stored tensor of random numbers."""
    return g.constant(RANDOM.standard_normal(shape) * shape[0] ** -0.5, np.float32)


def tower(g: Graph, x: str, width: int, layers: int = 3) -> str:
    """A perceptron."""
    for _ in range(layers):
        x = g.add("Relu", g.add("Add", g.add("MatMul", x, weight(g, width, width)), weight(g, width)))
    return x


def towers(count: int, width: int = 32, rows: int = 1, shared: bool = True) -> onnx.ModelProto:
    """Perceptrons of one input, or of an input each, whose results are added."""
    g = Graph()
    x = g.input(rows, width)
    return g.model(g.add("Sum", *(tower(g, x if shared else g.input(rows, width), width) for _ in range(count))))


def experts(count: int = 8, width: int = 64, rows: int = 16) -> onnx.ModelProto:
    """A mixture: all experts are computed, and weighted by a gate."""
    g = Graph()
    x = g.input(rows, width)
    shares = g.add("Softmax", g.add("MatMul", x, weight(g, width, count)), axis=-1)
    outs = []
    for expert in range(count):
        hidden = g.add("MatMul", x, weight(g, width, 2 * width))
        y = g.add("MatMul", g.add("Mul", hidden, g.add("Sigmoid", hidden)), weight(g, 2 * width, width))
        share = g.add("Slice", shares, g.constant([expert]), g.constant([expert + 1]), g.constant([1]))
        outs.append(g.add("Mul", y, share))
    return g.model(g.add("Sum", *outs))


def tables(count: int = 26, rows: int = 16) -> onnx.ModelProto:
    """Embeddings of so many features, a mean over the items of each, side by side."""
    g = Graph()
    ids = g.add(
        "Cast", g.add("Mul", g.add("Sigmoid", g.input(rows, 4)), g.constant(999, np.float32)), to=onnx.TensorProto.INT64
    )
    outs = []
    for _ in range(count):
        table = weight(g, 1000, 16)
        own = g.add("Mod", g.add("Mul", ids, g.constant(int(RANDOM.integers(1, 9)))), g.constant(1000))
        outs.append(g.add("ReduceMean", g.add("Gather", table, own), g.constant([1]), keepdims=0))
    return g.model(g.add("Concat", *outs, axis=1))


def gates(steps: int = 8, width: int = 32) -> onnx.ModelProto:
    """A recurrent cell written out, with four products for its gates."""
    g = Graph()
    h = c = g.input(1, width)
    for _ in range(steps):
        x = g.input(1, width)
        raw = [
            g.add("Add", g.add("MatMul", x, weight(g, width, width)), g.add("MatMul", h, weight(g, width, width)))
            for _ in range(4)
        ]
        i, f, o = (g.add("Sigmoid", each) for each in raw[:3])
        c = g.add("Add", g.add("Mul", f, c), g.add("Mul", i, g.add("Tanh", raw[3])))
        h = g.add("Mul", o, g.add("Tanh", c))
    return g.model(h)


def heads(count: int = 8, width: int = 64, rows: int = 32) -> onnx.ModelProto:
    """Attention with products of its own for each head."""
    g = Graph()
    x, size = g.input(rows, width), width // count
    outs = []
    for _ in range(count):
        q, k, v = (g.add("MatMul", x, weight(g, width, size)) for _ in range(3))
        scores = g.add("Softmax", g.add("MatMul", q, g.add("Transpose", k, perm=[1, 0])), axis=-1)
        outs.append(g.add("MatMul", scores, v))
    return g.model(g.add("MatMul", g.add("Concat", *outs, axis=1), weight(g, width, width)))


def circuit(trees: int = 4, leaves: int = 64, units: int = 8, rows: int = 4) -> onnx.ModelProto:
    """Sums, in logarithms, over products of halves, down to single variables; their mean over several trees."""
    g = Graph()
    x = [g.add("Log", g.add("Sigmoid", g.input(rows, units))) for _ in range(leaves)]

    def total(y: str) -> str:
        top = g.add("ReduceMax", y, g.constant([-1]), keepdims=1)
        shares = g.constant(RANDOM.dirichlet(np.ones(units), units).T, np.float32)
        return g.add("Add", g.add("Log", g.add("MatMul", g.add("Exp", g.add("Sub", y, top)), shares)), top)

    def region(start: int, end: int) -> str:
        if end - start == 1:
            return x[start]
        middle = (start + end) // 2
        return total(g.add("Add", total(region(start, middle)), total(region(middle, end))))

    return g.model(g.add("Mean", *(region(0, leaves) for _ in range(trees))))


CASES: dict[str, Callable[[], onnx.ModelProto]] = {
    **{f"towers_{count}": partial(towers, count) for count in (2, 8, 64)},
    **{f"towers_{count}_of_16_rows": partial(towers, count, rows=16) for count in (2, 8, 64)},
    **{f"towers_{count}_wide": partial(towers, count, 256) for count in (2, 8)},
    **{f"towers_{count}_wide_of_64_rows": partial(towers, count, 256, 64) for count in (2, 8)},
    **{f"inputs_{count}": partial(towers, count, shared=False) for count in (2, 8, 64)},
    "experts": experts,
    "tables": tables,
    "gates": gates,
    "heads": heads,
    "circuit": circuit,
}


def measure(name: str, threads: int, seconds: float) -> str:
    """A row: nodes before and after, and the ratio of the times."""
    model = CASES[name]()
    before = xoptim.optimize(model)
    after = xoptim.optimize(model, patterns="default+repeated", verify=True)
    report = bench({"apart": before, "together": after}, threads=threads, seconds=seconds, loading=False)
    ratio = report.models[1].ratio
    assert ratio is not None
    assert report.is_equal
    low, high = ratio.interval
    nodes = f"{len(before.graph.node):>7}{len(after.graph.node):>7}"
    return f"{name:<26}{nodes}{1e6 * report.models[0].median:>10.0f}{ratio.value:>7.2f} ({low:.2f} to {high:.2f})"


def growth() -> None:
    """The time of the pass on circuits of more and more trees."""
    print(f"{'nodes':>8}{'seconds':>9}{'us/node':>9}")
    for trees in (2, 4, 16, 64, 128):
        model = load_model(circuit(trees))
        size = len(model.graph.nodes)
        start = time.process_time()
        Repeated().run(model)
        seconds = time.process_time() - start
        print(f"{size:>8}{seconds:>9.2f}{1e6 * seconds / size:>9.0f}", flush=True)


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", default=list(CASES), metavar="CASE", help=f"of {', '.join(CASES)}")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1.0, help="of measured runs for each model")
    parser.add_argument("--growth", action="store_true", help="the time of the pass against the size of the graph")
    parser.add_argument("--constants", action="store_true", help="what the parts of the work of a node take, in nanoseconds")
    given = parser.parse_args()
    if given.constants:
        print("\n".join(f"{name:<12}{value:>8.3f}" for name, value in measured()._asdict().items()))
        return
    if given.growth:
        growth()
        return
    print(f"{'case':<26}{'nodes':>14}{'us':>10}{'ratio':>7}")
    for name in given.cases:
        print(measure(name, given.threads, given.seconds), flush=True)


if __name__ == "__main__":
    main()
