"""Growth of time and memory of an optimization with the size of the graph, compared with
onnxruntime and other optimizers.

    # 1k to 100k nodes, every optimizer that is installed
    python -m benchmarks.scaling
    python -m benchmarks.scaling --sizes 1000,10000 --tools xoptim,ort-all,ort-none
    python -m benchmarks.scaling --shapes families --sizes 250,500,1000 --tools xoptim,xoptim+ort

The shape ``families`` stands for all families of `families.py`: graphs that repeat one structure,
or whose dynamic dimensions become large expressions. Their size is a number of repetitions.

Every optimizer runs in a process of its own, on one thread where it has such an option, after a
warm-up on a tiny model, without Python's garbage collector. Small models are timed several times
and the best time counts. MiB is the growth of resident memory from before the optimization to the
peak (Linux only). A tool that fails or exceeds the time limit is not run on larger models of the
shape. onnxruntime is timed from the serialized model to a ready session, with ``enable_mem_reuse``
off: its memory planner takes quadratic time, and is not compared here.
"""

import argparse
import gc
import importlib.util
import pathlib
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

import xoptim
from benchmarks.families import FAMILIES, SIZES, Graph
from benchmarks.tools import PEERS, apart
from xoptim.system.machine import peak_size, resident_size

HIDDEN, HEADS, INNER = 16, 2, 32
OPSET = 17
ENOUGH_SECONDS, ENOUGH_RUNS = 2.0, 7


def _constant(g: Graph, value: Any, dtype: Any = np.float32) -> str:
    """A constant as exporters write it: a node."""
    return g.add("Constant", value=numpy_helper.from_array(np.asarray(value, dtype)))


def chain(size: int) -> onnx.ModelProto:
    """A chain of elementwise operators, Transpose and Unsqueeze; some cancel out or merge."""
    g = Graph(OPSET)
    x = g.input("batch", "seq", HIDDEN)
    bias = g.weight(HIDDEN)
    while len(g.nodes) < size:
        x = g.add("Relu", g.add("Add", x, bias))
        x = g.add("Transpose", g.add("Transpose", x, perm=[1, 0, 2]), perm=[1, 0, 2])
        x = g.add("Mul", x, _constant(g, 0.5))
        x = g.add("Tanh", g.add("Identity", x))
        x = g.add("Unsqueeze", x, _constant(g, [0], np.int64))
        x = g.add("Squeeze", x, _constant(g, [0], np.int64))
    return g.model(x)


def stack(size: int) -> onnx.ModelProto:
    """Layers of a transformer as tracing exports them: shapes computed at run time, layer
    normalizations and Gelu decomposed.
    """
    g = Graph(OPSET)
    x = g.input("batch", "seq", HIDDEN)
    weights = {name: g.weight(HIDDEN, HIDDEN) for name in ("q", "k", "v", "o")}
    weights["up"], weights["down"] = g.weight(HIDDEN, INNER), g.weight(INNER, HIDDEN)
    weights["gain"], weights["shift"] = g.weight(HIDDEN), g.weight(HIDDEN)
    while len(g.nodes) < size:
        x = _norm(g, g.add("Add", x, _attention(g, x, weights)), weights)
        up = _gelu(g, g.add("MatMul", x, weights["up"]))
        x = _norm(g, g.add("Add", x, g.add("MatMul", up, weights["down"])), weights)
    return g.model(x)


def _dimension(g: Graph, x: str, axis: int) -> str:
    size = g.add("Gather", g.add("Shape", x), _constant(g, axis, np.int64), axis=0)
    return g.add("Unsqueeze", size, _constant(g, [0], np.int64))


def _attention(g: Graph, x: str, weights: dict[str, str]) -> str:
    def heads(name: str, perm: list[int]) -> str:
        y = g.add("MatMul", x, weights[name])
        parts = [_constant(g, [n], np.int64) for n in (HEADS, HIDDEN // HEADS)]
        shape = g.add("Concat", _dimension(g, y, 0), _dimension(g, y, 1), *parts, axis=0)
        return g.add("Transpose", g.add("Reshape", y, shape), perm=perm)

    scores = g.add("MatMul", heads("q", [0, 2, 1, 3]), heads("k", [0, 2, 3, 1]))
    scores = g.add("Softmax", g.add("Div", scores, _constant(g, (HIDDEN / HEADS) ** 0.5)), axis=-1)
    mixed = g.add("Transpose", g.add("MatMul", scores, heads("v", [0, 2, 1, 3])), perm=[0, 2, 1, 3])
    shape = g.add(
        "Concat",
        _dimension(g, mixed, 0),
        _dimension(g, mixed, 1),
        _constant(g, [HIDDEN], np.int64),
        axis=0,
    )
    return g.add("MatMul", g.add("Reshape", mixed, shape), weights["o"])


def _norm(g: Graph, x: str, weights: dict[str, str]) -> str:
    centred = g.add("Sub", x, g.add("ReduceMean", x, axes=[-1]))
    variance = g.add("ReduceMean", g.add("Pow", centred, _constant(g, 2.0)), axes=[-1])
    deviation = g.add("Sqrt", g.add("Add", variance, _constant(g, 1e-5)))
    return g.add(
        "Add", g.add("Mul", g.add("Div", centred, deviation), weights["gain"]), weights["shift"]
    )


def _gelu(g: Graph, x: str) -> str:
    erf = g.add("Erf", g.add("Div", x, _constant(g, 2.0**0.5)))
    return g.add("Mul", g.add("Mul", x, g.add("Add", erf, _constant(g, 1.0))), _constant(g, 0.5))


SHAPES: dict[str, Callable[[int], onnx.ModelProto]] = {
    "chain": chain,
    "stack": stack,
    **FAMILIES,
    **SIZES,
}


def create_session(level: str) -> Callable[[onnx.ModelProto], None]:
    """A function that creates a session of onnxruntime with a level of graph optimizations.

    It returns no number of nodes.
    """

    def create(model: onnx.ModelProto) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
        options.enable_mem_reuse = False
        options.intra_op_num_threads = 1
        options.log_severity_level = 4
        onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )

    return create


def nodes_after(
    optimize: Callable[[onnx.ModelProto], onnx.ModelProto],
) -> Callable[[onnx.ModelProto], int]:
    """A function that optimizes a model, and returns the number of nodes of the result."""
    return lambda model: len(optimize(model).graph.node)


TOOLS: dict[str, tuple[str, Callable[[onnx.ModelProto], int | None]]] = {
    "xoptim": ("xoptim", nodes_after(xoptim.optimize)),
    "xoptim+ort": ("xoptim", nodes_after(partial(xoptim.optimize, patterns="default+onnxruntime"))),
    "ort-all": ("onnxruntime", create_session("ORT_ENABLE_ALL")),
    "ort-none": ("onnxruntime", create_session("ORT_DISABLE_ALL")),
    **{name: (name, nodes_after(optimize)) for name, optimize in PEERS.items()},
}
"""The package a tool needs, and the function to time."""


def measure(tool: str, path: pathlib.Path) -> tuple[float, int | None, float]:
    """The best time in seconds over a few runs on copies of a model, the number of nodes of the
    result, and the growth of memory in mebibytes.
    """
    run, source = TOOLS[tool][1], onnx.load(path)
    best, total = float("inf"), 0.0
    run(chain(20))
    before = resident_size() or 0
    for _ in range(ENOUGH_RUNS):
        model = onnx.ModelProto()
        model.CopyFrom(source)
        gc.collect()
        gc.disable()
        start = time.perf_counter()
        node_count = run(model)
        elapsed = time.perf_counter() - start
        gc.enable()
        best, total = min(best, elapsed), total + elapsed
        if total > ENOUGH_SECONDS:
            break
    return best, node_count, ((peak_size() or 0) - before) / (1 << 20)


def row(*cells: object) -> None:
    """Print a line of the table: the first columns to the left, numbers to the right."""
    texts = [str(cell) for cell in cells]
    print(
        f"{texts[0]:<12}{texts[1]:>8}  {texts[2]:<11}"
        + "".join(f"{text:>10}" for text in texts[3:]),
        flush=True,
    )


Timings = dict[tuple[str, int, str], float]


def compare(
    shape: str, sizes: Sequence[int], tools: Iterable[str], folder: pathlib.Path, limit: float
) -> Timings:
    """Time every tool at every size of one shape of graph; print as results come in."""
    timings: Timings = {}
    exhausted: set[str] = set()
    for size in sizes:
        path = folder / f"{shape}{size}.onnx"
        onnx.save(SHAPES[shape](size), path)
        for tool in tools:
            if tool in exhausted:
                continue
            try:
                seconds, node_count, memory = apart(measure, tool, path, limit=limit)
            except RuntimeError as error:
                exhausted.add(tool)
                row(shape, size, tool, error)
                continue
            timings[shape, size, tool] = seconds
            reference = timings.get((shape, size, "xoptim"))
            figures = (
                f"{seconds:.4f}",
                f"{1e6 * seconds / size:.1f}",
                "" if node_count is None else node_count,
                f"{memory:.0f}",
                "" if reference is None else f"{seconds / reference:.2f}",
            )
            row(shape, size, tool, *figures)
    return timings


def summarize(
    timings: Timings, shapes: Iterable[str], sizes: Sequence[int], tools: Iterable[str]
) -> None:
    """Print how times grow from each size to the next, and xoptim's time relative to
    onnxruntime's.
    """
    for small, large in pairwise(sizes):
        print(f"\ntime({large}) / time({small}); {large / small:g} is linear")
        for shape in shapes:
            timed_tools = [
                tool
                for tool in tools
                if (shape, small, tool) in timings and (shape, large, tool) in timings
            ]
            growth = (
                f"{tool} {timings[shape, large, tool] / timings[shape, small, tool]:.1f}"
                for tool in timed_tools
            )
            print(f"  {shape:<12}" + "  ".join(growth))
    print(
        "\nxoptim / onnxruntime's optimizer alone: the time of a session with all graph "
        "optimizations minus the time of one without"
    )
    for shape in shapes:
        for size in sizes:
            xoptim_time, ort_all, ort_none = (
                timings.get((shape, size, tool)) for tool in ("xoptim", "ort-all", "ort-none")
            )
            if xoptim_time is not None and ort_all is not None and ort_none is not None:
                optimizer = ort_all - ort_none
                ratio = f"{xoptim_time / optimizer:.2f}" if optimizer > 0 else "-"
                print(
                    f"  {shape:<12}{size:>8}  {xoptim_time:.3f} s / {optimizer:.3f} s = {ratio}; "
                    f"whole session {xoptim_time / ort_all:.2f}"
                )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    installed = [name for name, (package, _) in TOOLS.items() if importlib.util.find_spec(package)]
    parser.add_argument(
        "--sizes", default="1000,10000,50000,100000", help="numbers of nodes, comma-separated"
    )
    parser.add_argument(
        "--shapes",
        default="chain,stack",
        help=f"shapes of graph, or families, of {', '.join(SHAPES)}",
    )
    parser.add_argument("--tools", default=",".join(installed), help="of %(default)s")
    parser.add_argument(
        "--limit",
        type=float,
        default=120.0,
        help="seconds for one tool and size (default %(default)s)",
    )
    options = parser.parse_args()
    sizes = sorted(int(size) for size in options.sizes.split(","))
    shapes, tools = (
        options.shapes.replace("families", ",".join(FAMILIES | SIZES)).split(","),
        options.tools.split(","),
    )
    with tempfile.TemporaryDirectory() as folder:
        timings: Timings = {}
        row("shape", "size", "tool", "seconds", "us / size", "nodes", "MiB", "/ xoptim")
        for shape in shapes:
            timings.update(compare(shape, sizes, tools, pathlib.Path(folder), options.limit))
        if timings:
            summarize(timings, shapes, sizes, tools)


if __name__ == "__main__":
    main()
