"""Measure the start of sessions: ``python -m benchmarks.startup [--only decoder] [--write]``.

Decoders and CNNs with 10 MB, 100 MB and 1 GB of random weights are optimized by ``xopt``, and by
``xopt fast --for startup``. A round loads each file of a model and runs it once, in a process of
its own, on one thread. It measures the time from the creation of the session to the first result,
and the peak of memory above that of Python and onnxruntime. Warm rounds measure CPU time, which
depends least on other processes. Cold rounds first drop the files from the page cache of the system
(Linux only), and measure wall time, because reading the file takes most of it. Ratios are medians
over the rounds.

``--settings`` also measures other session settings, on the result of ``--for startup``.
"""

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any, Final, NamedTuple

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from benchmarks.large import Sizes, model_of
from benchmarks.measured import ROOT, Table, keep, merged, read

PAGE: Final = ROOT / "docs" / "large-models.md"
_DECODERS: Final = {
    "10 MB": Sizes(2, 256, 704, 8, 4, 2000),
    "100 MB": Sizes(3, 768, 2048, 12, 4, 4000),
    "1 GB": Sizes(3),
}
_CNNS: Final = {"10 MB": (256, 4), "100 MB": (512, 10), "1 GB": (1024, 27)}
"""Channels and layers."""
_EDGE: Final = 8
"""Height and width of the image."""
_COMMANDS: Final = ("xopt", "xopt fast --for startup")
_SETTINGS: Final[Mapping[str, Mapping[str, Any]]] = {
    "ORT graph optimizations: extended": {"level": "extended"},
    "ORT graph optimizations: off": {"level": "off"},
    "no prepacking": {"session.disable_prepacking": "1"},
    "no memory pattern": {"enable_mem_pattern": False},
    "no arena": {"enable_cpu_mem_arena": False},
    "no spinning": {"session.intra_op.allow_spinning": "0"},
    "initializers outside the arena": {"session.use_device_allocator_for_initializers": "1"},
}
_CHILD: Final = """
import json, sys
from time import perf_counter, process_time
import numpy as np, onnxruntime as ort
path, changes, runs = sys.argv[1], json.loads(sys.argv[2]), int(sys.argv[3])
def memory(name):
    with open("/proc/self/status") as stream:
        return next(int(line.split()[1]) for line in stream if line.startswith(name)) * 1024
def values(port):
    if port.name == "ids":
        return np.ones((1, 8), np.int64)
    sizes = [dim if isinstance(dim, int) else int(dim == "batch") for dim in port.shape]
    return np.ones(sizes, np.float32)
idle, start, cpu_start = memory("VmRSS"), perf_counter(), process_time()
options = ort.SessionOptions()
options.intra_op_num_threads = 1
level = changes.pop("level", "all")
level = "DISABLE_ALL" if level == "off" else f"ENABLE_{level.upper()}"
options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, f"ORT_{level}")
for name, value in changes.items():
    if "." in name:
        options.add_session_config_entry(name, value)
    else:
        setattr(options, name, value)
session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
feeds = {port.name: values(port) for port in session.get_inputs()}
session.run(None, feeds)
seconds, cpu, peak = perf_counter() - start, process_time() - cpu_start, memory("VmHWM") - idle
times = []
for _ in range(runs):
    cpu_start = process_time()
    session.run(None, feeds)
    times.append(process_time() - cpu_start)
print(json.dumps([cpu, peak, seconds, min(times, default=0.0)]))
"""


class Start(NamedTuple):
    """The start of a session.

    Attributes:
        cpu: seconds of CPU time to the first result.
        peak: bytes of memory.
        wall: seconds to the first result.
        run: seconds of CPU time of the fastest later run.
    """

    cpu: float
    peak: int
    wall: float
    run: float


class Subject(NamedTuple):
    """A file, and the settings of its session that differ from the defaults."""

    path: Path
    settings: Mapping[str, Any]


def decoder(sizes: Sizes) -> onnx.ModelProto:
    """A LLaMA with its weights."""
    model, random = model_of(sizes), np.random.default_rng(0)
    shapes = sizes.ends()
    for layer in range(sizes.layers):
        shapes |= sizes.layer(layer)
    for name, shape in shapes.items():
        scale = np.float32(0.02 if len(shape) > 1 else 1)
        weight = random.standard_normal(shape, np.float32) * scale
        model.graph.initializer.append(numpy_helper.from_array(weight, name))
    return model


def cnn(channels: int, layers: int) -> onnx.ModelProto:
    """A stack of Conv, BatchNormalization and Relu, with its weights."""
    random = np.random.default_rng(0)
    nodes, weights, x = [], [], "x"
    for layer in range(layers):
        width = channels if layer else 3
        kernel = random.standard_normal((channels, width, 3, 3), np.float32)
        weights.append((f"w{layer}", kernel * np.float32(math.sqrt(2 / (9 * width)))))
        weights += [(f"{name}{layer}", random.random(channels, np.float32)) for name in "sbmv"]
        names = [f"{name}{layer}" for name in "csbmv"]
        nodes += [
            helper.make_node("Conv", [x, f"w{layer}"], [f"c{layer}"], pads=[1] * 4),
            helper.make_node("BatchNormalization", names, [f"n{layer}"]),
            helper.make_node("Relu", [f"n{layer}"], [f"r{layer}"]),
        ]
        x = f"r{layer}"
    nodes.append(helper.make_node("GlobalAveragePool", [x], ["y"]))
    graph = helper.make_graph(
        nodes,
        "cnn",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 3, _EDGE, _EDGE])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(weight, name) for name, weight in weights],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)


def models() -> Iterator[tuple[str, str, Callable[[], onnx.ModelProto]]]:
    """Kinds and sizes of the models, and functions that make them."""
    for size, sizes in _DECODERS.items():
        yield "decoder", size, lambda sizes=sizes: decoder(sizes)  # type: ignore[misc]
        yield "CNN", size, lambda shape=_CNNS[size]: cnn(*shape)  # type: ignore[misc]


def settings_of(model: Path) -> dict[str, Any]:
    """The session settings that ``--for startup`` writes next to a model, in ``.session.json``."""
    stored = json.loads(model.with_name(f"{model.name}.session.json").read_text(encoding="utf-8"))
    return {"level": stored["graph_optimization_level"], **stored["session_config_entries"]}


def prepared(make: Callable[[], onnx.ModelProto], folder: Path) -> dict[str, Subject]:
    """Write the original, and optimize it by the commands of `_COMMANDS`; returns all files by
    name.
    """
    paths = {name: folder / f"{index}.onnx" for index, name in enumerate(("original", *_COMMANDS))}
    onnx.save(make(), paths["original"])
    for name, options in zip(_COMMANDS, ((), ("--fast", "--for", "startup")), strict=True):
        command = [sys.executable, "-m", "xoptim", str(paths["original"]), "-o", str(paths[name])]
        subprocess.run([*command, *options, "--quiet"], check=True)
    subprocess.run(["sync"], check=True)
    for_startup = paths[_COMMANDS[1]]
    subjects = {name: Subject(path, {}) for name, path in paths.items()}
    return subjects | {_COMMANDS[1]: Subject(for_startup, settings_of(for_startup))}


def drop_pages(model: Path) -> None:
    """Drop a model and its weights from the page cache."""
    for path in (model, model.with_name(f"{model.name}.data")):
        if path.exists():
            descriptor = os.open(path, os.O_RDONLY)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)


def start(subject: Subject, runs: int = 0) -> Start:
    """Start a session in a process of its own."""
    arguments = [str(subject.path), json.dumps(subject.settings), str(runs)]
    done = subprocess.run(
        [sys.executable, "-c", _CHILD, *arguments], check=True, capture_output=True, text=True
    )
    return Start(*json.loads(done.stdout))


def measure(
    subjects: Mapping[str, Subject], rounds: int, *, is_cold: bool = False, runs: int = 0
) -> dict[str, list[Start]]:
    """Starts of all subjects, in turn.

    Warm rounds are preceded by one that is not counted, which fills the page cache.
    """
    starts: dict[str, list[Start]] = {name: [] for name in subjects}
    for number in range(rounds + (not is_cold)):
        for name, subject in subjects.items():
            if is_cold:
                drop_pages(subject.path)
            session_start = start(subject, runs)
            if is_cold or number:
                starts[name].append(session_start)
    return starts


def ratio(times: Sequence[float], base: Sequence[float]) -> str:
    """The median over the rounds of each time divided by the base of its round."""
    return f"{median(a / b for a, b in zip(times, base, strict=True)):.2f}"


def row(kind: str, size: str, subjects: Mapping[str, Subject], rounds: int) -> list[str]:
    """The measurements of one model."""
    cells = [kind, size]
    warm = measure(subjects, rounds)
    cold = measure(subjects, rounds, is_cold=True)
    for seconds in (
        {name: [entry.cpu for entry in starts] for name, starts in warm.items()},
        {name: [entry.wall for entry in starts] for name, starts in cold.items()},
    ):
        cells += [ratio(seconds[name], seconds["original"]) for name in _COMMANDS]
    peaks = {name: median(entry.peak for entry in warm[name]) for name in warm}
    return [*cells, *(f"{peaks[name] / 1e6:.0f} MB" for name in ("original", *_COMMANDS))]


def settings_rows(kind: str, size: str, subject: Subject, rounds: int) -> Iterator[list[str]]:
    """Starts, memory and runs with other settings, divided by those with the defaults."""
    subjects = {"defaults": Subject(subject.path, {})}
    subjects |= {name: Subject(subject.path, changes) for name, changes in _SETTINGS.items()}
    starts = measure(subjects, rounds, runs=5)
    base = starts["defaults"]
    for name in _SETTINGS:
        columns = (
            ratio([entry[index] for entry in starts[name]], [entry[index] for entry in base])
            for index in (0, 1, 3)  # cpu, peak, run
        )
        yield [f"{kind}, {size}", name, *columns]


def in_order(old: Table | None, new: Table) -> Table:
    """The rows of both tables, sorted by kind and size of the model; new rows replace old ones."""
    table, order = merged(old, new, 2), [*_CNNS]
    return table._replace(
        rows=sorted(
            table.rows, key=lambda row: (row[0], order.index(row[1]) if row[1] in order else 0)
        )
    )


_COLUMNS: Final = (
    *("model", "weights", "warm, xopt", "warm, --for startup"),
    *("cold, xopt", "cold, --for startup"),
    *("memory, original", "memory, xopt", "memory, --for startup"),
)
_SETTINGS_COLUMNS: Final = ("model", "setting", "first result", "peak memory", "later runs")


def main() -> None:
    """Make the models, measure, print tables, and write them into the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="measure only decoder, or only CNN")
    parser.add_argument("--sizes", nargs="*", default=[*_CNNS], help="10 MB, 100 MB, 1 GB")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--settings", action="store_true", help="measure other settings as well")
    parser.add_argument("--write", action="store_true", help="write the tables into the page")
    arguments = parser.parse_args()
    rows: list[list[str]] = []
    rows_of_settings: list[list[str]] = []
    for kind, size, make in models():
        if arguments.only not in kind or size not in arguments.sizes:
            continue
        with tempfile.TemporaryDirectory() as folder:
            subjects = prepared(make, Path(folder))
            print(kind, size, "settings:", subjects[_COMMANDS[1]].settings, flush=True)
            rows.append(row(kind, size, subjects, arguments.rounds))
            if arguments.settings:
                rows_of_settings += settings_rows(
                    kind, size, subjects[_COMMANDS[1]], arguments.rounds
                )
    tables = {"startup": Table(_COLUMNS, rows)}
    if rows_of_settings:
        tables["startup, settings"] = Table(_SETTINGS_COLUMNS, rows_of_settings)
    for table in tables.values():
        print(table.markdown())
    if arguments.write:
        old = read(PAGE) if PAGE.with_suffix(".toml").exists() else {}
        keep(PAGE, old | {name: in_order(old.get(name), table) for name, table in tables.items()})


if __name__ == "__main__":
    main()
