"""The constants of `xoptim.repeated.cost`, measured: see `benchmarks.folding --constants`.

Each constant comes from the difference of two models, which have few and many nodes of one kind in a row: what a session takes
besides its nodes cancels out. The shortest run of each model counts.
"""

import random
import time
from collections.abc import Callable

import numpy as np
import onnxruntime

from benchmarks.graphs import Graph
from xoptim.bench.rounds import Times, measure_pass
from xoptim.repeated.cost import Costs

FEW, MANY = 8, 40
Link = Callable[[Graph, str], str]
"""Adds a node, or several, to a chain whose tensor keeps its shape."""


def session(link: Link, shape: tuple[int, ...], length: int) -> Callable[[], object]:
    """A run, on one thread, of a chain with this many links."""
    g = Graph()
    x = g.add("Neg", g.input(*shape))
    for _ in range(length):
        x = link(g, x)
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = 1
    found = onnxruntime.InferenceSession(g.model(x).SerializeToString(), settings, providers=["CPUExecutionProvider"])
    binding = found.io_binding()
    binding.bind_cpu_input("x0", np.random.default_rng(0).random(shape, np.float32))
    binding.bind_output(x)
    return lambda: found.run_with_iobinding(binding)


def link_time(link: Link, *shape: int, seconds: float = 0.5) -> float:
    """Nanoseconds of a link of a chain."""
    runs = [session(link, shape, length) for length in (FEW, MANY)]
    times = [Times(), Times()]
    for _ in range(3):  # sessions differ in where their tensors lie
        measure_pass(runs, times, seconds / 3, random.Random(0), time.thread_time)
    return 1e9 * (times[1].best - times[0].best) / (MANY - FEW)


def unary(op_type: str) -> Link:
    """An operator of one operand."""
    return lambda g, x: g.add(op_type, x)


def shifted(g: Graph, x: str) -> str:
    """A row is added to each row."""
    return g.add("Add", x, g.weight(16))


def reversed_rows(count: int) -> Link:
    """The rows in the opposite order."""
    return lambda g, x: g.add("Gather", x, g.constant(np.arange(count)[::-1].copy()))


def reduced(g: Graph, x: str) -> str:
    """A sum over the first axis, added to the tensor."""
    return g.add("Add", x, g.add("ReduceSum", x, g.constant([0])))


def product(*shape: int) -> Link:
    """A product with a matrix, or with a stack of them."""
    return lambda g, x: g.add("MatMul", x, g.weight(*shape))


def taken_apart(count: int) -> Link:
    """Parts, joined again."""

    def link(g: Graph, x: str) -> str:
        first = g.add("Split", x, axis=0, num_outputs=count, outputs=count)
        return g.add("Concat", first, *(f"{first}_{place}" for place in range(1, count)), axis=0)

    return link


def lanes(count: int) -> Link:
    """Lanes, each by itself, whose sum is added to all."""
    return lambda g, x: g.add("Add", x, g.add("Sum", *(g.add("Gather", x, g.constant(lane)) for lane in range(count))))


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
    both = link_time(reduced, 8, 2048) - link_time(reduced, 8, 1)
    multiply = link_time(product(8, 8), 1, 8)
    read = (link_time(product(64, 64), 1, 64) - multiply) / 2**12
    multiplied = ((link_time(product(128, 128), 128, 128) - multiply) / 2**14 - read) / 2**7
    matrix = (link_time(product(8, 16, 16), 8, 1, 16) - multiply) / 8 - 256 * read
    packed = ((link_time(product(16, 64, 64), 16, 8, 64) - multiply) / 16 - matrix) / 2**12 - read - 8 * multiplied
    return Costs(
        launch=launch,
        handled=handled,
        port=port,
        lane=lane,
        product=multiply,
        matrix=matrix,
        light=light,
        heavy=heavy,
        copied=copied,
        reduced=both / 2**14 - light - run / 2**11,
        run=run,
        spilled=spilled,
        read=read,
        packed=packed,
        multiplied=multiplied,
    )
