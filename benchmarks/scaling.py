"""Growth of the time of an optimization with the size of the graph, beside onnxruntime and other optimizers.

    python benchmarks/scaling.py                                  # 1k to 100k nodes, every optimizer that is installed
    python benchmarks/scaling.py --sizes 1000,10000 --tools xoptim,ort-all,ort-none
    python benchmarks/scaling.py --patterns 300 --sizes 10000     # the cost of patterns that cannot match

Every optimizer runs in a process of its own, on one thread where it has such an option, after a warm-up on a tiny model
and with Python's garbage collector disabled. Small models are timed several times and the best time counts. A tool that
exceeds the time limit once is not run on larger models. onnxruntime is timed from the serialized model to a ready
session, with `enable_mem_reuse` off: its memory planner, which is not compared here, needs quadratic time otherwise.
"""

import argparse
import gc
import importlib.util
import json
import pathlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import xoptim

HIDDEN, HEADS, INNER = 16, 2, 32
OPSET = 17
ENOUGH_SECONDS, ENOUGH_RUNS = 2.0, 7


class Writer:
    """A graph that grows node by node; results are numbered, constants are `Constant` nodes as exporters write them."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[TensorProto] = []
        self.random = np.random.default_rng(0)

    def add(self, op_type: str, *inputs: str, **attributes: Any) -> str:
        """Append a node and return the name of its result."""
        number = len(self.nodes)
        self.nodes.append(helper.make_node(op_type, inputs, [f"r{number}"], name=f"n{number}", **attributes))
        return f"r{number}"

    def constant(self, value: Any, dtype: Any = np.float32) -> str:
        """Append a constant."""
        return self.add("Constant", value=numpy_helper.from_array(np.asarray(value, dtype)))

    def weight(self, name: str, *shape: int) -> str:
        """Add an initializer with random values, about normalized."""
        values = self.random.standard_normal(shape) * shape[0] ** -0.5
        self.weights.append(numpy_helper.from_array(values.astype(np.float32), name))
        return name

    def model(self, result: str) -> onnx.ModelProto:
        """The model that maps ``X`` (batch, seq, hidden) to ``result``."""
        self.nodes.append(helper.make_node("Identity", [result], ["Y"]))
        shape: list[str | int | None] = ["batch", "seq", HIDDEN]
        graph = helper.make_graph(
            self.nodes,
            "scaling",
            [helper.make_tensor_value_info("X", TensorProto.FLOAT, shape)],
            [helper.make_tensor_value_info("Y", TensorProto.FLOAT, shape)],
            self.weights,
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)


def chain(size: int) -> onnx.ModelProto:
    """A chain of elementwise operators and transpositions; some cancel out or merge."""
    writer, x = Writer(), "X"
    bias = writer.weight("bias", HIDDEN)
    while len(writer.nodes) < size:
        x = writer.add("Relu", writer.add("Add", x, bias))
        x = writer.add("Transpose", writer.add("Transpose", x, perm=[1, 0, 2]), perm=[1, 0, 2])
        x = writer.add("Mul", x, writer.constant(0.5))
        x = writer.add("Tanh", writer.add("Identity", x))
        x = writer.add("Unsqueeze", x, writer.constant([0], np.int64))
        x = writer.add("Squeeze", x, writer.constant([0], np.int64))
    return writer.model(x)


def stack(size: int) -> onnx.ModelProto:
    """Layers of a transformer as tracing writes them: shapes computed at run time, norms and Gelu in parts."""
    writer, x = Writer(), "X"
    weights = {name: writer.weight(f"w{name}", HIDDEN, HIDDEN) for name in ("q", "k", "v", "o")}
    weights["up"], weights["down"] = writer.weight("up", HIDDEN, INNER), writer.weight("down", INNER, HIDDEN)
    weights["gain"], weights["shift"] = writer.weight("gain", HIDDEN), writer.weight("shift", HIDDEN)
    while len(writer.nodes) < size:
        x = _norm(writer, writer.add("Add", x, _attention(writer, x, weights)), weights)
        up = _gelu(writer, writer.add("MatMul", x, weights["up"]))
        x = _norm(writer, writer.add("Add", x, writer.add("MatMul", up, weights["down"])), weights)
    return writer.model(x)


def _dimension(writer: Writer, x: str, axis: int) -> str:
    size = writer.add("Gather", writer.add("Shape", x), writer.constant(axis, np.int64), axis=0)
    return writer.add("Unsqueeze", size, writer.constant([0], np.int64))


def _attention(writer: Writer, x: str, weights: dict[str, str]) -> str:
    def heads(name: str, perm: list[int]) -> str:
        y = writer.add("MatMul", x, weights[name])
        parts = [writer.constant([n], np.int64) for n in (HEADS, HIDDEN // HEADS)]
        shape = writer.add("Concat", _dimension(writer, y, 0), _dimension(writer, y, 1), *parts, axis=0)
        return writer.add("Transpose", writer.add("Reshape", y, shape), perm=perm)

    scores = writer.add("MatMul", heads("q", [0, 2, 1, 3]), heads("k", [0, 2, 3, 1]))
    scores = writer.add("Softmax", writer.add("Div", scores, writer.constant((HIDDEN / HEADS) ** 0.5)), axis=-1)
    mixed = writer.add("Transpose", writer.add("MatMul", scores, heads("v", [0, 2, 1, 3])), perm=[0, 2, 1, 3])
    width = writer.constant([HIDDEN], np.int64)
    shape = writer.add("Concat", _dimension(writer, mixed, 0), _dimension(writer, mixed, 1), width, axis=0)
    return writer.add("MatMul", writer.add("Reshape", mixed, shape), weights["o"])


def _norm(writer: Writer, x: str, weights: dict[str, str]) -> str:
    centred = writer.add("Sub", x, writer.add("ReduceMean", x, axes=[-1]))
    variance = writer.add("ReduceMean", writer.add("Pow", centred, writer.constant(2.0)), axes=[-1])
    deviation = writer.add("Sqrt", writer.add("Add", variance, writer.constant(1e-5)))
    scaled = writer.add("Mul", writer.add("Div", centred, deviation), weights["gain"])
    return writer.add("Add", scaled, weights["shift"])


def _gelu(writer: Writer, x: str) -> str:
    erf = writer.add("Erf", writer.add("Div", x, writer.constant(2.0**0.5)))
    weighted = writer.add("Mul", x, writer.add("Add", erf, writer.constant(1.0)))
    return writer.add("Mul", weighted, writer.constant(0.5))


SHAPES: dict[str, Callable[[int], onnx.ModelProto]] = {"chain": chain, "stack": stack}


def optimize_with_xoptim(model: onnx.ModelProto) -> int:
    """Nodes left by the default patterns."""
    return len(xoptim.optimize(model).graph.node)


def optimize_with_idle_patterns(count: int) -> Callable[[onnx.ModelProto], int]:
    """The same with patterns added that are anchored at operators no model has."""

    def match(_self: Any, _g: Any, _node: Any, _matched: Any) -> None:
        return None

    def apply(_self: Any, _g: Any, *_nodes: Any) -> list[Any]:
        return []

    def pattern(number: int) -> Any:
        members = {"anchors": (f"NoSuchOp{number}",), "match": match, "apply": apply, "__doc__": "Never matches."}
        return type(f"Idle{number}Pattern", (xoptim.PatternOptimization,), members)()

    options = xoptim.OptimizationOptions(patterns=["default", *(pattern(number) for number in range(count))])
    return lambda model: len(xoptim.optimize(model, options).graph.node)


def create_session(level: str) -> Callable[[onnx.ModelProto], None]:
    """Creation of a session of onnxruntime; the nodes after its optimizer are not counted."""
    import onnxruntime

    def create(model: onnx.ModelProto) -> None:
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
        options.enable_mem_reuse = False
        options.intra_op_num_threads = 1
        options.log_severity_level = 4
        onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])

    return create


def optimize_with_onnxslim(model: onnx.ModelProto) -> int:
    """Nodes left by OnnxSlim."""
    import onnxslim

    return len(onnxslim.slim(model).graph.node)


def optimize_with_onnxsim(model: onnx.ModelProto) -> int:
    """Nodes left by onnxsim."""
    import onnxsim

    return len(onnxsim.simplify(model)[0].graph.node)


def optimize_with_onnxscript(model: onnx.ModelProto) -> int:
    """Nodes left by onnxscript's optimizer."""
    from onnxscript import optimizer

    return len(optimizer.optimize(model).graph.node)


TOOLS: dict[str, tuple[str, Callable[[], Callable[[onnx.ModelProto], int | None]]]] = {
    "xoptim": ("xoptim", lambda: optimize_with_xoptim),
    "ort-all": ("onnxruntime", lambda: create_session("ORT_ENABLE_ALL")),
    "ort-none": ("onnxruntime", lambda: create_session("ORT_DISABLE_ALL")),
    "onnxsim": ("onnxsim", lambda: optimize_with_onnxsim),
    "onnxslim": ("onnxslim", lambda: optimize_with_onnxslim),
    "onnxscript": ("onnxscript", lambda: optimize_with_onnxscript),
}
"""The package a tool needs, and the function to time, made in the child process."""


def measure(runs: Sequence[Callable[[onnx.ModelProto], int | None]], path: str) -> dict[str, Any]:
    """Best time of each function, in seconds, over a few turns on fresh copies, and the nodes that the last one leaves."""
    source, small = onnx.load(path), chain(20)
    best, total, left = [float("inf")] * len(runs), 0.0, None
    least = 1 if len(runs) == 1 else 3  # a difference of two times needs more than one sample
    for run in runs:
        run(small)
    for turn in range(1, ENOUGH_RUNS + 1):
        for index, run in enumerate(runs):
            model = onnx.ModelProto()
            model.CopyFrom(source)
            gc.collect()
            gc.disable()
            start = time.perf_counter()
            left = run(model)
            elapsed = time.perf_counter() - start
            gc.enable()
            best[index], total = min(best[index], elapsed), total + elapsed
        if turn >= least and total > ENOUGH_SECONDS * len(runs):
            break
    return {"seconds": best, "nodes": left}


def child(tool: str, path: str) -> None:
    """Measure one tool on one model and print the result as the last line."""
    name, _, count = tool.partition(":")
    runs = [optimize_with_idle_patterns(n) for n in (0, int(count))] if name == "idle" else [TOOLS[name][1]()]
    print("\n" + json.dumps(measure(runs, path)))


def ask(tool: str, path: pathlib.Path, limit: float) -> dict[str, Any]:
    """The result of a child process, or ``{"failed": why}``."""
    command = [sys.executable, __file__, "--child", tool, str(path)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit, check=False)
    except subprocess.TimeoutExpired:
        return {"failed": f"> {limit:.0f} s"}
    if done.returncode:
        return {"failed": (done.stderr.strip().splitlines() or [f"exit {done.returncode}"])[-1][:60]}
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def row(*cells: object) -> None:
    """Print a line of the table: the first columns to the left, numbers to the right."""
    texts = [str(cell) for cell in cells]
    print(f"{texts[0]:<7}{texts[1]:>8}  {texts[2]:<11}{texts[3]:>11}{texts[4]:>10}{texts[5]:>9}{texts[6]:>10}", flush=True)


Timings = dict[tuple[str, int, str], float]


def compare(shape: str, sizes: Sequence[int], tools: Iterable[str], folder: pathlib.Path, limit: float) -> Timings:
    """Time every tool at every size of one shape of graph; print as results come in."""
    timings: Timings = {}
    exhausted: set[str] = set()
    for size in sizes:
        path = folder / f"{shape}{size}.onnx"
        onnx.save(SHAPES[shape](size), path)
        for tool in tools:
            if tool in exhausted:
                continue
            result = ask(tool, path, limit)
            if "failed" in result:
                exhausted.add(tool)
                row(shape, size, tool, result["failed"], "", "", "")
                continue
            seconds: float = result["seconds"][0]
            timings[shape, size, tool] = seconds
            reference = timings.get((shape, size, "xoptim"))
            share = "" if reference is None else f"{seconds / reference:.2f}"
            left = "" if result["nodes"] is None else result["nodes"]
            row(shape, size, tool, f"{seconds:.4f}", f"{1e6 * seconds / size:.1f}", left, share)
    return timings


def summarize(timings: Timings, shapes: Iterable[str], sizes: Sequence[int], tools: Iterable[str]) -> None:
    """Print how times grow from one size to ten times that size, and xoptim's time beside onnxruntime's."""
    for small, large in ((a, b) for a in sizes for b in sizes if b == 10 * a):
        print(f"\ntime({large}) / time({small}); 10 is linear")
        for shape in shapes:
            known = [tool for tool in tools if (shape, small, tool) in timings and (shape, large, tool) in timings]
            growth = (f"{tool} {timings[shape, large, tool] / timings[shape, small, tool]:.1f}" for tool in known)
            print(f"  {shape:<7}" + "  ".join(growth))
    print("\nxoptim / onnxruntime's optimizer alone (session with all optimizations, less one without)")
    for shape in shapes:
        for size in sizes:
            ours, most, none = (timings.get((shape, size, tool)) for tool in ("xoptim", "ort-all", "ort-none"))
            if ours is not None and most is not None and none is not None:
                alone = most - none
                ratio = f"{ours / alone:.2f}" if alone > 0 else "-"
                print(f"  {shape:<7}{size:>8}  {ours:.3f} s / {alone:.3f} s = {ratio}; whole session {ours / most:.2f}")


def idle_patterns(count: int, sizes: Iterable[int], folder: pathlib.Path, limit: float) -> None:
    """Print the cost of patterns whose anchors do not occur."""
    print(f"\n{count} patterns whose anchors do not occur")
    for size in sizes:
        path = folder / f"idle{size}.onnx"
        onnx.save(stack(size), path)
        result = ask(f"idle:{count}", path, limit)
        if "failed" in result:
            print(f"  {size:>8}  {result['failed']}")
            continue
        without, with_them = result["seconds"]
        extra = with_them - without
        print(
            f"  {size:>8}  {without:.4f} s without, {with_them:.4f} s with them: "
            f"{1000 * extra:+.1f} ms ({100 * extra / without:+.1f} %)"
        )


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    installed = [name for name, (package, _) in TOOLS.items() if importlib.util.find_spec(package)]
    parser.add_argument("--sizes", default="1000,10000,50000,100000", help="numbers of nodes, comma-separated")
    parser.add_argument("--shapes", default=",".join(SHAPES), help="shapes of graph: %(default)s")
    parser.add_argument("--tools", default=",".join(installed), help="of %(default)s")
    parser.add_argument("--limit", type=float, default=120.0, help="seconds for one tool and size (default %(default)s)")
    parser.add_argument("--patterns", type=int, default=300, help="idle patterns to measure, 0 for none")
    parser.add_argument("--child", nargs=2, metavar=("TOOL", "MODEL"), help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> None:
    """Measure and print."""
    chosen = arguments()
    if chosen.child:
        child(*chosen.child)
        return
    sizes = sorted(int(size) for size in chosen.sizes.split(","))
    shapes, tools = chosen.shapes.split(","), [tool for tool in chosen.tools.split(",") if tool]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        timings: Timings = {}
        if tools:
            row("shape", "nodes", "tool", "seconds", "us/node", "left", "/ xoptim")
        for shape in shapes if tools else ():
            timings.update(compare(shape, sizes, tools, folder, chosen.limit))
        if timings:
            summarize(timings, shapes, sizes, tools)
        if chosen.patterns:
            idle_patterns(chosen.patterns, sizes, folder, chosen.limit)


if __name__ == "__main__":
    main()
