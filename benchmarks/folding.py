"""Nodes and time of models with equal subgraphs side by side, in three forms: not stacked, stacked
where the default patterns do it, and all stacked (``default+repeated``).

    # all cases, one thread
    python -m benchmarks.folding
    python -m benchmarks.folding towers_8 tables --threads 2
    # part of `make cuda`
    python -m benchmarks.folding --provider cuda
    # how the time of the pass grows with the size of the graph
    python -m benchmarks.folding --growth
    # the constants of xoptim.passes.repeated.cost, measured on this machine
    python -m benchmarks.folding --constants

The models run with all ORT graph optimizations, in rounds of random order. A ratio below 1 means
that the stacked model is faster than the one that is not stacked; its interval comes from the
bootstrap over passes and rounds. A model that the default patterns do not stack has no ratio in
their column.
"""

import argparse
import random
import time
from collections.abc import Callable, Iterable
from functools import partial, reduce

import numpy as np
import onnx
import onnxruntime

import xoptim
from benchmarks.families import Graph, drawn
from benchmarks.tools import cell, missing_provider
from xoptim.bench import bench
from xoptim.bench.rounds import Times, measure_pass
from xoptim.graph.load import load_model
from xoptim.passes.repeated import Repeated
from xoptim.passes.repeated.cost import Costs
from xoptim.system.collection import collection_paused

SHORT_CHAIN, LONG_CHAIN = 8, 40
"""Numbers of links of the two chains whose times are compared."""
Link = Callable[[Graph, str], str]
"""Adds a node, or several, to a chain whose tensor keeps its shape."""


def session(link: Link, shape: tuple[int, ...], length: int) -> Callable[[], object]:
    """A function that runs a chain with this many links in onnxruntime, on one thread."""
    g = Graph()
    x = g.add("Neg", g.input(*shape))
    for _ in range(length):
        x = link(g, x)
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = 1
    chain = onnxruntime.InferenceSession(
        g.model(x).SerializeToString(), settings, providers=["CPUExecutionProvider"]
    )
    binding = chain.io_binding()
    binding.bind_cpu_input("x0", np.random.default_rng(0).random(shape, np.float32))
    binding.bind_output(x)
    return lambda: chain.run_with_iobinding(binding)


def link_time(link: Link, *shape: int, seconds: float = 0.5) -> float:
    """Nanoseconds of one link: the difference of a long and a short chain, for each link more."""
    runs = [session(link, shape, length) for length in (SHORT_CHAIN, LONG_CHAIN)]
    times = [Times(), Times()]
    for _ in range(3):
        measure_pass(runs, times, seconds / 3, random.Random(0), time.thread_time)
    return 1e9 * (times[1].best - times[0].best) / (LONG_CHAIN - SHORT_CHAIN)


def unary(op_type: str) -> Link:
    """An operator of one operand."""
    return lambda g, x: g.add(op_type, x)


def shifted(g: Graph, x: str) -> str:
    """Add of a vector that is broadcast along the rows."""
    return g.add("Add", x, g.weight(16))


def reversed_rows(count: int) -> Link:
    """A Gather that reverses the rows."""
    return lambda g, x: g.add("Gather", x, g.constant(np.arange(count)[::-1].copy()))


def reduced(g: Graph, x: str) -> str:
    """ReduceSum over the first axis, added to the tensor."""
    return g.add("Add", x, g.add("ReduceSum", x, g.constant([0])))


def product(*shape: int) -> Link:
    """A MatMul with a matrix, or with a stack of matrices."""
    return lambda g, x: g.add("MatMul", x, g.weight(*shape))


def taken_apart(count: int) -> Link:
    """A Split into this many results, and a Concat of them."""

    def link(g: Graph, x: str) -> str:
        first = g.add("Split", x, axis=0, num_outputs=count, outputs=count)
        return g.add("Concat", first, *(f"{first}_{index}" for index in range(1, count)), axis=0)

    return link


def lanes(count: int) -> Link:
    """Gathers of this many single indices, whose sum is added to the tensor."""
    return lambda g, x: g.add(
        "Add", x, g.add("Sum", *(g.add("Gather", x, g.constant(lane)) for lane in range(count)))
    )


def measured() -> Costs:
    """The constants on this machine: one thread of the CPU."""
    launch = link_time(unary("Abs"), 1, 8)
    light = (link_time(unary("Abs"), 8, 2048) - launch) / 2**14
    heavy = (link_time(unary("Tanh"), 8, 2048) - launch) / 2**14
    spilled = (link_time(unary("Abs"), 1024, 1024) - launch) / 2**20 - light
    run = (link_time(shifted, 1024, 16) - launch) / 2**10 - 16 * light
    handled = link_time(reversed_rows(8), 8, 1)
    copied = (link_time(reversed_rows(8), 8, 2048) - handled) / 2**14
    port = (link_time(taken_apart(8), 8, 1, 16) - link_time(taken_apart(2), 8, 1, 16)) / 12
    lane = (link_time(lanes(8), 8, 1, 16) - link_time(lanes(1), 8, 1, 16)) / 7 - port
    reduce_and_add = link_time(reduced, 8, 2048) - link_time(reduced, 8, 1)
    multiply = link_time(product(8, 8), 1, 8)
    read = (link_time(product(64, 64), 1, 64) - multiply) / 2**12
    multiplied = ((link_time(product(128, 128), 128, 128) - multiply) / 2**14 - read) / 2**7
    matrix = (link_time(product(8, 16, 16), 8, 1, 16) - multiply) / 8 - 256 * read
    packed = (
        ((link_time(product(16, 64, 64), 16, 8, 64) - multiply) / 16 - matrix) / 2**12
        - read
        - 8 * multiplied
    )
    return Costs(
        launch=launch,
        handled=handled,
        port=port,
        lane=lane,
        matmul=multiply,
        matrix=matrix,
        light=light,
        heavy=heavy,
        copied=copied,
        reduced=reduce_and_add / 2**14 - light - run / 2**11,
        run=run,
        spilled=spilled,
        read=read,
        packed=packed,
        multiplied=multiplied,
    )


def tower(g: Graph, x: str, width: int) -> str:
    """A perceptron of three layers."""
    for _ in range(3):
        x = g.add("Relu", g.add("Add", g.add("MatMul", x, g.weight(width, width)), g.weight(width)))
    return x


def added(g: Graph, terms: Iterable[str]) -> str:
    """Terms added up one by one, as exporters write a loop."""
    return reduce(partial(g.add, "Add"), terms)


def towers(g: Graph, count: int, width: int = 32, rows: int = 1, shared: bool = True) -> str:
    """Perceptrons whose results are added, with one shared input or an input each."""
    x = g.input(rows, width)
    return g.add(
        "Sum", *(tower(g, x if shared else g.input(rows, width), width) for _ in range(count))
    )


def towers_but_one(
    g: Graph, count: int = 8, width: int = 32, rows: int = 16, open_weights: bool = True
) -> str:
    """Perceptrons of one input, of which the last one differs.

    Its weights are graph inputs, or else its activation is Tanh in place of Relu.
    """
    x = g.input(rows, width)
    equal_towers = [tower(g, x, width) for _ in range(count - 1)]
    y = x
    for _ in range(3):
        weights = g.input(width, width) if open_weights else g.weight(width, width)
        y = g.add(
            "Relu" if open_weights else "Tanh",
            g.add("Add", g.add("MatMul", y, weights), g.weight(width)),
        )
    return g.add("Concat", *equal_towers, y, axis=1)


def shared_weights(g: Graph, count: int = 8, width: int = 32, rows: int = 16) -> str:
    """Perceptrons with an input each, which share weights.

    All have the same weights in the first layer, and pairs of them in the second layer.
    """
    first, second = g.weight(width, width), [g.weight(width, width) for _ in range(count // 2)]
    results = []
    for index in range(count):
        x = g.input(rows, width)
        for weights in (first, second[index // 2], g.weight(width, width)):
            x = g.add("Relu", g.add("Add", g.add("MatMul", x, weights), g.weight(width)))
        results.append(x)
    return g.add("Sum", *results)


def experts(
    g: Graph, count: int = 8, width: int = 64, rows: int = 16, is_chain: bool = False
) -> str:
    """A dense mixture of experts: all are computed, and weighted by a gate."""
    x = g.input(rows, width)
    shares = g.add("Softmax", g.add("MatMul", x, g.weight(width, count)), axis=-1)
    outs = []
    for expert in range(count):
        hidden = g.add("MatMul", x, g.weight(width, 2 * width))
        y = g.add(
            "MatMul", g.add("Mul", hidden, g.add("Sigmoid", hidden)), g.weight(2 * width, width)
        )
        share = g.add(
            "Slice", shares, g.constant([expert]), g.constant([expert + 1]), g.constant([1])
        )
        outs.append(g.add("Mul", y, share))
    return added(g, outs) if is_chain else g.add("Sum", *outs)


def tables(g: Graph, count: int = 26, rows: int = 16) -> str:
    """This many embeddings of four ids a row; each is averaged over its ids, and all are
    concatenated.
    """
    numbers = g.add("Mul", g.add("Sigmoid", g.input(rows, 4)), g.constant(999, np.float32))
    ids = g.add("Cast", numbers, to=onnx.TensorProto.INT64)
    outs = []
    for _ in range(count):
        factor = g.constant(g.random.integers(1, 9))
        table_ids = g.add("Mod", g.add("Mul", ids, factor), g.constant(1000))
        vectors = g.add("Gather", g.weight(1000, 16), table_ids)
        outs.append(g.add("ReduceMean", vectors, g.constant([1]), keepdims=0))
    return g.add("Concat", *outs, axis=1)


def gates(g: Graph, steps: int = 8, width: int = 32) -> str:
    """An unrolled LSTM cell, with two MatMuls for each of its four gates."""
    h = c = g.input(1, width)
    for _ in range(steps):
        x = g.input(1, width)
        terms = (
            [g.add("MatMul", operand, g.weight(width, width)) for operand in (x, h)]
            for _ in range(4)
        )
        sums = [g.add("Add", *pair) for pair in terms]
        i, f, o = (g.add("Sigmoid", total) for total in sums[:3])
        c = g.add("Add", g.add("Mul", f, c), g.add("Mul", i, g.add("Tanh", sums[3])))
        h = g.add("Mul", o, g.add("Tanh", c))
    return h


def heads(g: Graph, count: int = 8, width: int = 64, rows: int = 32) -> str:
    """Attention with separate MatMuls for each head."""
    x, size = g.input(rows, width), width // count
    outs = []
    for _ in range(count):
        q, k, v = (g.add("MatMul", x, g.weight(width, size)) for _ in range(3))
        outs.append(
            g.add(
                "MatMul",
                g.add("Softmax", g.add("MatMul", q, g.add("Transpose", k, perm=[1, 0])), axis=-1),
                v,
            )
        )
    return g.add("MatMul", g.add("Concat", *outs, axis=1), g.weight(width, width))


def circuit(g: Graph, trees: int = 4, leaves: int = 64, units: int = 8, rows: int = 4) -> str:
    """A probabilistic circuit in the log domain, averaged over several trees.

    A tree multiplies its two halves (Add of logarithms), and mixes the units of each half by a
    log-sum-exp with weights, down to single variables.
    """
    x = [g.add("Log", g.add("Sigmoid", g.input(rows, units))) for _ in range(leaves)]

    def total(y: str) -> str:
        top = g.add("ReduceMax", y, g.constant([-1]), keepdims=1)
        shares = g.constant(g.random.dirichlet(np.ones(units), units).T, np.float32)
        return g.add(
            "Add", g.add("Log", g.add("MatMul", g.add("Exp", g.add("Sub", y, top)), shares)), top
        )

    def region(start: int, end: int) -> str:
        if end - start == 1:
            return x[start]
        middle = (start + end) // 2
        return total(g.add("Add", total(region(start, middle)), total(region(middle, end))))

    return g.add("Mean", *(region(0, leaves) for _ in range(trees)))


def one_layer(g: Graph, count: int = 8, width: int = 64, rows: int | str = 16) -> str:
    """Dense layers of one input, whose results are concatenated."""
    x = g.input(rows, width)
    sums = (
        g.add("Add", g.add("MatMul", x, g.weight(width, width)), g.weight(width))
        for _ in range(count)
    )
    return g.add("Concat", *(g.add("Tanh", total) for total in sums), axis=1)


def convolution(g: Graph, x: str, channels: int, out: int, kernel: int) -> str:
    """A Conv and a Relu, from ``channels`` to ``out`` channels."""
    return g.add("Relu", g.conv(x, channels, out, kernel=kernel))


def branches(g: Graph, channels: int = 192, size: int = 28) -> str:
    """An Inception block: two 1x1 convolutions, a 1x1 followed by a 3x3, and a 1x1 followed by a
    5x5.
    """
    x = g.input(1, channels, size, size)
    outs = [convolution(g, x, channels, 32, 1), convolution(g, x, channels, 32, 1)]
    for middle, out, kernel in ((96, 128, 3), (16, 32, 5)):
        outs.append(convolution(g, convolution(g, x, channels, middle, 1), middle, out, kernel))
    return g.add("Concat", *outs, axis=1)


def resnext(g: Graph, count: int = 8, channels: int = 64, size: int = 14) -> str:
    """A ResNeXt block: branches of convolutions, which are added to the input one by one."""
    x = g.input(1, channels, size, size)
    outs = []
    for _ in range(count):
        narrow = convolution(g, convolution(g, x, channels, 4, 1), 4, 4, 3)
        outs.append(g.add("Conv", narrow, g.weight(channels, 4, 1, 1), g.weight(channels)))
    return g.add("Relu", added(g, [x, *outs]))


def ensemble(g: Graph, count: int = 5, size: int = 16) -> str:
    """Small CNNs of one image, whose probabilities are averaged."""
    x, outs = g.input(1, 3, size, size), []
    for _ in range(count):
        y = convolution(g, convolution(g, x, 3, 16, 3), 16, 32, 3)
        y = g.add("Flatten", g.add("GlobalAveragePool", y))
        outs.append(g.add("Softmax", g.add("Gemm", y, g.weight(32, 10), g.weight(10)), axis=-1))
    return g.add("Mean", *outs)


CASES: dict[str, Callable[..., str]] = {
    **{f"towers_{count}": partial(towers, count=count) for count in (2, 8, 64)},
    **{f"towers_{count}_of_16_rows": partial(towers, count=count, rows=16) for count in (2, 8, 64)},
    **{f"towers_{count}_wide": partial(towers, count=count, width=256) for count in (2, 8)},
    **{
        f"towers_{count}_wide_of_64_rows": partial(towers, count=count, width=256, rows=64)
        for count in (2, 8)
    },
    **{f"inputs_{count}": partial(towers, count=count, shared=False) for count in (2, 8, 64)},
    "towers_8_shared": shared_weights,
    "towers_7_and_open_weights": towers_but_one,
    "towers_7_and_another": partial(towers_but_one, open_weights=False),
    "layers_8": one_layer,
    "layers_8_of_128_rows": partial(one_layer, rows=128),
    "branches": branches,
    "resnext": resnext,
    "ensemble": ensemble,
    "experts": experts,
    "moe": partial(experts, is_chain=True),
    "moe_2_rows": partial(experts, width=16, rows=2, is_chain=True),
    "tables": tables,
    "gates": gates,
    "heads": heads,
    "circuit": circuit,
    "circuit_of_256": partial(circuit, leaves=256, trees=1),
}


APART = "default-repeated-MatMulConcat-ConvConcat"
SELECTIONS = (APART, "default", "default+repeated")


def measure(name: str, threads: int, seconds: float, provider: str) -> str:
    """A row of the table: the nodes of the three forms of a model, the time of the form that is not
    stacked, and the times of the others divided by it.
    """
    model = drawn(CASES[name])
    results = {
        patterns: xoptim.optimize(model, patterns=patterns, verify=True, provider=provider)
        for patterns in SELECTIONS
    }
    sizes = [len(result.graph.node) for result in results.values()]
    if sizes[1] == sizes[0]:
        del results["default"]
    report = bench(results, threads=threads, seconds=seconds, loading=False, provider=provider)
    assert report.is_equal
    ratios = {times.label: times.ratio for times in report.models}
    cells = [name, *map(str, sizes), f"{1e6 * report.models[0].median:.0f}"]
    cells += [cell(ratios.get(patterns)) for patterns in SELECTIONS[1:]]
    return f"| {' | '.join(cells)} |"


def growth() -> None:
    """The time of the pass on circuits of more and more trees."""
    print(f"{'nodes':>8}{'seconds':>9}{'us/node':>9}")
    for trees in (2, 4, 16, 64, 128):
        model = load_model(drawn(circuit, trees))
        size = len(model.graph.nodes)
        start = time.process_time()
        with collection_paused():  # as in an optimization
            Repeated().run(model)
        seconds = time.process_time() - start
        print(f"{size:>8}{seconds:>9.2f}{1e6 * seconds / size:>9.0f}", flush=True)


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "cases", nargs="*", default=list(CASES), metavar="CASE", help=f"of {', '.join(CASES)}"
    )
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument(
        "--seconds", type=float, default=1.0, help="time of measured runs for each model"
    )
    parser.add_argument(
        "--provider",
        default="cpu",
        help="execution provider; --constants always measures the CPU",
    )
    parser.add_argument(
        "--growth",
        action="store_true",
        help="measure how the time of the pass grows with the size of the graph",
    )
    parser.add_argument(
        "--constants",
        action="store_true",
        help="measure the constants of the cost model, in nanoseconds",
    )
    options = parser.parse_args()
    if options.constants:
        print("\n".join(f"{name:<12}{value:>8.3f}" for name, value in measured()._asdict().items()))
        return
    if options.growth:
        growth()
        return
    if reason := missing_provider(options.provider):
        print(f"nothing measured: {reason}")
        return
    print(
        "| case | nodes, not stacked | nodes, default | nodes, all stacked | not stacked, µs "
        "| default | all stacked |"
    )
    print("|---|---:|---:|---:|---:|---:|---:|")
    for name in options.cases:
        print(measure(name, options.threads, options.seconds, options.provider), flush=True)


if __name__ == "__main__":
    main()
